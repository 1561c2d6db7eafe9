package redirect

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Lookup is the request DIOCNATLOOK of /dev/pf, _IOWR('D', 23, struct pfioc_natlook). Its
// structure has the source and destination of a connection, and the same before translation, each
// as an address of 16 bytes and a port in the first two of four; then family, protocol, variant,
// direction. All numbers are in network order. The layout is that of XNU, which differs from
// other pf.
const Lookup uint32 = 0xC0000000 | lookupSize<<16 | 'D'<<8 | 23

// lookupSize is the size of struct pfioc_natlook.
const lookupSize = 84

// Offsets in it.
const (
	fromAddr, toAddr, wasToAddr = 0, 16, 48
	fromPort, toPort, wasToPort = 64, 68, 76
	family, protocol, direction = 80, 81, 83
)

const (
	inet = 2 // AF_INET
	tcp  = 6 // IPPROTO_TCP
	out  = 2 // PF_OUT: translated connections are found by the direction of their answers
)

// Asked returns the request for the original destination of a redirected connection of TCP over
// IPv4.
func Asked(from, here netip.AddrPort) (q [lookupSize]byte, err error) {
	a, b := from.Addr().Unmap(), here.Addr().Unmap()
	if !a.Is4() || !b.Is4() {
		return q, fmt.Errorf("the connection from %s to %s is not IPv4, and only IPv4 is redirected", from, here)
	}
	copy(q[fromAddr:], a.AsSlice())
	copy(q[toAddr:], b.AsSlice())
	binary.BigEndian.PutUint16(q[fromPort:], from.Port())
	binary.BigEndian.PutUint16(q[toPort:], here.Port())
	q[family], q[protocol], q[direction] = inet, tcp, out
	return q, nil
}

// Answered returns the original destination in pf's answer.
func Answered(q [lookupSize]byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(q[wasToAddr:])), binary.BigEndian.Uint16(q[wasToPort:]))
}

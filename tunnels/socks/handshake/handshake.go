// Package handshake reads and answers the requests of SOCKS5 (RFC 1928): CONNECT only. The caller
// authenticates the client, sets deadlines and opens the destination.
package handshake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// Version is the version of the protocol.
const Version = 5

// Methods of authentication.
const (
	Anonymous, Password, noMethod = 0, 2, 0xff
)

// Codes of replies.
const (
	Succeeded, Failure, notAllowed           = 0, 1, 2
	hostUnreachable, refusedByHost           = 4, 5
	TimedOut                                 = 6 // TTL expired, which clients show as a timeout
	commandNotSupported, AddressNotSupported = 7, 8
)

const (
	connect                               = 1
	addressIPv4, addressName, addressIPv6 = 1, 3, 4
)

// VersionError is the first byte of a client that does not speak SOCKS5.
type VersionError byte

// Error implements error.
func (e VersionError) Error() string {
	return fmt.Sprintf("it speaks version %d of SOCKS, not 5", byte(e))
}

// Request reads what a client asks for. authenticate receives the methods that the client offers,
// and answers with Select or Refuse. A request that is not supported is answered here.
func Request(conn io.ReadWriter, authenticate func(methods []byte) error) (host string, port uint16, err error) {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:2]); err != nil {
		return "", 0, err
	}
	if head[0] != Version {
		return "", 0, VersionError(head[0])
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(conn, methods); err != nil {
		return "", 0, err
	}
	if err := authenticate(methods); err != nil {
		return "", 0, err
	}
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return "", 0, err
	}
	if head[0] != Version {
		return "", 0, fmt.Errorf("its request has version %d, not 5", head[0])
	}
	return destination(conn, head[1], head[3])
}

// destination reads the address of a request.
func destination(conn io.ReadWriter, command, kind byte) (host string, port uint16, err error) {
	switch kind {
	case addressIPv4, addressIPv6:
		raw := make([]byte, net.IPv4len)
		if kind == addressIPv6 {
			raw = make([]byte, net.IPv6len)
		}
		_, err = io.ReadFull(conn, raw)
		a, _ := netip.AddrFromSlice(raw)
		host = a.String()
	case addressName:
		host, err = Text(conn)
	default:
		return "", 0, errors.Join(fmt.Errorf("its request has an address of type %d", kind), Reply(conn, AddressNotSupported, nil))
	}
	var number [2]byte
	if err == nil {
		_, err = io.ReadFull(conn, number[:])
	}
	if err == nil && command != connect {
		err = errors.Join(fmt.Errorf("it requests command %d, and only CONNECT is supported", command), Reply(conn, commandNotSupported, nil))
	}
	return host, binary.BigEndian.Uint16(number[:]), err
}

// Select answers a client with the method of authentication.
func Select(w io.Writer, method byte) error {
	_, err := w.Write([]byte{Version, method})
	return err
}

// Refuse answers a client that offers no accepted method of authentication.
func Refuse(w io.Writer) error { return Select(w, noMethod) }

// Text reads a text with a length prefix.
func Text(r io.Reader) (string, error) {
	var length [1]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return "", err
	}
	text := make([]byte, length[0])
	_, err := io.ReadFull(r, text)
	return string(text), err
}

// Reply answers a request. bound is the local address of an opened connection, if it is known.
func Reply(w io.Writer, code byte, bound net.Addr) error {
	address := netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	if tcp, is := bound.(*net.TCPAddr); is {
		address = tcp.AddrPort()
	}
	kind, ip := byte(addressIPv4), address.Addr().Unmap()
	if ip.Is6() {
		kind = addressIPv6
	}
	text := append([]byte{Version, code, 0, kind}, ip.AsSlice()...)
	_, err := w.Write(binary.BigEndian.AppendUint16(text, address.Port()))
	return err
}

// Code returns the code of a reply for a reason.
func Code(reason tunnelv1.Reason) byte {
	switch reason {
	case tunnelv1.Reason_REASON_DESTINATION, tunnelv1.Reason_REASON_FORBIDDEN, tunnelv1.Reason_REASON_UNAUTHENTICATED:
		return notAllowed
	case tunnelv1.Reason_REASON_NOT_FOUND:
		return hostUnreachable
	case tunnelv1.Reason_REASON_UNREACHABLE:
		return refusedByHost
	}
	return Failure
}

package redirector

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"switchyard.dev/tunnels/workstation/redirect"
)

// rules returns Rules as expressions of nftables, in order.
func rules(r redirect.Rules, sets map[bool]*nftables.Set) [][]expr.Any {
	all := [][]expr.Any{then(matches(&expr.Meta{Key: expr.MetaKeyMARK, Register: 1}, binaryutil.NativeEndian.PutUint32(Mark)), pass())}
	// A packet without a user's socket, for example of a network file system, matches no user.
	user := matches(&expr.Meta{Key: expr.MetaKeySKUID, Register: 1}, binaryutil.NativeEndian.PutUint32(r.UID))
	for _, four := range []bool{true, false} {
		if r.DNS == 0 {
			break
		}
		for _, a := range redirect.Singles(r.Resolvers, four) {
			for _, protocol := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
				all = append(all, then(user, then(to(netip.PrefixFrom(a, a.BitLen())), then(transport(protocol), then(port(53), redirectTo(r.DNS)...)...)...)...))
			}
		}
	}
	// Addresses of this machine are never redirected, regardless of ranges.
	all = append(all, then(matches(&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true}, binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)), pass()))
	for _, four := range []bool{true, false} {
		for _, p := range redirect.Family(r.Except, four) {
			all = append(all, then(to(p), pass()))
		}
	}
	lead := then(transport(unix.IPPROTO_TCP), then(opening(), redirectTo(r.Port)...)...)
	for _, four := range []bool{true, false} {
		for _, p := range redirect.Family(r.Ranges, four) {
			all = append(all, then(user, then(to(p), lead...)...))
		}
		in := []expr.Any{destination(four), &expr.Lookup{SourceRegister: 1, SetName: sets[four].Name, SetID: sets[four].ID}}
		all = append(all, then(user, then(then(family(four), in...), lead...)...))
	}
	return all
}

// then concatenates expressions into a new list.
func then(first []expr.Any, rest ...expr.Any) []expr.Any {
	return append(append([]expr.Any{}, first...), rest...)
}

func pass() expr.Any { return &expr.Verdict{Kind: expr.VerdictReturn} }

// matches compares the value that an expression loads.
func matches(load expr.Any, with []byte) []expr.Any {
	return []expr.Any{load, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: with}}
}

func family(four bool) []expr.Any {
	which := byte(unix.NFPROTO_IPV6)
	if four {
		which = unix.NFPROTO_IPV4
	}
	return matches(&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, []byte{which})
}

// destination loads the destination address of a packet.
func destination(four bool) expr.Any {
	if four {
		return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4}
	}
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 24, Len: 16}
}

// to matches packets to a range.
func to(p netip.Prefix) []expr.Any {
	bits := uint32(p.Addr().BitLen() / 8)
	out := append(family(p.Addr().Is4()), destination(p.Addr().Is4()))
	if !p.IsSingleIP() {
		mask := net.CIDRMask(p.Bits(), p.Addr().BitLen())
		out = append(out, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: bits, Mask: mask, Xor: make([]byte, bits)})
	}
	return append(out, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Masked().Addr().AsSlice()})
}

func transport(protocol byte) []expr.Any {
	return matches(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, []byte{protocol})
}

func port(number uint16) []expr.Any {
	return matches(&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, binary.BigEndian.AppendUint16(nil, number))
}

// opening matches the first packet of a connection. The kernel treats any packet of a connection
// that it does not track as new, and may begin to track connections only with these rules.
func opening() []expr.Any {
	const fin, syn, rst, ack = 0x01, 0x02, 0x04, 0x10
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{fin | syn | rst | ack}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{syn}},
	}
}

func redirectTo(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)},
		&expr.Redir{RegisterProtoMin: 1, RegisterProtoMax: 1},
	}
}

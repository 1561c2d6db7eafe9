package xtables

import "fmt"

// Tag is the comment that our rules carry where the kernel knows comments.
const Tag = "switchyard"

// Rule is what we put into a chain.
type Rule struct {
	// Loopback asks for packets that came in by the device lo.
	Loopback bool
	// TCP asks for TCP.
	TCP bool
	// Port asks for this destination port of TCP; 0 for any.
	Port uint16
	// Opening asks for the first packet of a TCP connection.
	Opening bool
	// To redirects to this port; 0 leaves the chain.
	To uint16
}

// String writes a rule as iptables does.
func (r Rule) String() string {
	text := ""
	if r.Loopback {
		text += "-i lo "
	}
	if r.TCP {
		text += "-p tcp "
	}
	if r.Port != 0 {
		text += fmt.Sprintf("--dport %d ", r.Port)
	}
	if r.Opening {
		text += "--syn "
	}
	if r.To == 0 {
		return text + "-j RETURN"
	}
	return text + fmt.Sprintf("-j REDIRECT --to-ports %d", r.To)
}

// raw returns the entry of a rule.
func (f Family) raw(r Rule, tagged bool) []byte {
	var matches []byte
	if r.Port != 0 || r.Opening {
		matches = append(matches, tcpMatch(r)...)
	}
	if tagged {
		matches = append(matches, tag()...)
	}
	target := standard(verdictReturn)
	if r.To != 0 {
		target = part("REDIRECT", f.ranges(r.To))
	}
	raw := f.blank(matches, target)
	if r.Loopback {
		const lo = "lo\x00"
		copy(raw[f.iface:], lo)
		copy(raw[f.masks:], "\xff\xff\xff"[:len(lo)])
	}
	if r.TCP {
		const tcp = 6
		native.PutUint16(raw[f.proto:], tcp)
		raw[f.flags] |= f.byProto
	}
	return raw
}

// blank returns an entry that every packet matches.
func (f Family) blank(matches, target []byte) []byte {
	raw := append(append(make([]byte, f.entry), matches...), target...)
	native.PutUint16(raw[f.offsets:], uint16(f.entry+len(matches)))
	native.PutUint16(raw[f.offsets+2:], uint16(len(raw)))
	return raw
}

// jump returns an entry that jumps to a chain: the offset is written with its table.
func (f Family) jump(tagged bool) []byte {
	var matches []byte
	if tagged {
		matches = tag()
	}
	return f.blank(matches, standard(0))
}

// part returns a match or target: its size, name, revision 0 and data.
func part(name string, data []byte) []byte {
	raw := make([]byte, headSize, headSize+len(data))
	native.PutUint16(raw, uint16(headSize+len(data)))
	copy(raw[2:2+maxName-1], name)
	return append(raw, data...)
}

// tcpMatch returns struct xt_tcp: ranges of ports, and of the flags FIN, SYN, RST
// and ACK only SYN, for the first packet of a connection. The kernel takes any
// packet of a connection that it has not followed so far for the first.
func tcpMatch(r Rule) []byte {
	data := make([]byte, 16)
	low, high := r.Port, r.Port
	if r.Port == 0 {
		high = 0xffff
	}
	native.PutUint16(data[2:], 0xffff)
	native.PutUint16(data[4:], low)
	native.PutUint16(data[6:], high)
	if r.Opening {
		const fin, syn, rst, ack = 0x01, 0x02, 0x04, 0x10
		data[9], data[10] = fin|syn|rst|ack, syn
	}
	return part("tcp", data)
}

// tag returns the comment.
func tag() []byte {
	data := make([]byte, 256)
	copy(data, Tag)
	return part("comment", data)
}

// standard returns the target with a verdict. A jump has an offset there, from 0 on.
func standard(verdict int32) []byte {
	data := make([]byte, 8)
	native.PutUint32(data, uint32(verdict))
	return part("", data)
}

// mark returns the entry that begins a chain of a name, and ends the table with
// the name ERROR.
func (f Family) mark(chain string) []byte {
	data := make([]byte, 32)
	copy(data[:30-1], chain)
	return f.blank(nil, part(targetError, data))
}

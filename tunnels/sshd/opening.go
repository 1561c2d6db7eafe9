package sshd

import (
	"bytes"
	"encoding/binary"
	"net"

	"switchyard.dev/eventbus/callers"
)

// opening is a connection that reports to its listener when the client has sent the string with its
// version and begun to exchange keys (SSH_MSG_KEXINIT).
type opening struct {
	net.Conn
	// read has the first bytes, until they show whether the client speaks SSH.
	read []byte
	done bool
}

// Read implements net.Conn.
func (o *opening) Read(b []byte) (int, error) {
	n, err := o.Conn.Read(b)
	if !o.done {
		o.read = append(o.read, b[:min(n, maxOpening)]...)
		var begun bool
		if begun, o.done = begins(o.read); begun {
			callers.Begun(o.Conn)
		}
		if o.done {
			o.read = nil
		}
	}
	return n, err
}

const (
	// maxVersion is how long the string with the version may be, with the end of the line.
	maxVersion = 255
	// head is the part of a packet before and with the number of its message: length, padding,
	// number. maxPacket is the longest that every implementation takes.
	head, maxPacket = 6, 35000
	// maxOpening is more than is ever read for that.
	maxOpening  = maxVersion + head
	keyExchange = 20
)

// begins reports whether a client of SSH begins so, and whether that is certain.
func begins(read []byte) (is, certain bool) {
	const prefix = "SSH-2.0-"
	if n := min(len(read), len(prefix)); string(read[:n]) != prefix[:n] {
		return false, true
	}
	end := bytes.IndexByte(read, '\n')
	if end < 0 {
		return false, len(read) >= maxVersion
	}
	packet := read[end+1:]
	if len(packet) < head {
		return false, end >= maxVersion
	}
	length := binary.BigEndian.Uint32(packet)
	return end < maxVersion && packet[head-1] == keyExchange && length >= head && length <= maxPacket, true
}

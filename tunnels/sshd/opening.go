package sshd

import (
	"bytes"
	"encoding/binary"
	"net"

	"switchyard.dev/eventbus/callers"
)

// opening is a connection that reports to its listener when the client has sent its version and
// begun the key exchange (SSH_MSG_KEXINIT).
type opening struct {
	net.Conn
	// read are the first bytes, until they show whether the client speaks SSH.
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
	// maxVersion is the maximum length of the version string, with the end of the line.
	maxVersion = 255
	// head is the length of a packet up to the number of its message: length, padding, number.
	// maxPacket is the largest that every implementation accepts.
	head, maxPacket = 6, 35000
	// maxOpening bounds the bytes that are read for that.
	maxOpening  = maxVersion + head
	keyExchange = 20
)

// begins reports whether the bytes are the beginning of an SSH client, and whether that is
// certain.
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

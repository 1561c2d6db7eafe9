package parse

import "encoding/binary"

// frames reads the frames of WebSocket (RFC 6455) in one direction.
type frames struct {
	head   [14]byte
	have   int
	left   uint64
	at     int // of the mask
	mask   [4]byte
	last   bool // the frame ends a message
	aside  bool // it is a control frame
	within bool // its payload is read
	clear  [4 << 10]byte
}

// size is the length of the head of a frame, as far as it is known.
func (f *frames) size() int {
	n := 2
	if f.have < n {
		return n
	}
	switch f.head[1] & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if f.head[1]&0x80 != 0 {
		n += 4
	}
	return n
}

// read takes bytes of one direction, and hands on the payloads of messages without their masks. Compressed messages stay
// compressed.
func (f *frames) read(t *transaction, s Side, b []byte) {
	for {
		if !f.within {
			n := copy(f.head[f.have:f.size()], b)
			f.have, b = f.have+n, b[n:]
			if f.have < f.size() {
				if n > 0 {
					continue
				}
				return
			}
			f.begin()
		}
		n := min(uint64(len(b)), f.left, uint64(len(f.clear)))
		if !f.aside {
			t.body(s, f.unmasked(b[:n]))
		}
		b, f.left = b[n:], f.left-n
		if f.left > 0 && len(b) == 0 {
			return
		}
		if f.left > 0 {
			continue
		}
		if f.last && !f.aside && t.to != nil {
			t.to.Message(s)
		}
		f.within, f.have = false, 0
		if len(b) == 0 {
			return
		}
	}
}

// begin reads the head of a frame.
func (f *frames) begin() {
	f.within, f.at, f.mask = true, 0, [4]byte{}
	f.last, f.aside = f.head[0]&0x80 != 0, f.head[0]&0x08 != 0
	f.left = uint64(f.head[1] & 0x7f)
	switch f.left {
	case 126:
		f.left = uint64(binary.BigEndian.Uint16(f.head[2:]))
	case 127:
		f.left = binary.BigEndian.Uint64(f.head[2:])
	}
	if f.head[1]&0x80 != 0 {
		copy(f.mask[:], f.head[f.have-4:])
	}
}

// unmasked returns the next bytes of a payload without their mask.
func (f *frames) unmasked(b []byte) []byte {
	if f.mask == [4]byte{} {
		return b
	}
	for i, v := range b {
		f.clear[i] = v ^ f.mask[(f.at+i)&3]
	}
	f.at += len(b)
	return f.clear[:len(b)]
}

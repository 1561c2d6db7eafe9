package jobs

import (
	"bytes"
	"encoding/json"
	"io"
	"unicode/utf8"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/workflows/jobexec/client"
)

// mostText is the maximum size of the text of an event, as JSON: the time of the published client grows with more than the square of it.
const mostText = 900

// sink writes an output stream as server-sent events.
type sink struct {
	to    io.Writer
	flush func() error
	keys  *seal.Keys
	job   model.Job
	name  string
	// at is the place after the last event; rest are the bytes after it that are the beginning of a rune. known is false
	// while the offset is to be that of the first chunk.
	at    position
	rest  []byte
	known bool
}

// chunk writes the bytes of a chunk, and a line for those that are lost before it.
func (s *sink) chunk(offset uint64, data []byte) error {
	next := s.at.offset + uint64(len(s.rest))
	switch {
	case !s.known:
		s.at.offset, s.known = offset, true
	case offset > next:
		if err := s.write(s.rest, true); err != nil {
			return err
		}
		s.rest, s.at.offset = nil, offset
		if err := s.event(client.Marker(next, offset)); err != nil {
			return err
		}
	case offset < next: // they were written
		data = data[min(uint64(len(data)), next-offset):]
	}
	if err := s.write(append(s.rest, data...), false); err != nil {
		return err
	}
	return s.flush()
}

// end writes the bytes that have remained.
func (s *sink) end() error { return s.write(s.rest, true) }

// write writes text in events of whole runes.
func (s *sink) write(data []byte, last bool) error {
	for {
		n := split(data, last)
		if n == 0 {
			s.rest = bytes.Clone(data)
			return nil
		}
		s.at.offset += uint64(n)
		if err := s.event(string(data[:n])); err != nil {
			return err
		}
		data = data[n:]
	}
}

// event writes an event with text, and the cursor after it.
func (s *sink) event(text string) error {
	var data bytes.Buffer
	e := json.NewEncoder(&data) // it replaces bytes that are no UTF-8
	e.SetEscapeHTML(false)
	err := e.Encode(struct {
		Message string `json:"message"`
		Cursor  string `json:"cursor"`
	}{text, s.at.cursor(s.keys, s.job, s.name)})
	if err != nil {
		return err
	}
	return s.raw("message", data.String()[:data.Len()-1])
}

// raw writes an event. The published client reads 64 bytes for each.
func (s *sink) raw(event, data string) error {
	_, err := io.WriteString(s.to, "event: "+event+"\ndata: "+data+"\n\n")
	return err
}

// signal writes a signal, with a comment that makes the event long enough for the published client.
func (s *sink) signal(name string) error {
	_, err := io.WriteString(s.to, ": "+padding+"\nevent: signal\ndata: "+name+"\n\n")
	return err
}

const padding = "----------------------------------------------------------------"

// split returns how many bytes of text are in the next event. 0: none, or the beginning of a rune; last: nothing follows.
func split(data []byte, last bool) (n int) {
	for cost := 0; n < len(data); {
		if !last && !utf8.FullRune(data[n:]) {
			return n
		}
		r, size := utf8.DecodeRune(data[n:])
		switch {
		case r < ' ', r == '"', r == '\\', r == utf8.RuneError, r == '\u2028', r == '\u2029', r == 0x7f:
			cost += 6
		default:
			cost += size
		}
		if cost > mostText {
			return n
		}
		n += size
	}
	return n
}

package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// session is a client's side of a connection of HTTP/2.
type session struct {
	conn    net.Conn
	mu      sync.Mutex // guards out
	out     *bufio.Writer
	framer  *http2.Framer
	block   *bytes.Buffer
	encoder *hpack.Encoder
}

// begin sends the preface, with windows that no answer fills.
func (s *session) begin() error {
	_, err := s.out.WriteString(http2.ClientPreface)
	return errors.Join(err,
		s.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 24}, http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 4 << 20}),
		s.framer.WriteWindowUpdate(0, 1<<30), s.out.Flush())
}

// answer reads until a stream has ended or the connection has, and reports whether
// the connection may go on.
func (s *session) answer(stream uint32, status bool) (string, bool) {
	var said []string
	var body strings.Builder
	for {
		f, err := s.framer.ReadFrame()
		if err != nil {
			var refused http2.StreamError
			if errors.As(err, &refused) {
				return strings.Join(append(said, "an answer that is none"), "\n"), false
			}
			return strings.Join(append(said, ending(err)), "\n"), false
		}
		ended := false
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				s.mu.Lock()
				_ = errors.Join(s.framer.WriteSettingsAck(), s.out.Flush())
				s.mu.Unlock()
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID == stream {
				said = append(said, fieldsOf(f, status))
				ended = f.StreamEnded()
			}
		case *http2.DataFrame:
			if f.StreamID == stream {
				body.Write(f.Data())
				ended = f.StreamEnded()
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == stream {
				// A server that has answered may announce that it needs no more of the request.
				return strings.Join(append(said, "reset"), "\n"), true
			}
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				return strings.Join(append(said, "the connection is ended with an error"), "\n"), false
			}
		}
		if ended {
			if !status {
				said = append(said, fmt.Sprintf("%q", brief(body.String())))
			}
			return strings.Join(said, "\n"), true
		}
	}
}

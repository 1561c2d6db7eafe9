package parse_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"switchyard.dev/sidecars/traffic/parse"
)

// seen are the exchanges of a connection as text, in the order in which they end.
type seen struct {
	ended  []string
	broken []string
	skip   bool
	// counted are the requests that were counted, and begun those of them that followed.
	counted, begun int
}

type one struct {
	to   *seen
	text [2]strings.Builder
}

func describe(h parse.Head) string {
	text := fmt.Sprintf("%s %s %s %s %d", h.Protocol, h.Method, h.Authority, h.Target, h.Status)
	for _, f := range h.Fields {
		text += fmt.Sprintf(" %s=%s", f.Name, f.Value)
	}
	return text
}

func (s *seen) Seen() parse.Seen {
	s.counted++
	return s
}

func (s *seen) Begin(h parse.Head) parse.Exchange {
	s.begun++
	if s.skip {
		return nil
	}
	x := &one{to: s}
	x.text[0].WriteString(describe(h) + " ")
	return x
}

func (s *seen) Unreadable(reason string) {
	s.begun++
	s.broken = append(s.broken, reason)
}
func (x *one) Respond(h parse.Head)                   { x.text[1].WriteString(describe(h) + " ") }
func (x *one) Body(s parse.Side, b []byte)            { x.text[s].Write(b) }
func (x *one) Message(s parse.Side)                   { x.text[s].WriteString("|") }
func (x *one) Trailers(s parse.Side, f []parse.Field) { fmt.Fprint(&x.text[s], f) }
func (x *one) End(problem string) {
	x.to.ended = append(x.to.ended, words(x.text[0].String()+" -> "+x.text[1].String()+" "+problem))
}

// words is a text with one blank between words.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// pieces calls a function with sizes of pieces: always the same, and random ones.
func pieces(f func(piece func() int)) {
	for _, n := range []int{1, 2, 3, 5, 7, 20, 1 << 20} {
		f(func() int { return n })
		random := rand.New(rand.NewPCG(uint64(n), 0))
		f(func() int { return 1 + random.IntN(n) })
	}
}

// sent has the bytes of one end.
type sent struct {
	by   parse.Side
	text string
}

// follow reads a conversation in pieces of at most so many bytes, and its end. Whether bytes are settled at once or late shows nowhere.
func follow(all []sent, piece func() int, problem string) *seen {
	s := converse(all, piece, nil, problem)
	for _, sides := range [][]parse.Side{{q}, {a}, {q, a}} {
		if late := converse(all, piece, sides, problem); !slices.Equal(s.ended, late.ended) || !slices.Equal(s.broken, late.broken) {
			s.broken = append(s.broken, fmt.Sprintf("%v late: %q, %q", sides, late.ended, late.broken))
		}
	}
	return s
}

// converse settles bytes of the late sides when they send more.
func converse(all []sent, piece func() int, late []parse.Side, problem string) *seen {
	s := &seen{}
	c := parse.New(s, &parse.Memory{})
	var offered [2][]byte
	settle := func(side parse.Side) {
		if offered[side] == nil {
			return
		}
		counted := s.counted - len(s.broken)
		c.Settle()
		if s.counted-len(s.broken) > counted {
			s.broken = append(s.broken, "a request is counted after it is passed on")
		}
		for i := range offered[side] {
			offered[side][i] = 'X' // the buffer is used again
		}
		offered[side] = nil
	}
	for _, one := range all {
		for b := []byte(one.text); len(b) > 0; {
			settle(one.by)
			n := min(piece(), len(b))
			offered[one.by] = bytes.Clone(b[:n])
			c.Offer(one.by, offered[one.by])
			if !slices.Contains(late, one.by) {
				settle(one.by)
			}
			b = b[n:]
		}
	}
	if problem == "" {
		c.EOF(parse.Response)
	}
	c.Close(problem)
	if s.counted != s.begun {
		s.broken = append(s.broken, fmt.Sprintf("%d requests are counted, and %d begin", s.counted, s.begun))
	}
	return s
}

const (
	q, a = parse.Request, parse.Response
	get  = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
)

func masked(first byte, text string) string {
	mask := []byte{1, 2, 3, 4}
	b := []byte(text)
	for i := range b {
		b[i] ^= mask[i%4]
	}
	return string([]byte{first, 0x80 | byte(len(text))}) + string(mask) + string(b)
}

var conversations = map[string]struct {
	all  []sent
	want []string
}{
	"one": {[]sent{{q, get}, {a, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"}}, []string{
		"HTTP/1.1 GET h /a 0 Host=h -> HTTP/1.1   200 Content-Length=2 ok ",
	}},
	"pipelined": {[]sent{{q, get + "POST /b HTTP/1.1\r\nhost:h\r\ncontent-length:3\r\n\r\nabc\r\n" + get}, {a, "HTTP/1.1 204 No\r\n\r\nHTTP/1.1 200\r\nContent-Length:0\r\n\r\nHTTP/1.1 304 N\r\nContent-Length: 9\r\n\r\n"}}, []string{
		"HTTP/1.1 GET h /a 0 Host=h -> HTTP/1.1   204 ", "HTTP/1.1 POST h /b 0 host=h content-length=3 abc -> HTTP/1.1   200 Content-Length=0 ",
		"HTTP/1.1 GET h /a 0 Host=h -> HTTP/1.1   304 Content-Length=9 ",
	}},
	"chunks and trailers": {[]sent{
		{q, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: 1\r\nU: 2\r\n\r\n" + get},
		{a, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\nContent-Length: 1\n\nx"},
	}, []string{
		"HTTP/1.1 POST h / 0 Host=h Transfer-Encoding=gzip, Chunked abc0123456789[{T 1} {U 2}] -> HTTP/1.1   200 Transfer-Encoding=chunked ",
		"HTTP/1.1 GET h /a 0 Host=h -> HTTP/1.1   200 Content-Length=1 x ",
	}},
	"100-continue, early hints": {[]sent{{q, "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"}, {a, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"}, {q, "hi"}, {a, "HTTP/1.1 201 C\r\nContent-Length: 0\r\n\r\n"}}, []string{
		"HTTP/1.1 PUT h / 0 Host=h Expect=100-continue Content-Length=2 hi -> HTTP/1.1   201 Content-Length=0 ",
	}},
	"an answer before the end of the request": {[]sent{{q, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nhi"}, {a, "HTTP/1.1 413 C\r\nContent-Length: 0\r\n\r\n"}, {q, "ho" + get}, {a, "HTTP/1.1 200 C\r\nContent-Length: 0\r\n\r\n"}}, []string{
		"HTTP/1.1 PUT h / 0 Host=h Content-Length=4 hiho -> HTTP/1.1   413 Content-Length=0 ", "HTTP/1.1 GET h /a 0 Host=h -> HTTP/1.1   200 Content-Length=0 ",
	}},
	"HEAD": {[]sent{{q, strings.Replace(get, "GET", "HEAD", 1) + get}, {a, "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nHTTP/1.1 404 N\r\nContent-Length: 1\r\n\r\n!"}}, []string{
		"HTTP/1.1 HEAD h /a 0 Host=h -> HTTP/1.1   200 Content-Length=7 ", "HTTP/1.1 GET h /a 0 Host=h -> HTTP/1.1   404 Content-Length=1 ! ",
	}},
	"no answer":   {[]sent{{q, get}}, []string{"HTTP/1.1 GET h /a 0 Host=h -> cut"}},
	"cut off":     {[]sent{{q, get}, {a, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc"}}, []string{"HTTP/1.1 GET h /a 0 Host=h -> HTTP/1.1   200 Content-Length=5 abc cut"}},
	"a fold":      {[]sent{{q, "GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\n  2\r\n\r\n"}, {a, "HTTP/1.1 204 N\r\n\r\n"}}, []string{"HTTP/1.1 GET h / 0 Host=h A=1 2 -> HTTP/1.1   204 "}},
	"empty lines": {[]sent{{q, "\r\n\r\n" + get}, {a, "HTTP/1.1 204 N\r\n\r\n"}}, []string{"HTTP/1.1 GET h /a 0 Host=h -> HTTP/1.1   204 "}},
	"WebSocket": {[]sent{
		{q, "GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n"}, {a, "HTTP/1.1 101 S\r\nUpgrade: websocket\r\n\r\n\x81\x02hi"},
		{q, masked(0x01, "hel") + masked(0x89, "ping") + masked(0x80, "lo") + masked(0x82, "")}, {a, "\x82\x7e\x00\x80" + strings.Repeat("z", 128) + "\x88\x00"},
	}, []string{
		"HTTP/1.1 GET h /ws 0 Host=h Upgrade=websocket hello|| -> HTTP/1.1   101 Upgrade=websocket hi|" + strings.Repeat("z", 128) + "| cut",
	}},
	"an upgrade that is refused": {[]sent{{q, "GET /ws HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n"}, {a, "HTTP/1.1 400 S\r\nContent-Length: 0\r\n\r\n"}, {q, get}, {a, "HTTP/1.1 204 N\r\n\r\n"}}, []string{
		"HTTP/1.1 GET h /ws 0 Host=h Upgrade=websocket -> HTTP/1.1   400 Content-Length=0 ", "HTTP/1.1 GET h /a 0 Host=h -> HTTP/1.1   204 ",
	}},
	"CONNECT": {[]sent{{q, "CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n"}, {a, "HTTP/1.1 200 OK\r\n\r\nback"}, {q, "forth"}}, []string{"HTTP/1.1 CONNECT x:1 x:1 0 Host=x:1 forth -> HTTP/1.1   200 back cut"}},
}

func TestConversations(t *testing.T) {
	for name, c := range conversations {
		t.Run(name, func(t *testing.T) {
			pieces(func(piece func() int) {
				s := follow(c.all, piece, "cut")
				for i, text := range c.want {
					c.want[i] = words(text)
				}
				if !slices.Equal(s.ended, c.want) || s.broken != nil {
					t.Fatalf("got\n%s\n%v\nwant\n%s", strings.Join(s.ended, "\n"), s.broken, strings.Join(c.want, "\n"))
				}
			})
		})
	}
}

func TestTheEndOfTheApplication(t *testing.T) {
	until := []sent{{q, get + get}, {a, "HTTP/1.1 200 OK\r\n\r\nall of it"}}
	want := []string{"HTTP/1.1 GET h /a 0 Host=h -> HTTP/1.1 200 all of it", "HTTP/1.1 GET h /a 0 Host=h -> closed by the application"}
	pieces(func(piece func() int) {
		if s := follow(until, piece, ""); !slices.Equal(s.ended, want) || s.broken != nil {
			t.Fatalf("got %q, %v", s.ended, s.broken)
		}
	})
}

// Other protocols are no broken connections of HTTP.
func TestOtherProtocols(t *testing.T) {
	for name, all := range map[string][]sent{
		"redis": {{q, "*1\r\n$4\r\nPING\r\n"}, {a, "+PONG\r\n"}}, "a server that speaks first": {{a, "220 mail\r\n"}, {q, "EHLO x\r\n"}},
		"TLS": {{q, "\x16\x03\x01\x02\x00\x01"}}, "RTSP": {{q, "OPTIONS * RTSP/1.0\r\n\r\n"}}, "a word": {{q, strings.Repeat("a", 40)}}, "before HTTP/1.0": {{q, "GET /\r\n"}},
		"lines": {{q, "one\r\ntwo\r\n"}}, "nothing": nil, "half a method": {{q, "GE"}},
	} {
		for _, n := range []int{1, 1 << 20} {
			s := follow(all, func() int { return n }, "")
			if s.ended != nil || s.broken != nil {
				t.Errorf("%s in pieces of %d: %v, %v", name, n, s.ended, s.broken)
			}
		}
	}
}

// A connection that cannot be read any more is counted once, and its exchanges end.
func TestUnreadable(t *testing.T) {
	for name, c := range map[string]struct {
		all    []sent
		ended  int
		reason string
	}{
		"garbage after a request": {[]sent{{q, get}, {a, "HTTP/1.1 204 N\r\n\r\n"}, {q, "\x00\x01 / HTTP/1.1\r\n\r\n"}}, 1, "client: not HTTP"},
		"no size of a chunk":      {[]sent{{q, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}}, 1, "client: a chunk has no size"},
		"a head without an end":   {[]sent{{q, get}, {a, "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 200<<10)}}, 1, "application: a head has more than 131072 bytes"},
		"two lengths":             {[]sent{{q, get}, {a, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"}}, 1, "application: Content-Length is not one number"},
		"one answer too many":     {[]sent{{q, get}, {a, "HTTP/1.1 204 N\r\n\r\nHTTP/1.1 204 N\r\n\r\n"}}, 1, "application: a response without a request"},
		"too many at once":        {[]sent{{q, strings.Repeat(get, 5000)}}, 4096, "client: too many requests at once"},
		"no frames of HTTP/2":     {[]sent{{q, http2.ClientPreface + "\x00\x00\x01\x00\x08\x00\x00\x00\x01\xff"}}, 0, "client: a frame is shorter than its padding"},
		"no headers":              {[]sent{{q, http2.ClientPreface + "\x00\x00\x01\x01\x04\x00\x00\x00\x01\xff"}}, 0, "client: headers: decoding error: truncated headers"},
	} {
		t.Run(name, func(t *testing.T) {
			s := follow(c.all, func() int { return 1000 }, "")
			if len(s.ended) != c.ended || len(s.broken) != 1 || s.broken[0] != c.reason {
				t.Errorf("%d ended, %q", len(s.ended), s.broken)
			}
		})
	}
}

// frames writes one direction of HTTP/2.
type frames struct {
	bytes.Buffer
	*http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
}

func newFrames() *frames {
	f := &frames{}
	f.Framer = http2.NewFramer(&f.Buffer, nil)
	f.encoder = hpack.NewEncoder(&f.block)
	return f
}

// headers writes a list in frames of few bytes, with padding and a priority.
func (f *frames) headers(stream uint32, end bool, fields ...string) {
	f.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = f.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	b := bytes.Clone(f.block.Bytes())
	n := min(3, len(b))
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndStream: end, BlockFragment: b[:n], EndHeaders: n == len(b), PadLength: 5, Priority: http2.PriorityParam{StreamDep: 1, Weight: 9}})
	if n < len(b) {
		_ = f.WriteContinuation(stream, true, b[n:])
	}
}

func (f *frames) take() string {
	defer f.Reset()
	return f.String()
}

func twoAtOnce() []sent {
	c, s := newFrames(), newFrames()
	_ = c.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 1 << 14})
	for _, stream := range []uint32{1, 3} {
		c.headers(stream, false, ":method", "POST", ":scheme", "http", ":path", "/s/M", ":authority", "h", "content-type", "application/grpc+proto", "x", fmt.Sprint(stream))
	}
	_ = c.WriteDataPadded(1, false, []byte("\x00\x00\x00\x00\x03abc\x00\x00\x00\x00"), []byte("\x00\x00"))
	_ = c.WriteData(3, true, nil)
	_ = c.WritePing(false, [8]byte{})
	_ = c.WriteData(1, true, []byte("\x00"))
	client := http2.ClientPreface + c.take()
	s.encoder.SetMaxDynamicTableSizeLimit(1 << 14)
	s.encoder.SetMaxDynamicTableSize(1 << 14)
	_ = s.WriteSettingsAck()
	s.headers(3, false, ":status", "103", "link", "x")
	s.headers(3, false, ":status", "200", "content-type", "application/grpc")
	s.headers(1, true, ":status", "200", "grpc-status", "5")
	_ = s.WriteData(3, false, []byte("\x01\x00\x00\x00\x01z"))
	s.headers(3, true, "grpc-status", "0")
	server := s.take()
	c.headers(5, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "h")
	c.headers(7, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "h")
	c.headers(9, false, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "h")
	more := c.take()
	_ = s.WriteRSTStream(5, http2.ErrCodeRefusedStream)
	s.headers(9, true, ":status", "404")
	_ = s.WriteRSTStream(9, http2.ErrCodeNo)
	return []sent{{q, client}, {a, server}, {q, more}, {a, s.take()}}
}

func TestHTTP2(t *testing.T) {
	want := []string{
		"HTTP/2 POST h /s/M 0 content-type=application/grpc+proto x=1 \x00\x00\x00\x00\x03abc|\x00\x00\x00\x00\x00| -> HTTP/2   200 grpc-status=5 ",
		"HTTP/2 POST h /s/M 0 content-type=application/grpc+proto x=3 -> HTTP/2   200 content-type=application/grpc \x01\x00\x00\x00\x01z|[{grpc-status 0}] ",
		"HTTP/2 GET h / 0 -> reset by the application", "HTTP/2 GET h / 0 -> HTTP/2   404 ", "HTTP/2 GET h / 0 -> cut",
	}
	for i, text := range want {
		want[i] = words(text)
	}
	pieces(func(piece func() int) {
		s := follow(twoAtOnce(), piece, "cut")
		if !slices.Equal(s.ended, want) || s.broken != nil {
			t.Fatalf("got\n%q\n%v\nwant\n%q", s.ended, s.broken, want)
		}
	})
}

// An upgrade to HTTP/2 has its request as stream 1.
func TestUpgradeToHTTP2(t *testing.T) {
	s, c := newFrames(), newFrames()
	_ = s.WriteSettings()
	s.headers(1, true, ":status", "204")
	c.headers(3, true, ":method", "GET", ":scheme", "http", ":path", "/next", ":authority", "h")
	first := s.take()
	s.headers(3, true, ":status", "404")
	got := follow([]sent{
		{q, "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n"}, {a, "HTTP/1.1 101 S\r\nUpgrade: h2c\r\n\r\n" + first},
		{q, http2.ClientPreface + c.take()}, {a, s.take()},
	}, func() int { return 7 }, "cut")
	want := []string{"HTTP/1.1 GET h / 0 Host=h Upgrade=h2c HTTP2-Settings=x -> HTTP/2 204", "HTTP/2 GET h /next 0 -> HTTP/2 404"}
	if !slices.Equal(got.ended, want) || got.broken != nil {
		t.Errorf("got %q, %v", got.ended, got.broken)
	}
}

// Whatever bytes arrive, nothing panics, and an exchange ends once.
func FuzzConversations(f *testing.F) {
	for _, c := range conversations {
		text := ""
		for _, s := range c.all {
			text += s.text
		}
		f.Add([]byte(c.all[0].text), []byte(text))
	}
	for _, s := range twoAtOnce() {
		f.Add([]byte(s.text), []byte(s.text))
	}
	f.Fuzz(func(t *testing.T, client, server []byte) {
		s := follow([]sent{{q, string(client)}, {a, string(server)}, {q, string(client)}}, func() int { return 5 }, "cut")
		for _, why := range s.broken {
			if strings.Contains(why, "panic") {
				t.Error(why)
			}
		}
	})
}

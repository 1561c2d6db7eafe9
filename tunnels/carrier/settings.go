package carrier

import (
	"cmp"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"
	"google.golang.org/protobuf/proto"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// Timing has the time limits of a session. Fields that are zero have their defaults.
type Timing struct {
	// Silence is after how long without sending anything an end sends a sign of life: 2 s.
	Silence time.Duration
	// Dead is after how long without hearing anything the other end is considered dead: 5 s.
	Dead time.Duration
	// Gap is how long this process may have been suspended, asleep or stopped, before the next
	// connection first pings the other end: 10 s.
	Gap time.Duration
	// Handshake bounds Hello and Welcome, and the Open of a connection of the peer: 10 s.
	Handshake time.Duration
	// Goodbye bounds Close: 1 s.
	Goodbye time.Duration
}

func (t Timing) orDefaults() Timing {
	return Timing{
		Silence:   cmp.Or(t.Silence, 2*time.Second),
		Dead:      cmp.Or(t.Dead, 5*time.Second),
		Gap:       cmp.Or(t.Gap, 10*time.Second),
		Handshake: cmp.Or(t.Handshake, 10*time.Second),
		Goodbye:   cmp.Or(t.Goodbye, time.Second),
	}
}

// Limits bound what a peer can use of this end. Fields that are zero have their defaults.
type Limits struct {
	// Streams is how many connections the peer may have open at a time: 1,024.
	Streams int
	// Pending is how many of them may wait for Accept: 256.
	Pending int
	// Unread and UnreadAll bound the bytes of unread data, beyond the first windows of streams:
	// those of the session, 48 MiB, and those of all sessions of the process, 256 MiB. Beyond
	// them the stream that has the most is cut. With the default only a peer that leaves about
	// eighty connections unread reaches the bound; it could else send 300 MiB.
	Unread, UnreadAll int64
}

func (l Limits) orDefaults() Limits {
	return Limits{
		Streams:   cmp.Or(l.Streams, 1024),
		Pending:   cmp.Or(l.Pending, 256),
		Unread:    cmp.Or(l.Unread, 48<<20),
		UnreadAll: cmp.Or(l.UnreadAll, 256<<20),
	}
}

// Settings are the parameters of a kind of session. The zero value has those of workstations.
type Settings struct {
	// Protocol is the name that both ends negotiate within TLS. Default: the constant Protocol.
	Protocol string
	// Timing and Limits have their defaults where they are zero.
	Timing Timing
	Limits Limits
	// Open returns an empty message of the type that opens a connection. Default: a tunnelv1.Open.
	Open func() proto.Message
	// Beside returns the session that a new one joins, once its handshake has ended; nil: it joins none, which is
	// the default. The limits, except for that of the process, hold for both in sum. Accept and Connections of the
	// first are for both, and the second ends with the first.
	Beside func() *Session
}

func (c Settings) orDefaults() Settings {
	c.Timing, c.Limits = c.Timing.orDefaults(), c.Limits.orDefaults()
	if c.Open == nil {
		c.Open = func() proto.Message { return &tunnelv1.Open{} }
	}
	if c.Beside == nil {
		c.Beside = func() *Session { return nil }
	}
	return c
}

const (
	// streamWindow is the initial window of a stream, as the multiplexer's protocol defines it.
	streamWindow = 256 << 10
	// wideWindow is that of a stream while few others are open, fewStreams with that of control. It is as
	// much as Linux sends at once: while a window grows, its sender takes the connection for slow, and
	// over a distance BBR keeps it so (decision record 0066).
	wideWindow = 4 << 20
	fewStreams = 5
	// maxStreamWindow permits 80 MB/s at a round trip of 100 ms for one stream: half of it is in
	// flight when the reader updates the window.
	maxStreamWindow = 16 << 20
	// maxGrowth is by how much the windows of all streams of a session may have grown.
	maxGrowth = 12 << 20
	// readBuffer is as large as a TLS record.
	readBuffer = 16 << 10
	// maxFrame is how much of a stream is sent before another stream has its turn.
	maxFrame = 32 << 10
)

// muxConfig returns the multiplexer's settings. It has no keepalive: this package checks
// liveness.
func muxConfig(s Settings) *yamux.Config {
	return &yamux.Config{
		AcceptBacklog:           s.Limits.Pending,
		PingBacklog:             32,
		MeasureRTTInterval:      30 * time.Second,
		ConnectionWriteTimeout:  2 * s.Timing.Dead,
		MaxIncomingStreams:      uint32(s.Limits.Streams + s.Limits.Pending), // this package refuses with a reason before the multiplexer resets
		InitialStreamWindowSize: wideWindow,
		MaxStreamWindowSize:     maxStreamWindow,
		LogOutput:               io.Discard,
		ReadBufSize:             readBuffer,
		MaxMessageSize:          maxFrame,
	}
}

// growth is by how much the windows of a session's streams may still grow.
type growth struct {
	sync.Mutex
	left int
}

var errGrowth = errors.New("the windows of the session have grown as far as they may")

// memory returns the memory manager of one stream.
func (s *Session) memory() (yamux.MemoryManager, error) { return &grown{of: &s.shared().growth}, nil }

// grown is the memory of one stream. Its first window is not counted.
type grown struct {
	of    *growth
	first bool // was reserved
	taken int
}

// ReserveMemory implements yamux.MemoryManager.
func (g *grown) ReserveMemory(size int, _ uint8) error {
	g.of.Lock()
	defer g.of.Unlock()
	if !g.first {
		g.first = true
		return nil
	}
	if size > g.of.left {
		return errGrowth
	}
	g.of.left -= size
	g.taken += size
	return nil
}

// ReleaseMemory implements yamux.MemoryManager. The multiplexer does not call it.
func (g *grown) ReleaseMemory(int) {}

// Done implements yamux.MemoryManager.
func (g *grown) Done() {
	g.of.Lock()
	defer g.of.Unlock()
	g.of.left += g.taken
	g.taken = 0
}

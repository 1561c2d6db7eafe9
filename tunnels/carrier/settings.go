package carrier

import (
	"cmp"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/libp2p/go-yamux/v5"
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

const (
	// acceptBacklog is how many connections may wait for Accept.
	acceptBacklog = 256
	// maxStreams is how many connections one end may have opened at a time.
	maxStreams = 1024
	// streamWindow is the initial window of a stream, as the multiplexer's protocol defines it.
	streamWindow = 256 << 10
	// maxStreamWindow permits 80 MB/s at a round trip of 100 ms for one stream: half of it is in
	// flight when the reader updates the window.
	maxStreamWindow = 16 << 20
	// maxGrowth is by how much the windows of all streams of a session may have grown.
	maxGrowth = 24 << 20
	// readBuffer is as large as a TLS record.
	readBuffer = 16 << 10
	// maxFrame is how much of a stream is sent before another stream has its turn.
	maxFrame = 32 << 10
)

// muxConfig returns the multiplexer's settings. It has no keepalive: this package checks
// liveness.
func muxConfig(timing Timing) *yamux.Config {
	return &yamux.Config{
		AcceptBacklog:           acceptBacklog,
		PingBacklog:             32,
		MeasureRTTInterval:      30 * time.Second,
		ConnectionWriteTimeout:  2 * timing.Dead,
		MaxIncomingStreams:      maxStreams + acceptBacklog, // this package refuses with a reason before the multiplexer resets
		InitialStreamWindowSize: streamWindow,
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

func newGrowth() *growth { return &growth{left: maxGrowth} }

var errGrowth = errors.New("the windows of the session have grown as far as they may")

// stream returns the memory manager of one stream.
func (g *growth) stream() (yamux.MemoryManager, error) { return &grown{of: g}, nil }

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

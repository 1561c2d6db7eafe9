package executor

import (
	"context"
	"sync"

	"switchyard.dev/eventbus/wake"
	"switchyard.dev/workflows/jobexec/socket"
)

// stream keeps the output of a script until it is acknowledged. Writing waits while it is full. It is safe for
// concurrent use.
type stream struct {
	mu      sync.Mutex
	changed wake.Signal
	// ring has the bytes from acknowledged to total: byte i is at i modulo its size.
	ring                []byte
	acknowledged, total uint64
	// dropped reports whether the output is read by no client any more.
	ended, dropped bool
}

func newStream() *stream { return &stream{ring: make([]byte, socket.MaxUnacknowledged)} }

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		next := s.changed.Next()
		n := s.put(rest)
		if n == 0 {
			<-next
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// put writes as much as there is room for.
func (s *stream) put(p []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := len(s.ring) - int(s.total-s.acknowledged) //nolint:gosec // At most its size.
	if s.dropped {
		s.total += uint64(len(p))
		s.acknowledged = s.total
		return len(p)
	}
	p = p[:min(len(p), room)]
	at := int(s.total % uint64(len(s.ring))) //nolint:gosec // Less than its size.
	copy(s.ring, p[copy(s.ring[at:], p):])
	if s.total += uint64(len(p)); len(p) > 0 {
		s.changed.Send()
	}
	return len(p)
}

// end states that no more is written.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.changed.Send()
}

// drop discards the output, so that no writer waits.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acknowledged, s.dropped = s.total, true
	s.changed.Send()
}

// extent returns its size.
func (s *stream) extent() socket.Extent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return socket.Extent{Total: s.total, Acknowledged: s.acknowledged, Ended: s.ended}
}

// acknowledge drops the bytes before offset; false: there are fewer.
func (s *stream) acknowledge(offset uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if offset > s.total {
		return false
	}
	if offset > s.acknowledged {
		s.acknowledged = offset
		s.changed.Send()
	}
	return true
}

// read copies the bytes that are not acknowledged, which begin at offset at. It waits until there are some, the stream
// has ended, or ctx ends.
func (s *stream) read(ctx context.Context, into []byte) (at uint64, n int, end bool) {
	_ = s.changed.Until(ctx, func() bool { // with nothing to read, it returns nothing
		s.mu.Lock()
		defer s.mu.Unlock()
		at = s.acknowledged
		part := into[:min(uint64(len(into)), s.total-at)]
		from := int(at % uint64(len(s.ring))) //nolint:gosec // Less than its size.
		n = copy(part, s.ring[from:])
		n += copy(part[n:], s.ring)
		end = s.ended && at+uint64(n) == s.total //nolint:gosec // Not negative.
		return n > 0 || end
	})
	return at, n, end
}

package wire

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Way is how a process dies at a write.
type Way string

// The ways.
const (
	// Done: the write was done; the process dies before it hears of it.
	Done Way = "done"
	// Undone: the process dies before the write reaches the API server.
	Undone Way = "undone"
	// Unanswered: the write was done and its answer is lost; the process lives.
	Unanswered Way = "unanswered"
)

// Ways are all of them.
func Ways() []Way { return []Way{Done, Undone, Unanswered} }

// Guard is something that keeps a controller from doing harm out of ignorance.
type Guard string

// The guards that can be taken away.
const (
	// Preconditions: writes and deletions name the UID and the version they mean.
	Preconditions Guard = "preconditions"
	// LiveReads: decisive reads bypass the cache.
	LiveReads Guard = "live-reads"
	// Withdrawals: statements on the log about deleted objects are withdrawn.
	Withdrawals Guard = "withdrawals"
)

// Faults are the faults to inject. The zero value has none.
type Faults struct {
	// DieAt is the write at which it happens, counted from 1; 0 for never.
	DieAt int
	// Way is what happens then.
	Way Way
	// Delay returns the delay of the next event of a resource; nil for no delays.
	Delay func(resource string) time.Duration
	// Snapshot returns the resourceVersion of the first list that a cache gets; empty, or a
	// nil function, for the newest.
	Snapshot func(resource string) string
	// Expire is after how long each watch ends with 410 Gone; 0 for never.
	Expire time.Duration
	// Page makes caches be filled in pages of so many objects, the second of which has
	// always expired; 0 for whole lists.
	Page int64
	// Without is the guard that is missing; empty for none.
	Without Guard
	// Before is called before each write, and the write waits for it; may be nil.
	Before func()
}

var (
	errDead = errors.New("wire: this process is dead")
	// ErrUnanswered is the error of a write without an answer.
	ErrUnanswered = errors.New("wire: the connection was reset before the answer came")
)

// Gate is the way of one process to the API server and to the log. It is safe for
// concurrent use.
type Gate struct {
	faults Faults
	ledger *Ledger

	mu     sync.Mutex
	writes int
	filled map[string]bool
	once   sync.Once
	dead   chan struct{}
	calm   atomic.Bool
}

// NewGate returns the gate of a process with these faults. Objects that it creates and deletes,
// and keys that it withdraws, are recorded in the ledger.
func NewGate(f Faults, ledger *Ledger) *Gate {
	return &Gate{faults: f, ledger: ledger, filled: map[string]bool{}, dead: make(chan struct{})}
}

// Wrap is for rest.Config.
func (g *Gate) Wrap(next http.RoundTripper) http.RoundTripper { return trip{g, next} }

// Kill lets nothing through any more.
func (g *Gate) Kill() { g.once.Do(func() { close(g.dead) }) }

// Calm makes watches end no more before their time.
func (g *Gate) Calm() { g.calm.Store(true) }

// Dead is closed when nothing goes through any more.
func (g *Gate) Dead() <-chan struct{} { return g.dead }

// Writes is how many writes there were.
func (g *Gate) Writes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.writes
}

// IsDead reports whether nothing goes through any more.
func (g *Gate) IsDead() bool {
	select {
	case <-g.dead:
		return true
	default:
		return false
	}
}

// first reports whether this is the first time that the cache of a resource is filled.
func (g *Gate) first(resource string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := g.filled[resource]
	g.filled[resource] = true
	return !was
}

// trip takes requests through a Gate.
type trip struct {
	gate *Gate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t trip) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.gate.IsDead() {
		return nil, errDead
	}
	r = legible(r)
	about := targetOf(r)
	switch {
	case isWatch(r):
		return t.watch(r, about)
	case fillsCache(r, about):
		return t.fill(r, about)
	case isLive(r, about) && t.gate.faults.Without == LiveReads:
		return t.stale(r, about)
	case changes(r, about):
		return t.write(r)
	}
	return t.alive(t.next.RoundTrip(r))
}

// alive passes an answer on, unless the process has died in between.
func (t trip) alive(response *http.Response, err error) (*http.Response, error) {
	if err == nil && t.gate.IsDead() {
		_ = response.Body.Close()
		return nil, errDead
	}
	return response, err
}

// write forwards a write, with its fault.
func (t trip) write(r *http.Request) (*http.Response, error) {
	g := t.gate
	if g.faults.Before != nil {
		g.faults.Before()
	}
	g.mu.Lock()
	g.writes++
	hit := g.writes == g.faults.DieAt
	g.mu.Unlock()
	if hit && g.faults.Way == Undone {
		g.Kill()
		return nil, errDead
	}
	if g.faults.Without == Preconditions {
		if err := unconditional(r); err != nil {
			return nil, err
		}
	}
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := g.ledger.note(r, response); err != nil {
		return nil, err
	}
	if hit {
		_ = response.Body.Close()
		if g.faults.Way == Unanswered {
			return nil, ErrUnanswered
		}
		g.Kill()
	}
	return t.alive(response, nil)
}

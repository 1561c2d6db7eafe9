package callers

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// MaxRemembered is how many idle callers a Pool remembers, for their rate alone.
const MaxRemembered = 4096

// Bounds limit the calls of one kind.
type Bounds struct {
	// Each is how many calls one stranger, or one pod, may have at once. 0: as many as
	// there are for all.
	Each int
	// Strangers, Pods and Ours are how many all callers of a kind can have at once.
	Strangers, Pods, Ours int
	// Rate is how many calls one stranger, or one pod, may begin a second, after Burst
	// in a row. 0: any number.
	Rate  float64
	Burst int
}

// AnyNumber is for the calls of all strangers together where something else bounds them, such as a
// Listener, which closes silent connections to make room: an additional bound would keep out the
// last clients.
const AnyNumber = math.MaxInt

// Alike returns bounds of which each kind of callers has the same, with a share of that
// for each caller.
func Alike(all, each int) Bounds {
	return Bounds{Each: each, Strangers: all, Pods: all, Ours: all}
}

// TooMany is the error of a call that is not let in.
type TooMany struct {
	// Why names the exceeded bound.
	Why string
	// After is when it is worth trying again.
	After time.Duration
}

// Error implements error.
func (t *TooMany) Error() string { return t.Why + ": try again" }

// Pool lets calls in. It is safe for concurrent use.
type Pool struct {
	what   string
	bounds Bounds
	clock  func() time.Time

	mu  sync.Mutex
	all [kinds]int
	of  map[Caller]*account
	// idle is how many of those hold nothing.
	idle int
}

// account is the state of one caller.
type account struct {
	held  int
	speed *rate.Limiter // nil: any
}

// NewPool returns a Pool of calls that are called what, in the plural, in errors.
func NewPool(what string, bounds Bounds) *Pool {
	return &Pool{what: what, bounds: bounds, clock: time.Now, of: map[Caller]*account{}}
}

// Enter lets a call in. The caller of Enter calls leave once, when the call has ended.
// The error is a *TooMany.
func (p *Pool) Enter(c Caller) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.account(c)
	if c.Kind != Ours && !c.Shared {
		if p.bounds.Each > 0 && a.held >= p.bounds.Each {
			return nil, p.tooMany("%d %s of one caller are under way", p.bounds.Each)
		}
		if a.speed != nil && a.speed.TokensAt(p.clock()) < 1 {
			return nil, p.tooMany("one caller may begin %.3g %s a second", p.bounds.Rate)
		}
	}
	most := [kinds]int{p.bounds.Strangers, p.bounds.Pods, p.bounds.Ours}[c.Kind]
	if p.all[c.Kind] >= most {
		return nil, p.tooMany("%d %s are under way, as many as may be", most)
	}
	if a.speed != nil {
		a.speed.AllowN(p.clock(), 1)
	}
	if a.held == 0 {
		p.idle--
	}
	a.held++
	p.all[c.Kind]++
	return func() { p.leave(c, a) }, nil
}

func (p *Pool) tooMany(format string, n any) error {
	return &TooMany{Why: fmt.Sprintf(format, n, p.what), After: time.Second}
}

func (p *Pool) leave(c Caller, a *account) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.held--
	p.all[c.Kind]--
	if a.held > 0 {
		return
	}
	if p.idle++; a.speed == nil {
		p.drop(c)
	}
}

// account returns the state of a caller, and creates it if needed. p.mu is held.
func (p *Pool) account(c Caller) *account {
	if a := p.of[c]; a != nil {
		return a
	}
	a := &account{}
	if p.bounds.Rate > 0 && c.Kind != Ours && !c.Shared {
		a.speed = rate.NewLimiter(rate.Limit(p.bounds.Rate), max(1, p.bounds.Burst))
	}
	// Two are checked for each new one, so that idle accounts are removed faster than others
	// are added.
	p.forget(2)
	p.of[c] = a
	p.idle++
	return a
}

// drop forgets a caller that holds nothing. p.mu is held.
func (p *Pool) drop(c Caller) {
	delete(p.of, c)
	p.idle--
}

// forget forgets some callers that hold nothing, and more of them while there are too
// many. p.mu is held.
func (p *Pool) forget(n int) {
	now := p.clock()
	for c, a := range p.of {
		full := p.idle >= MaxRemembered
		if n--; n < 0 && !full {
			return
		}
		if a.held == 0 && (full || a.speed == nil || a.speed.TokensAt(now) >= float64(p.bounds.Burst)) {
			p.drop(c)
		}
	}
}

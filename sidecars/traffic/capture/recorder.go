package capture

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/elide"
	"switchyard.dev/sidecars/traffic/parse"
	"switchyard.dev/sidecars/traffic/record"
)

// Recorder has the captures of a container, and their books. It is safe for concurrent use.
type Recorder struct {
	// Incarnation names this process.
	Incarnation string
	// Finished receives each exchange that is complete, and must not wait. Delivered or Lost must be called for it.
	Finished func(Finished)

	mu       sync.Mutex
	books    *record.Books
	captures []*target
	// ports are the listening ports with captures.
	ports map[int32]*port
	// last is when the captures in the books were last attached.
	last map[string]time.Time
}

// remembered is how long counters are kept after the end of a capture.
const remembered = 15 * time.Minute

// Finished is a complete exchange.
type Finished struct {
	*trafficv1.Exchange
	// Size is that of its message in bytes.
	Size  int
	entry *record.Entry
}

// target is a capture.
type target struct {
	*trafficv1.Capture
	rules *elide.Rules
}

// port has the captures of a listening port, each with its port of the application. It is not changed.
type port struct {
	*Recorder
	captures []captured
}

type captured struct {
	*target
	port *trafficv1.Port
}

// New returns a Recorder without captures.
func New(incarnation string, finished func(Finished)) *Recorder {
	return &Recorder{Incarnation: incarnation, Finished: finished, books: record.New(record.InFlight), last: map[string]time.Time{}}
}

// CountIn sets record.Books.Counters. It is called before anything else.
func (r *Recorder) CountIn(counters func(capture string) *record.Counters) {
	r.books.Counters = counters
}

// Set replaces the captures. An error names those that cannot be applied; the others are.
func (r *Recorder) Set(captures []*trafficv1.Capture) error {
	var all []*target
	ports := map[int32]*port{}
	var failed error
	for _, c := range captures {
		rules, err := elide.New(c)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("capture %s: %w", c.GetName(), err))
			continue
		}
		t := &target{Capture: c, rules: rules}
		own := map[uint32]*trafficv1.Port{}
		for _, p := range c.GetPorts() {
			own[p.GetListening()] = p
		}
		for listening, p := range own {
			of := ports[int32(listening)] //nolint:gosec // a port
			if of == nil {
				of = &port{Recorder: r}
				ports[int32(listening)] = of //nolint:gosec // a port
			}
			of.captures = append(of.captures, captured{t, p})
		}
		all = append(all, t)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, last := range r.last {
		if time.Since(last) > remembered && r.books.Forget(uid) {
			delete(r.last, uid)
		}
	}
	for _, t := range append(r.captures, all...) {
		r.last[t.GetUid()] = time.Now()
	}
	r.captures, r.ports = all, ports
	return failed
}

// Delivered counts an exchange as delivered.
func (r *Recorder) Delivered(f Finished) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.entry.Delivered()
}

// Lost counts an exchange as lost.
func (r *Recorder) Lost(f Finished, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.entry.Lost(reason)
}

// Counts returns the counters of captures, by UID; of all if none is named.
func (r *Recorder) Counts(uids ...string) []*trafficv1.CaptureCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.books.Counts(uids...)
}

// Observer returns the observer of connections to a listening port. Each request is captured by the captures that there are
// when it begins.
func (r *Recorder) Observer(listening int32) parse.Observer { return observer{r, listening} }

type observer struct {
	*Recorder
	listening int32
}

// none is a port without captures.
var none = &port{}

// Seen implements parse.Observer.
func (o observer) Seen() parse.Seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := cmp.Or(o.ports[o.listening], none)
	for _, c := range p.captures {
		o.books.Seen(c.Capture)
	}
	return p
}

// Begin implements parse.Seen.
func (p *port) Begin(h parse.Head) parse.Exchange {
	var all copies
	for _, t := range p.captures {
		if c := p.begin(t.target, h, t.port); c != nil {
			all = append(all, c)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

// Unreadable implements parse.Seen.
func (p *port) Unreadable(string) {
	if len(p.captures) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.captures {
		if e := p.books.Begin(t.Capture, "", 0); e != nil {
			e.Lost(record.Unreadable)
		}
	}
}

// copies are those of one exchange for several captures.
type copies []*exchange

// Respond implements parse.Exchange.
func (c copies) Respond(h parse.Head) {
	for _, x := range c {
		x.Respond(h)
	}
}

// Body implements parse.Exchange.
func (c copies) Body(s parse.Side, b []byte) {
	for _, x := range c {
		x.Body(s, b)
	}
}

// Message implements parse.Exchange.
func (c copies) Message(s parse.Side) {
	for _, x := range c {
		x.Message(s)
	}
}

// Trailers implements parse.Exchange.
func (c copies) Trailers(s parse.Side, f []parse.Field) {
	for _, x := range c {
		x.Trailers(s, f)
	}
}

// End implements parse.Exchange.
func (c copies) End(problem string) {
	for _, x := range c {
		x.End(problem)
	}
}

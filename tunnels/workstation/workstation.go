package workstation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/eventbus/wake"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/driver"
	"switchyard.dev/tunnels/workstation/reconnect"
)

// Workstation keeps one session. Make one with New, and Run it.
type Workstation struct {
	cfg    Config
	events chan func(now time.Time) reconnect.Step
	moved  chan struct{}
	began  time.Time // by the wall clock: the session ages while the machine sleeps

	mu       sync.Mutex
	changed  wake.Signal
	machine  *reconnect.Machine
	current  *carrier.Session // nil while there is none
	shown    string           // the token of the last attempt
	aside    aside
	welcome  *tunnelv1.Welcome
	since    time.Time // when it came up, or was lost
	trouble  error     // why there is no session
	over     error     // why there will be none
	wanted   map[reconnect.Tunnel]Workload
	openedAt map[reconnect.Tunnel]time.Time // since when open tunnels are open
	down     map[string]string              // local addresses that took no connection, and why
	unsure   error                          // why the wanted tunnels are not known
	asks     bool                           // whether Follow waits for the first list of wanted tunnels
	listens  []Way
	inside   *Inside // replaced, never changed
	inbound  counts
	outbound counts
	own      counts // connections to tunnel-api, which Status does not count
}

// counts are connections of one direction.
type counts struct{ active, total, failed atomic.Int64 }

// aside is a session with a draining proxy, until another session replaces it.
type aside struct {
	session *carrier.Session
	since   time.Time
}

// New returns a Workstation, to be started with Run.
func New(cfg Config) (*Workstation, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	return &Workstation{
		cfg: cfg, machine: reconnect.New(cfg.Policy), wanted: map[reconnect.Tunnel]Workload{}, openedAt: map[reconnect.Tunnel]time.Time{}, down: map[string]string{},
		events: make(chan func(time.Time) reconnect.Step), moved: make(chan struct{}, 1),
		began: time.Now().Round(0),
	}, nil
}

// Moved reports that the network of the machine may have changed.
func (w *Workstation) Moved() {
	wake.Notify(w.moved)
}

// Run keeps the session until ctx ends, which is no error. It returns a Trouble when the first
// connection fails.
func (w *Workstation) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := &loop{Workstation: w, Driver: driver.New(ctx)}
	defer l.Close()
	l.do(l.advance(w.machine.Begin))
	for {
		var step reconnect.Step
		select {
		case <-ctx.Done():
			w.end(ctx.Err())
			return nil
		case event := <-w.events:
			step = l.advance(event)
		case <-l.Due.C:
			step = l.advance(w.machine.Due)
		case <-w.moved:
			step = l.advance(w.machine.Moved)
		case <-l.Check.C:
			gap := l.Gap()
			l.do(l.advance(func(now time.Time) reconnect.Step { return w.machine.Slept(now, gap) }))
			step = l.advance(func(now time.Time) reconnect.Step { return w.machine.Brought(now, w.used) })
		}
		if step.End {
			w.mu.Lock()
			err := w.trouble
			w.mu.Unlock()
			w.end(err)
			return err
		}
		l.do(step)
	}
}

// end records that there will be no more sessions.
func (w *Workstation) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = err
	w.changed.Send()
}

// loop is the state of Run.
type loop struct {
	*Workstation
	*driver.Driver
	declarations chan *tunnelv1.Declare // of the newest attempt
}

// advance passes an event to the reconnect machine, and returns the step to execute.
func (l *loop) advance(event func(time.Time) reconnect.Step) reconnect.Step {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.changed.Send()
	return event(time.Now())
}

// do executes a step of the reconnect machine.
func (l *loop) do(step reconnect.Step) {
	if step.Dial != 0 {
		l.declarations = make(chan *tunnelv1.Declare, 1)
	}
	declarations := l.declarations
	l.Do(step.Step, func(ctx context.Context) { l.connect(ctx, step.Dial, declarations) })
	if step.Declare != nil {
		select { // only the newest counts
		case <-l.declarations:
		default:
		}
		l.declarations <- step.Declare
	}
}

// event passes an event to the loop, unless it has ended.
func (l *loop) event(e func(time.Time) reconnect.Step) {
	select {
	case l.events <- e:
	case <-l.Context.Done():
	}
}

// connect makes one attempt, and runs its session until that or ctx ends.
func (l *loop) connect(ctx context.Context, epoch uint64, declarations <-chan *tunnelv1.Declare) {
	s, welcome, err := l.Try(ctx, epoch)
	if err != nil {
		if ctx.Err() != nil {
			return
		}
		var t *Trouble
		l.cfg.Log.Info("not connected", "epoch", epoch, "error", err)
		l.event(func(now time.Time) reconnect.Step {
			l.trouble = err
			return l.machine.Failed(now, epoch, errors.As(err, &t) && t.Final, l.cfg.Chance())
		})
		return
	}
	defer s.Close(nil)
	l.event(func(now time.Time) reconnect.Step {
		if ctx.Err() != nil {
			return reconnect.Step{}
		}
		l.current, l.welcome, l.since, l.trouble, l.aside = s, welcome, now, nil, aside{}
		return l.machine.Welcomed(now, epoch)
	})
	l.cfg.Log.Info("connected", "epoch", epoch, "proxy", welcome.GetProxy(), "user", welcome.GetUser())
	parts := []func(){func() { l.declare(s, declarations) }, func() { l.receive(s, epoch) }, func() { l.accept(s) }}
	if welcome.GetRenews() {
		parts = append(parts, func() { l.renew(s) })
	}
	driver.Keep(ctx, s, func(leave *tunnelv1.Leave) { l.leave(s, epoch, leave) }, parts...)
	l.lost(s, epoch)
}

// lost records that a session ended.
func (l *loop) lost(s *carrier.Session, epoch uint64) {
	err := s.Err()
	l.mu.Lock() // at once, before the loop handles the event: no connection is opened on it any more
	if l.current == s {
		l.current, l.welcome, l.since, l.trouble, l.aside = nil, nil, time.Now(), err, aside{}
		clear(l.openedAt)
	}
	l.mu.Unlock()
	var left *carrier.LeftError
	comeBack := !errors.As(err, &left) || left.Leave.GetComeBack()
	l.cfg.Log.Info("connection lost", "epoch", epoch, "error", err)
	l.event(func(now time.Time) reconnect.Step {
		return l.machine.Lost(now, epoch, comeBack, l.cfg.Chance())
	})
}

// leave begins another session beside one with a proxy that drains.
func (l *loop) leave(s *carrier.Session, epoch uint64, leave *tunnelv1.Leave) {
	l.cfg.Log.Info("the proxy is draining", "epoch", epoch, "because", leave.GetWhy().GetMessage())
	if leave.GetComeBack() {
		l.event(func(now time.Time) reconnect.Step {
			if l.current == s {
				l.aside = aside{s, now}
			}
			return l.machine.Leaving(now, epoch)
		})
	}
}

// declare sends each declaration.
func (l *loop) declare(s *carrier.Session, declarations <-chan *tunnelv1.Declare) {
	for {
		select {
		case d := <-declarations:
			if err := s.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Declare{Declare: d}}); err != nil {
				return
			}
		case <-s.Done():
			return
		}
	}
}

// receive handles the messages of the proxy.
func (l *loop) receive(s *carrier.Session, epoch uint64) {
	for {
		m, err := s.Receive(l.Context)
		if err != nil {
			return
		}
		if d := m.GetDeclared(); d != nil {
			l.event(func(now time.Time) reconnect.Step {
				step := l.machine.Answered(epoch, d)
				l.noteOpened(now)
				return step
			})
		}
	}
}

// noteOpened records since when tunnels are open.
func (l *loop) noteOpened(now time.Time) {
	for t := range l.openedAt {
		if _, still := l.wanted[t]; !still {
			delete(l.openedAt, t)
		}
	}
	for t := range l.wanted {
		_, known := l.openedAt[t]
		switch open := l.machine.Answer(t).GetOpen(); {
		case open && !known:
			l.openedAt[t] = now
		case !open:
			delete(l.openedAt, t)
		}
	}
}

// waitOpen is how long a new connection waits for a session, and waitOther how long for another
// one while the proxy of the present session drains.
const waitOpen, waitOther = 10 * time.Second, time.Second

// session returns the session, and waits for one.
func (w *Workstation) session(ctx context.Context) (*carrier.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, waitOpen)
	defer cancel()
	for {
		w.mu.Lock()
		s, over, trouble, next := w.current, w.over, w.trouble, w.changed.Next()
		var other <-chan time.Time // nil: does not wait for another
		if left := time.Until(w.aside.since.Add(waitOther)); s != nil && s == w.aside.session && left > 0 {
			other = time.After(left)
		}
		w.mu.Unlock()
		switch {
		case s != nil && s.Err() == nil && other == nil:
			return s, nil
		case over != nil:
			return nil, fmt.Errorf("the tunnel has ended: %w", over)
		}
		select {
		case <-next:
		case <-other:
		case <-ctx.Done():
			trouble = cmp.Or(trouble, ctx.Err())
			return nil, fmt.Errorf("the tunnel is not connected: %w", trouble)
		}
	}
}

// Open opens a connection to an address in the cluster; names are resolved there. It waits for a
// session if there is none at the moment. A refusal is a *carrier.RefusedError.
func (w *Workstation) Open(ctx context.Context, host string, port uint16) (net.Conn, error) {
	c, err := w.open(ctx, host, port, &w.outbound)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// open opens a connection that is counted in n.
func (w *Workstation) open(ctx context.Context, host string, port uint16, n *counts) (*outward, error) {
	what := &tunnelv1.Open{To: &tunnelv1.Open_Address{Address: &tunnelv1.Address{Host: host, Port: uint32(port)}}}
	n.total.Add(1)
	for {
		s, err := w.session(ctx)
		if err != nil {
			n.failed.Add(1)
			return nil, err
		}
		c, err := s.Open(ctx, what)
		if err == nil {
			n.active.Add(1)
			o := &outward{Stream: c.(*carrier.Stream), session: s, over: make(chan struct{})} // Open returns *carrier.Stream.
			o.end = sync.OnceFunc(func() { n.active.Add(-1); close(o.over) })
			return o, nil
		}
		if ctx.Err() != nil || s.Err() == nil {
			n.failed.Add(1)
			return nil, err
		}
		// The session ended in between. No byte was sent, so another session can be used.
	}
}

// outward is a connection into the cluster that is counted.
type outward struct {
	*carrier.Stream
	session *carrier.Session
	end     func()
	over    chan struct{} // closed by end
}

// Close implements net.Conn.
func (o *outward) Close() error {
	defer o.end()
	return o.Stream.Close()
}

// Cut aborts the connection.
func (o *outward) Cut() {
	defer o.end()
	o.Stream.Cut()
}

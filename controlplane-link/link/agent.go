package link

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	dice "math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/wake"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/attempts"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/dialer"
	"switchyard.dev/tunnels/driver"
)

// Config configures an Agent.
type Config struct {
	// Address is the control plane's, host:port. Published: it is the published default, which
	// belongs to another product.
	Address   string
	Published bool
	// Verify decides which server is trusted. Default: none is.
	Verify Verify
	// Plain connects without TLS, which needs an address on loopback: that of a program of the same
	// pod that adds TLS. Neither Verify nor Proxy is used then.
	Plain bool
	// Proxy is the proxy to connect through. Default: none.
	Proxy dialer.Proxy
	// Token returns the cluster token; empty: there is none. It is called for each attempt, and each second.
	// Another token than that of the last attempt begins a session beside the present one, which continues
	// until the server ends it. Required.
	Token func() (string, error)
	// Hello returns a new Hello without its token, for each attempt with one. Required.
	Hello func(context.Context) (*linkv1.Hello, error)
	// Handle answers one connection that the server requests, in the session of a welcome. Required.
	Handle func(context.Context, *carrier.Incoming, *linkv1.Welcome)
	// Policy are the pauses between attempts. Default: Policy().
	Policy attempts.Policy
	// Timing has the time limits of sessions; zero: the defaults.
	Timing carrier.Timing
	// Linger is how long connections have to end once the context of Run has; the session continues until
	// then. Default: they are cut.
	Linger time.Duration
	// Logger logs sessions and failures. Default: none.
	Logger *slog.Logger
}

// Agent keeps a session with the control plane. Make one with New.
type Agent struct {
	cfg    Config
	events chan func(now time.Time) attempts.Step
	shown  atomic.Value // the token of the last attempt

	superseded atomic.Bool // a newer agent took the last session

	mu      sync.Mutex
	machine *attempts.Machine
	state   State
	current *carrier.Session
	changed wake.Signal
}

// New returns an Agent without a session, to be started with Run.
func New(cfg Config) (*Agent, error) {
	if cfg.Token == nil || cfg.Handle == nil || cfg.Hello == nil {
		return nil, errors.New("link: Token, Hello and Handle are required")
	}
	host, _, err := net.SplitHostPort(cfg.Address)
	if err != nil {
		return nil, errors.New("link: the control plane's address must be host:port")
	}
	if ip, _ := netip.ParseAddr(host); cfg.Plain && host != "localhost" && !callers.Loopback(ip) {
		return nil, errors.New("link: without TLS the token would be sent in the clear: enable TLS, or use an address on loopback")
	}
	cfg.Policy = cmp.Or(cfg.Policy, Policy())
	if cfg.Proxy == nil || cfg.Plain {
		cfg.Proxy = dialer.None
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Agent{cfg: cfg, machine: attempts.New(cfg.Policy), events: make(chan func(time.Time) attempts.Step), state: State{Since: time.Now()}}, nil
}

// State returns the present state, and a channel that is closed when it changes.
func (a *Agent) State() (State, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state, a.changed.Next()
}

// Run keeps a session until ctx ends, and Config.Linger longer while there are connections.
func (a *Agent) Run(ctx context.Context) {
	sessions, end := context.WithCancel(context.WithoutCancel(ctx))
	l := loop{Agent: a, Driver: driver.New(sessions)}
	defer l.Running.Wait()
	defer l.Close()
	defer end()
	l.do(a.machine.Begin)
	for {
		select {
		case <-ctx.Done():
			l.drain()
			return
		case event := <-a.events:
			l.do(event)
		case <-l.Due.C:
			l.do(a.machine.Due)
		case <-l.Check.C:
			gap := l.Gap()
			token, err := a.cfg.Token()
			l.do(func(now time.Time) attempts.Step {
				step, slept := a.machine.Slept(now, gap)
				if slept || err != nil || token == a.shown.Load() {
					return step
				}
				return l.renew(now)
			})
		}
	}
}

// drain lets connections end. No attempt begins.
func (l *loop) drain() {
	for late := time.Now().Add(l.cfg.Linger); l.connections.Load() > 0 && time.Now().Before(late); {
		select {
		case event := <-l.events:
			l.mu.Lock()
			event(time.Now())
			l.mu.Unlock()
		case <-time.After(100 * time.Millisecond):
		}
	}
	if n := l.connections.Load(); n > 0 {
		l.cfg.Logger.Warn("the agent ends, and cuts the connections through the link that have not ended in time", "connections", n, "after", l.cfg.Linger.String())
	}
}

// loop is the state of Run.
type loop struct {
	*Agent
	*driver.Driver
	connections atomic.Int32 // of all sessions
}

// event passes an event to Run, unless that has ended.
func (l *loop) event(e func(time.Time) attempts.Step) {
	select {
	case l.events <- e:
	case <-l.Context.Done():
	}
}

// renew begins an attempt with another token: beside a session, or at once instead of after a pause. An
// attempt that is under way continues.
func (l *loop) renew(now time.Time) (step attempts.Step) {
	switch l.machine.Phase() {
	case attempts.Up:
		step = l.machine.Leaving(now, l.machine.Epoch())
	case attempts.Waiting:
		step, _ = l.machine.Moved(now)
	}
	return step
}

// do passes an event to the machine, and executes its step.
func (l *loop) do(event func(time.Time) attempts.Step) {
	l.mu.Lock()
	step := event(time.Now())
	l.mu.Unlock()
	l.Do(step, func(ctx context.Context) { l.connect(ctx, step.Dial) })
}

// set records a state, and logs it if it is new. l.mu is held.
func (l *loop) set(s State) {
	before := l.state
	l.state = s
	l.changed.Send()
	if before.Kind == s.Kind && (s.Err == nil || before.Err != nil && before.Err.Error() == s.Err.Error()) {
		return
	}
	_, message := s.Ready(time.Now())
	l.cfg.Logger.Info("the link to the control plane has changed", "state", s.Kind.String(), "message", message)
}

// connect makes one attempt, and runs its session until that or ctx ends.
func (l *loop) connect(ctx context.Context, epoch uint64) {
	s, hello, welcome, err := l.try(ctx)
	if err != nil {
		if ctx.Err() == nil {
			l.event(func(now time.Time) attempts.Step { return l.failed(now, epoch, err) })
		}
		return
	}
	defer s.Close(nil)
	l.event(func(now time.Time) attempts.Step {
		if ctx.Err() == nil && l.machine.Welcomed(now, epoch) {
			if l.current != nil {
				retire(l.current, l.state.Welcome, welcome)
			}
			l.current = s
			l.superseded.Store(false)
			l.set(State{Kind: Up, Since: now, Welcome: welcome, Known: true})
		}
		return attempts.Step{}
	})
	driver.Keep(ctx, s, func(leave *tunnelv1.Leave) {
		l.event(func(now time.Time) (step attempts.Step) {
			if leave.GetComeBack() {
				step = l.machine.Leaving(now, epoch)
			} else if l.current == s {
				l.superseded.Store(true)
			}
			return step
		})
	}, func() {
		for in := range s.Requests(ctx) {
			if open, _ := in.Request.(*linkv1.Open); open.GetDataConnection() != nil {
				l.Running.Go(func() { l.openData(ctx, in, s, hello) })
				continue
			}
			l.connections.Add(1)
			l.Running.Go(func() {
				defer l.connections.Add(-1)
				l.cfg.Handle(ctx, in, welcome)
			})
		}
	})
	l.lost(s, epoch)
}

// dataTries is how often an agent tries to reach the replica of its session, at random intervals of up to dataWithin.
const dataTries, dataWithin = 8, 500 * time.Millisecond

// openData opens the data connection of a session, which began with hello, as the server requests.
func (a *Agent) openData(ctx context.Context, in *carrier.Incoming, of *carrier.Session, hello *linkv1.Hello) {
	ctx, cancel := context.WithTimeout(ctx, attemptWithin)
	defer cancel()
	hello = proto.Clone(hello).(*linkv1.Hello)
	hello.DataConnection = in.Request.(*linkv1.Open).GetDataConnection()
	_, _, err := a.greet(ctx, hello, of)
	refused := &RefusedError{}
	for try := 1; try < dataTries && errors.As(err, &refused) && refused.Refused.GetReason() == linkv1.Reason_REASON_UNAVAILABLE; try++ {
		time.Sleep(dice.N(dataWithin))
		_, _, err = a.greet(ctx, hello, of)
	}
	if err != nil {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNAVAILABLE, Message: err.Error()})
	} else if c, err := in.Accept(); err == nil {
		_ = c.Close()
	}
}

// failed notes that an attempt failed.
func (l *loop) failed(now time.Time, epoch uint64, err error) attempts.Step {
	if !l.machine.At(attempts.Dialling, epoch) {
		return attempts.Step{}
	}
	next, wait := after(l.state, now, err, l.cfg.Published)
	if next.Kind == Superseded {
		l.superseded.Store(true)
	}
	if l.current == nil || l.current.Err() != nil { // else the session beside this attempt continues
		l.set(next)
	}
	if wait > 0 {
		return l.machine.Deferred(now, epoch, wait, dice.Float64())
	}
	return l.machine.Failed(now, epoch, false, dice.Float64())
}

// lost notes that a session ended.
func (l *loop) lost(s *carrier.Session, epoch uint64) {
	err := s.Err()
	var left *carrier.LeftError
	comeBack := !errors.As(err, &left) || left.Leave.GetComeBack()
	l.event(func(now time.Time) attempts.Step {
		if l.current == s {
			l.current = nil
			kind := Down
			if !comeBack {
				kind = Superseded
				l.superseded.Store(true)
			}
			l.set(State{Kind: kind, Since: now, Err: err, Known: true})
		}
		step, _ := l.machine.Lost(now, epoch, comeBack, dice.Float64())
		return step
	})
}

// retire ends a session that another one has replaced. The server of the same cluster ends it. That of
// another cluster, which the token is for now, does not know it: it ends at once.
func retire(former *carrier.Session, was, is *linkv1.Welcome) {
	after := driver.LongestLinger
	if was.GetOrganisation() != is.GetOrganisation() || was.GetCluster() != is.GetCluster() {
		after = 0
	}
	time.AfterFunc(after, func() { former.Close(nil) })
}

// Package server is the control plane's side of the link: it accepts the agents of clusters, knows
// which has the session of a cluster, and opens connections through it. The replicas of a control
// plane share a registry (controlplane-link/registry).
//
//   - A connection that is silent may wait for 5 s, and the oldest such connection makes way for new
//     ones; one that has offered the protocol waits for its handshake. The server begins at most
//     Config.Handshakes a second, so that agents that lost it do not exhaust it when it is back, and
//     refuses those that would wait for more than 10 s. The handshake and Hello then have 5 s each.
//   - A session with a higher epoch ends the former one: at this replica at once, at another one
//     when the registry notifies that. Connections of a former agent have Config.Linger to end.
//   - A session ends when its token is revoked.
//   - Open reaches the agent of a cluster at any replica: the replica that has the session serves the
//     others (ServeReplicas), in mutual TLS. It waits for an agent that reconnects.
//   - Connections that can carry much are opened over a second connection of the session, the data connection, which
//     the server requests for the first of them. The session continues without it.
//   - Drain hands sessions over: each agent is asked to connect to another replica, and its
//     connections here have Config.Linger to end.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/wake"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

// Config configures a Server. Fields that are zero have their defaults.
type Config struct {
	// TLS has the server's certificates. Required.
	TLS *tls.Config
	// Registry and Tokens are shared by all replicas. Required.
	Registry registry.Registry
	Tokens   registry.Tokens
	// Keys are sent to clusters, which check credentials of users with them. Default: clusters keep
	// the former ones.
	Keys Keys
	// Replica is the name of this replica. Required. Where there are several it is the address, host:port,
	// at which the others reach its ServeReplicas.
	Replica string
	// Replicas is the TLS of both ends of connections between replicas (trust.Folder.Mutual). Default:
	// there is one replica.
	Replicas *tls.Config
	// Handshakes is how many TLS handshakes may begin in any second: 200.
	Handshakes int
	// Lease is after how long the session of a replica that crashed is considered lost: 15 s.
	Lease time.Duration
	// Linger is how long connections of agents have to end after Drain, or when a newer agent has the session:
	// 20 s.
	Linger time.Duration
	// Logger logs sessions and refusals. Default: none.
	Logger *slog.Logger
}

const (
	// Waiting is how many connections may wait for a handshake; a Listener of MostConnections
	// accepts as many silent ones, and closes others.
	Waiting = 1800
	// MostConnections is the bound for callers.Listen.
	MostConnections = 2 * Waiting
	// within bounds the first message of TLS, the rest of the handshake, and Hello, each.
	within = 5 * time.Second
	// turnWithin bounds the wait for a handshake: an attempt of an agent has 15 s.
	turnWithin = 10 * time.Second
)

// Server accepts agents. It is safe for concurrent use.
type Server struct {
	cfg      Config
	turns    *rate.Limiter // of TLS handshakes
	draining atomic.Bool
	lingers  atomic.Int32 // sessions that superseded has yet to end
	sessions sync.WaitGroup

	mu        sync.Mutex
	admitting map[*Agent]bool // until their sessions begin; true: the token was revoked in the meantime
	agents    map[registry.Cluster]*Agent
	epochs    map[registry.Cluster]uint64 // of the newest sessions, at any replica
	changed   wake.Signal

	peers   sync.Map           // the *carrier.Session with other replicas, by address
	dials   singleflight.Group // of them
	peering context.Context    // until the end of ServeReplicas
	part    context.CancelFunc
}

// New returns a Server that accepts agents from Serve on.
func New(cfg Config) (*Server, error) {
	if cfg.TLS == nil || cfg.Registry == nil || cfg.Tokens == nil || cfg.Replica == "" {
		return nil, errors.New("server: TLS, Registry, Tokens and Replica are required")
	}
	cfg.Handshakes = cmp.Or(cfg.Handshakes, 200)
	cfg.Lease = cmp.Or(cfg.Lease, 15*time.Second)
	cfg.Linger = cmp.Or(cfg.Linger, 20*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	// A tenth less, since turns that were late begin together.
	s := &Server{cfg: cfg, turns: rate.NewLimiter(rate.Limit(cfg.Handshakes)*9/10, 1), admitting: map[*Agent]bool{}, agents: map[registry.Cluster]*Agent{}, epochs: map[registry.Cluster]uint64{}}
	s.peering, s.part = context.WithCancel(context.Background())
	return s, nil
}

// Serve accepts agents until ctx ends, which ends their sessions. A listener of callers.Listen
// should await handshakes, and allow MostConnections.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.sessions.Wait()
	defer cancel()
	s.cfg.Registry.Watch(ctx, func(c registry.Cluster, now admission.Entry) { s.replaced(ctx, c, now) })
	s.cfg.Tokens.Watch(ctx, s.revoked)
	callers.Accept(ctx, l, s.cfg.Logger, &s.sessions, func(conn net.Conn) { s.serve(ctx, l, conn) })
	return nil
}

// serve serves one connection.
func (s *Server) serve(ctx context.Context, l net.Listener, conn net.Conn) {
	defer conn.Close() // closing twice is harmless
	secure, err := secure(ctx, conn, link.Settings(), s.cfg.TLS, s.turns)
	if err != nil {
		s.cfg.Logger.Debug("a TLS handshake failed", "from", conn.RemoteAddr().String(), "error", err)
		return
	}
	var a *Agent
	hello := &linkv1.Hello{}
	settings := link.Settings()
	settings.Timing.Handshake = within
	settings.Beside = func() *carrier.Session { return a.session } // nil: this connection begins it
	session, err := settings.Serve(ctx, secure, hello, func(ctx context.Context) (proto.Message, error) {
		admit := s.admit
		if hello.GetDataConnection() != nil {
			admit = s.join
		}
		var refused *linkv1.Refused
		if a, refused = admit(ctx, hello); refused != nil {
			return &linkv1.Answer{Is: &linkv1.Answer_Refused{Refused: refused}}, &link.RefusedError{Refused: refused}
		}
		return &linkv1.Answer{Is: &linkv1.Answer_Welcome{Welcome: &linkv1.Welcome{
			Organisation: a.Cluster.Organisation, Cluster: a.Cluster.Name, Epoch: a.Epoch, Server: s.cfg.Replica,
		}}}, nil
	})
	log := s.cfg.Logger.With("from", conn.RemoteAddr().String(), "instance", hello.GetInstance(), "clusterUID", hello.GetClusterUid())
	if err != nil {
		if a != nil && a.session == nil {
			s.admitted(a) // the answer did not arrive
			s.ended(a)
		}
		level := slog.LevelDebug // unauthenticated clients may send anything, and data connections reach other replicas
		if refused := (*link.RefusedError)(nil); errors.As(err, &refused) && hello.GetDataConnection() == nil {
			level = slog.LevelInfo
		}
		log.Log(ctx, level, "an agent has no session", "error", err)
		return
	}
	callers.Identify(l, conn, a.Cluster.Organisation+"/"+a.Cluster.Name)
	log = log.With("cluster", a.Cluster.Name, "epoch", a.Epoch)
	if hello.GetDataConnection() != nil {
		log.Info("a data connection has begun")
		<-session.Done() // also at the end of the session of a
		log.Info("a data connection has ended", "because", session.Err())
		return
	}
	a.session, a.Since = session, time.Now()
	log.Info("an agent connected", "version", a.Hello.GetOperatorVersion())
	s.run(ctx, a)
	log.Info("an agent disconnected", "because", session.Err())
}

// secure performs the TLS handshake, once turns permit it, with a client that offers the protocol of settings.
func secure(ctx context.Context, conn net.Conn, settings carrier.Settings, base *tls.Config, turns *rate.Limiter) (net.Conn, error) {
	config := settings.Secure(base)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (own *tls.Config, err error) {
		if !slices.Contains(hello.SupportedProtos, settings.Protocol) {
			return nil, errors.New("the client does not offer the protocol " + settings.Protocol)
		}
		callers.Begun(conn)
		waits, cancel := context.WithTimeout(ctx, turnWithin)
		defer cancel()
		if err := turns.Wait(waits); err != nil {
			return nil, err
		}
		if base.GetConfigForClient != nil {
			if own, err = base.GetConfigForClient(hello); own != nil {
				own = settings.Secure(own)
			}
		}
		return own, errors.Join(err, conn.SetDeadline(time.Now().Add(within)))
	}
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	secure := tls.Server(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return secure, conn.SetDeadline(time.Time{})
}

// run serves a session until it or ctx ends.
func (s *Server) run(ctx context.Context, a *Agent) {
	former, revoked := s.begin(a)
	if revoked {
		a.revoked()
		s.ended(a)
		return
	}
	s.changed.Send()
	if former != nil && former.Epoch < a.Epoch {
		s.sessions.Go(func() { s.superseded(ctx, former, a.Instance) })
	}
	defer context.AfterFunc(ctx, func() { a.end(tunnelv1.Reason_REASON_DRAINING, "The control plane is ending.", true) })()
	s.sessions.Go(func() { s.recheck(ctx, a) })
	s.sessions.Go(func() {
		for in := range a.session.Requests(ctx) { // the protocol has none
			in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "The control plane takes no connections from agents."})
		}
	})
	if s.cfg.Keys != nil {
		s.sessions.Go(func() { s.publish(ctx, a) })
	}
	if s.draining.Load() { // Drain began after the admission, and need not have seen it
		s.sessions.Go(func() { s.leave(a) })
	}
	s.renew(ctx, a)
	s.remove(a)
}

// begin ends the admission of an agent, and adds its session to those in which connections are opened, unless its token
// was revoked in the meantime. It returns the former session of the cluster.
func (s *Server) begin(a *Agent) (former *Agent, revoked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	former, revoked = s.agents[a.Cluster], s.admitting[a]
	delete(s.admitting, a)
	if !revoked && (former == nil || former.Epoch < a.Epoch) {
		s.agents[a.Cluster], s.epochs[a.Cluster] = a, a.Epoch // lower than known where the registry has lost its entry
	}
	return former, revoked
}

// remove removes a session from those in which connections are opened.
func (s *Server) remove(a *Agent) {
	s.mu.Lock()
	if s.agents[a.Cluster] == a {
		delete(s.agents, a.Cluster)
	}
	s.mu.Unlock()
	s.changed.Send()
}

// recheck ends a session that was replaced before it was known here.
func (s *Server) recheck(ctx context.Context, a *Agent) {
	if e, err := s.cfg.Registry.Get(ctx, a.Cluster); err == nil && e.Epoch > a.Epoch && !s.draining.Load() {
		s.superseded(ctx, a, e.Instance) // it need not be in s.agents
	}
}

// replaced records the epoch of a cluster, and ends a session of a lower one. A session that lingers
// after Drain continues.
func (s *Server) replaced(ctx context.Context, c registry.Cluster, now admission.Entry) {
	s.mu.Lock() // also while the goroutine begins: Serve waits for those of sessions that have not ended
	defer s.mu.Unlock()
	s.epochs[c] = max(s.epochs[c], now.Epoch)
	s.changed.Send()
	if a := s.agents[c]; a != nil && a.Epoch < now.Epoch && !s.draining.Load() {
		s.sessions.Go(func() { s.superseded(ctx, a, now.Instance) })
	}
}

// superseded ends a session because another agent, or another connection of this one, has that of the cluster.
// Connections of a former agent have Config.Linger to end, unless its token is revoked: an upgrade does not cut
// them. New ones are opened in the other session.
func (s *Server) superseded(ctx context.Context, a *Agent, instance string) {
	a.taken.Do(func() {
		s.lingers.Add(1)
		defer s.changed.Send()
		defer s.lingers.Add(-1)
		s.remove(a)
		if instance == a.Instance {
			a.end(tunnelv1.Reason_REASON_TAKEN, "A later connection of this agent has the session.", true)
			return
		}
		const why = "A newer agent of this cluster has the session."
		leave := &tunnelv1.Leave{Why: &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_TAKEN, Message: why}, Linger: durationpb.New(s.cfg.Linger)}
		_ = a.session.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Leave{Leave: leave}}) // else the session has ended
		s.linger(ctx, a)
		if n := a.session.Connections(); n > 0 && a.session.Err() == nil {
			s.cfg.Logger.Info("connections through the session of a former agent are cut", "cluster", a.Cluster.Name, "epoch", a.Epoch, "connections", n)
		}
		a.end(tunnelv1.Reason_REASON_TAKEN, why, false)
	})
}

// linger waits until the connections of a session have ended, its token is revoked, its time is over, or no agent has
// the session of the cluster: twice in a row, because one that changes its replica has none for a moment.
func (s *Server) linger(ctx context.Context, a *Agent) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Linger-time.Second/2) // it ends between two checks, the last of which is before the agent's
	defer cancel()
	for alone := 0; ctx.Err() == nil && a.session.Err() == nil && a.session.Connections() > 0 && alone < 2; time.Sleep(time.Second) {
		if still, err := s.cfg.Tokens.Valid(ctx, a.token); err == nil && !still {
			return
		}
		alone++
		if e, err := s.cfg.Registry.Get(ctx, a.Cluster); err != nil || e.Live(time.Now()) || s.draining.Load() {
			alone = 0
		}
	}
}

// revoked ends the sessions of a token, and those of agents that are being admitted with it before they begin.
func (s *Server) revoked(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.admitting {
		s.admitting[a] = s.admitting[a] || a.token == token
	}
	for _, a := range s.agents {
		if a.token == token {
			s.sessions.Go(a.revoked)
		}
	}
}

// Drain asks each agent to connect to another replica, and returns once all sessions have ended, at
// most after Config.Linger. A session without connections ends once another replica has one of its cluster. Where
// there is no other replica it ends once none here has connections, because users are served until then. New agents are refused from its beginning on.
func (s *Server) Drain(ctx context.Context) {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Linger)
	defer cancel()
	s.mu.Lock() // as in replaced
	for _, a := range s.agents {
		s.sessions.Go(func() { s.leave(a) })
	}
	s.mu.Unlock()
	_ = s.changed.Until(ctx, func() bool { return len(s.Agents()) == 0 && s.lingers.Load() == 0 })
}

// leave asks an agent to connect to another replica, and ends its session once that is idle and its successor is known.
func (s *Server) leave(a *Agent) {
	s.ended(a)
	leave := &tunnelv1.Leave{
		Why:      &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_DRAINING, Message: "This replica of the control plane is ending."},
		ComeBack: true, Linger: durationpb.New(s.cfg.Linger),
	}
	_ = a.session.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Leave{Leave: leave}}) // else the session has ended
	for ; a.session.Err() == nil; time.Sleep(100 * time.Millisecond) {
		if a.session.Connections() == 0 && (s.Epoch(a.Cluster) > a.Epoch || s.cfg.Replicas == nil && s.idle()) {
			a.session.Close(&tunnelv1.Leave{Why: leave.Why, ComeBack: true})
		}
	}
}

// idle reports whether no session of this replica has connections.
func (s *Server) idle() bool {
	busy := func(a *Agent) bool { return a.session.Connections() > 0 }
	return s.lingers.Load() == 0 && !slices.ContainsFunc(s.Agents(), busy)
}

// Draining reports whether Drain was called.
func (s *Server) Draining() bool { return s.draining.Load() }

// Epoch returns the epoch of the newest session of a cluster, at any replica, that is known here; 0: none is. Connections
// that clients keep should be used during one epoch only: later they pass a former agent, and are cut.
func (s *Server) Epoch(c registry.Cluster) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.epochs[c]
}

// Changed returns a channel that is closed when Agents or an Epoch changes. Take it before you read them.
func (s *Server) Changed() <-chan struct{} { return s.changed.Next() }

// Agents returns the sessions of this replica.
func (s *Server) Agents() []*Agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.agents))
}

// Current returns the sessions of this replica that are the newest ones of their clusters.
func (s *Server) Current() []*Agent {
	return slices.DeleteFunc(s.Agents(), func(a *Agent) bool { return a.Epoch < s.Epoch(a.Cluster) })
}

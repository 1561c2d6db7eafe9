package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/wake"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/relay"
)

const (
	// reconnectWithin is how long Open waits for an agent that has lost its session, or for a registry:
	// longer than it takes to notice that a replica is not reached.
	reconnectWithin = 8 * time.Second
	retryAfter      = 50 * time.Millisecond
	// peerWithin bounds the attempt to reach another replica, forwardWithin what one does for another.
	peerWithin, forwardWithin = 2 * time.Second, 30 * time.Second
)

// replicas are the parameters of sessions between replicas.
var replicas = carrier.Settings{
	Protocol: "switchyard-replica/1", Timing: carrier.Timing{Handshake: within},
	Limits: carrier.Limits{Streams: 1 << 16, Pending: 1 << 12, Unread: 128 << 20},
	Open:   func() proto.Message { return &linkv1.Forward{} },
}

// Open opens a connection through the session of a cluster, which can be at any replica. It waits for a
// session that was interrupted. The error is ErrNoAgent, the agent's *carrier.RefusedError, or that of ctx.
func (s *Server) Open(ctx context.Context, c registry.Cluster, open *linkv1.Open) (net.Conn, error) {
	for began := time.Now(); ; {
		conn, err := s.open(ctx, c, open)
		var refused *carrier.RefusedError
		switch {
		case err == nil || errors.As(err, &refused) && refused.Refused.GetReason() != tunnelv1.Reason_REASON_TAKEN:
			return conn, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case time.Since(began) > reconnectWithin:
			s.cfg.Logger.Warn("a cluster is not reached", "organisation", c.Organisation, "cluster", c.Name, "error", err)
			return nil, ErrNoAgent
		}
		wake.Sleep(ctx, retryAfter+time.Since(began)/4)
	}
}

// Transport sends requests to the API of a cluster, http://kubernetes.
type Transport struct {
	*http.Transport
	epoch func() uint64
}

// RoundTrip implements http.RoundTripper. It uses no connection that is kept from an earlier epoch: a former agent
// cuts those.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = fmt.Sprint(t.epoch(), ".", r.URL.Host) // names the connections only
	return t.Transport.RoundTrip(r)
}

// Transport returns a transport for requests of a caller to the API of a cluster, over HTTP/1.1. Each caller needs one
// of its own: the agent identifies the caller of a connection, not of a request. Connections are kept for ten seconds:
// a former agent waits for as long.
func (s *Server) Transport(c registry.Cluster, caller *linkv1.Caller) Transport {
	open := &linkv1.Open{Caller: caller, To: &linkv1.Open_KubernetesApi{KubernetesApi: &linkv1.KubernetesAPI{}}}
	return Transport{epoch: func() uint64 { return s.Epoch(c) }, Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Open(ctx, c, open) },
		MaxIdleConnsPerHost: 16, IdleConnTimeout: 10 * time.Second, DisableCompression: true,
	}}
}

// open makes one attempt. A session that leaves this replica is used only while there is no other one.
func (s *Server) open(ctx context.Context, c registry.Cluster, open *linkv1.Open) (net.Conn, error) {
	if !s.draining.Load() {
		if conn, err := s.openHere(ctx, c, open); !errors.Is(err, ErrNoAgent) {
			return conn, err
		}
	}
	e, unknown := s.cfg.Registry.Get(ctx, c)
	if unknown != nil || !e.Live(time.Now()) || e.Replica == s.cfg.Replica || s.cfg.Replicas == nil {
		conn, err := s.openHere(ctx, c, open)
		if err != nil && unknown != nil {
			err = fmt.Errorf("%w, and the registry is not reached: %w", err, unknown)
		}
		return conn, err
	}
	peer, err := s.peer(e.Replica)
	if err != nil {
		return nil, fmt.Errorf("replica %s is not reached: %w", e.Replica, err)
	}
	return peer.Open(ctx, &linkv1.Forward{Organisation: c.Organisation, Cluster: c.Name, Open: open})
}

// openHere opens a connection through a session of this replica.
func (s *Server) openHere(ctx context.Context, c registry.Cluster, open *linkv1.Open) (net.Conn, error) {
	s.mu.Lock()
	a, newest := s.agents[c], s.epochs[c]
	s.mu.Unlock()
	if a == nil || a.Epoch < newest && !s.draining.Load() { // its successor is about to have a session
		return nil, ErrNoAgent
	}
	return s.connection(ctx, a, open).Open(ctx, open)
}

// peer returns the session with another replica.
func (s *Server) peer(address string) (*carrier.Session, error) {
	session, err, _ := s.dials.Do(address, func() (any, error) {
		if known, is := s.peers.Load(address); is {
			return known, nil
		}
		ctx, cancel := context.WithTimeout(s.peering, peerWithin) // not ctx: others wait for it as well
		defer cancel()
		conn, err := (&tls.Dialer{Config: replicas.Secure(s.cfg.Replicas)}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		session, err := replicas.Connect(ctx, conn, &linkv1.Hello{}, &linkv1.Answer{}, func() error { return nil })
		if err != nil {
			return nil, err
		}
		s.peers.Store(address, session)
		stop := context.AfterFunc(s.peering, func() { session.Close(nil) })
		go func() {
			<-session.Done()
			stop()
			s.peers.CompareAndDelete(address, session)
		}()
		return session, nil
	})
	of, _ := session.(*carrier.Session) // nil after an error
	return of, err
}

// ServeReplicas serves connections that other replicas forward, until ctx ends. It ends the sessions with
// other replicas then, and none begins. A listener of callers.Listen should await handshakes. Call it once.
func (s *Server) ServeReplicas(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	defer s.part()
	callers.Accept(ctx, l, s.cfg.Logger, &running, func(conn net.Conn) { s.serveReplica(ctx, l, conn) })
	return nil
}

// serveReplica serves a session with another replica, which the certificate identifies.
func (s *Server) serveReplica(ctx context.Context, l net.Listener, conn net.Conn) {
	defer conn.Close() // closing twice is harmless
	secure, err := secure(ctx, conn, replicas, s.cfg.Replicas, rate.NewLimiter(rate.Inf, 0))
	if err != nil {
		s.cfg.Logger.Debug("a replica is not trusted", "from", conn.RemoteAddr().String(), "error", err)
		return
	}
	session, err := replicas.Serve(ctx, secure, &linkv1.Hello{}, func(context.Context) (proto.Message, error) { return &linkv1.Answer{}, nil })
	if err != nil {
		return
	}
	defer session.Close(nil)
	callers.Identify(l, conn, "")
	for in := range session.Requests(ctx) {
		go s.forwarded(ctx, in)
	}
}

// forwarded answers one connection that another replica requests, from a session here only.
func (s *Server) forwarded(ctx context.Context, in *carrier.Incoming) {
	f, _ := in.Request.(*linkv1.Forward)
	opening, cancel := context.WithTimeout(ctx, forwardWithin)
	defer cancel()
	far, err := s.openHere(opening, registry.Cluster{Organisation: f.GetOrganisation(), Name: f.GetCluster()}, f.GetOpen())
	refused := &carrier.RefusedError{}
	switch {
	case errors.As(err, &refused):
		in.Refuse(refused.Refused)
	case err != nil: // the other replica reads the registry again
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_TAKEN, Message: "The session of the cluster is not at this replica."})
	default:
		near, err := in.Accept()
		if err != nil {
			relay.Cut(far)
			return
		}
		relay.Pipe(relay.Of(near), relay.Of(far))
	}
}

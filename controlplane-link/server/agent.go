package server

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/registry"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/credential/signed"
)

// Agent is the session with a cluster's agent.
type Agent struct {
	// Cluster, Epoch and Instance are as in the registry; Hello is the agent's, without its token.
	Cluster  registry.Cluster
	Epoch    uint64
	Instance string
	Hello    *linkv1.Hello
	// Since is when the session began.
	Since time.Time

	token   string // its ID
	session *carrier.Session
	taken   sync.Once    // superseded was called
	secret  atomic.Value // of the data connection that was requested; "": it has begun
}

// Register registers the metrics of the sessions at this replica.
func (s *Server) Register(in prometheus.Registerer) {
	const streams = "Open streams to agents at this replica, by the connection of the session that they are in."
	for i, g := range []prometheus.GaugeOpts{
		{Name: "switchyard_link_agents", Help: "Sessions with agents at this replica."},
		{Name: "switchyard_link_data_connections", Help: "Sessions with agents at this replica that have a data connection."},
		{Name: "switchyard_link_streams", Help: streams, ConstLabels: prometheus.Labels{"connection": "session"}},
		{Name: "switchyard_link_streams", Help: streams, ConstLabels: prometheus.Labels{"connection": "data"}},
	} {
		in.MustRegister(prometheus.NewGaugeFunc(g, func() float64 { return float64(s.counts()[i]) }))
	}
}

// counts returns the values of the metrics, in the order of Register.
func (s *Server) counts() (n [4]int) {
	for _, a := range s.Agents() {
		n[0], n[2] = n[0]+1, n[2]+a.session.Streams()
		if data := a.session.Joined(); data != nil {
			n[1], n[3] = n[1]+1, n[3]+data.Streams()
		}
	}
	return n
}

// Done is closed once the session has ended.
func (a *Agent) Done() <-chan struct{} { return a.session.Done() }

// end ends the session for a reason; comeBack: the agent should try again.
func (a *Agent) end(reason tunnelv1.Reason, message string, comeBack bool) {
	a.session.Close(&tunnelv1.Leave{Why: &tunnelv1.Refused{Reason: reason, Message: message}, ComeBack: comeBack})
}

// revoked ends the session because its token was revoked.
func (a *Agent) revoked() {
	a.end(tunnelv1.Reason_REASON_UNAUTHENTICATED, "The cluster token was revoked. Create a new one and set controlPlane.clusterToken.", true)
}

// ask requests something that is no connection, and returns once the agent has answered.
func (a *Agent) ask(ctx context.Context, open *linkv1.Open) error {
	c, err := a.session.Open(ctx, open)
	if err != nil {
		return err
	}
	return c.Close()
}

// connection returns the one of the agent's two connections that a stream is opened over. It requests the data
// connection for the first stream that can carry much, unless handshakes of agents wait, and again after it has ended.
func (s *Server) connection(ctx context.Context, a *Agent, open *linkv1.Open) *carrier.Session {
	if !open.GetBulk() || !a.Hello.GetOpensDataConnection() {
		return a.session
	}
	request := func(ctx context.Context) error {
		secret := rand.Text()
		a.secret.Store(secret)
		err := a.ask(ctx, &linkv1.Open{To: &linkv1.Open_DataConnection{DataConnection: &linkv1.DataConnection{Epoch: a.Epoch, Secret: secret}}})
		if err != nil {
			s.cfg.Logger.Info("an agent has no data connection, so that requests wait for streams", "cluster", a.Cluster.Name, "epoch", a.Epoch, "error", err)
		}
		return err
	}
	if s.turns.Tokens() < 0 {
		request = nil
	}
	return a.session.Second(ctx, request)
}

// join decides about the Hello of a data connection, and returns the session that it is of.
func (s *Server) join(ctx context.Context, h *linkv1.Hello) (*Agent, *linkv1.Refused) {
	token, refused := s.find(ctx, h)
	if refused != nil {
		return nil, refused
	}
	s.mu.Lock()
	a := s.agents[token.Cluster]
	s.mu.Unlock()
	of := h.GetDataConnection()
	if a == nil || a.token != token.ID || a.Instance != h.GetInstance() || a.Epoch != of.GetEpoch() || of.GetSecret() == "" || !a.secret.CompareAndSwap(of.GetSecret(), "") {
		return nil, admission.Refuse(linkv1.Reason_REASON_UNAVAILABLE, 0, "The session of the data connection is not at this replica of the control plane.")
	}
	return a, nil
}

// ErrNoAgent is the error of a cluster without a session.
var ErrNoAgent = errors.New("the cluster's agent is not connected to the control plane: check Deployment agent of the cluster")

// Keys are the public keys that clusters check credentials of users with (controlplane-link/issuer).
type Keys interface {
	// Public returns the keys, and a channel that is closed when they change.
	Public() (signed.Keys, <-chan struct{})
}

const (
	// keysEvery is how often the keys are sent, for a cluster that has lost them; keysAfter is when
	// after a failure, and keysWithin bounds each attempt.
	keysEvery, keysAfter, keysWithin = time.Minute, 5 * time.Second, 10 * time.Second
)

// publish keeps the public keys in an agent's cluster until its session ends.
func (s *Server) publish(ctx context.Context, a *Agent) {
	for last := ""; ; {
		keys, changed := s.cfg.Keys.Public()
		wait, text := keysEvery, ""
		if err := a.setKeys(ctx, keys); err != nil {
			wait, text = keysAfter, err.Error()
		}
		if text != "" && text != last && a.session.Err() == nil {
			s.cfg.Logger.Warn("the cluster does not have the public keys, so it may refuse credentials, or accept those of a removed key", "cluster", a.Cluster.Name, "error", text)
		}
		last = text
		select {
		case <-changed:
		case <-time.After(wait):
		case <-a.Done(): // also at the end of ctx
			return
		}
	}
}

// setKeys replaces the keys in the agent's cluster.
func (a *Agent) setKeys(ctx context.Context, keys signed.Keys) error {
	ctx, cancel := context.WithTimeout(ctx, keysWithin)
	defer cancel()
	return a.ask(ctx, &linkv1.Open{To: &linkv1.Open_Keys{Keys: &linkv1.Keys{KeySet: keys.String()}}})
}

// maxSwaps is how often an entry is decided again because another replica was faster.
const maxSwaps = 16

// swap replaces the entry of a cluster by that which decide returns. It does not write if decide
// returns false.
func (s *Server) swap(ctx context.Context, c registry.Cluster, decide func(admission.Entry) (admission.Entry, bool)) error {
	for range maxSwaps {
		old, err := s.cfg.Registry.Get(ctx, c)
		if err != nil {
			return err
		}
		next, changes := decide(old)
		if !changes {
			return nil
		}
		if done, err := s.cfg.Registry.Swap(ctx, c, old, next); done || err != nil {
			return err
		}
	}
	return errors.New("the registry changed each time that this replica wrote to it")
}

// unavailableAfter is when an agent that could not be admitted may ask again.
const unavailableAfter = time.Second

func (s *Server) unavailable(what string, err error) *linkv1.Refused {
	s.cfg.Logger.Warn("an agent was not admitted", "during", what, "error", err)
	return admission.Refuse(linkv1.Reason_REASON_UNAVAILABLE, unavailableAfter, "The control plane cannot decide about this agent now. It will try again.")
}

// find returns the token of a Hello.
func (s *Server) find(ctx context.Context, h *linkv1.Hello) (token registry.Token, _ *linkv1.Refused) {
	if s.draining.Load() {
		return token, admission.Refuse(linkv1.Reason_REASON_DRAINING, unavailableAfter, "This replica of the control plane is ending.")
	}
	if refused := admission.Invalid(h); refused != nil {
		return token, refused
	}
	token, known, err := s.cfg.Tokens.Find(ctx, h.GetToken())
	switch {
	case err != nil:
		return token, s.unavailable("look-up of the token", err)
	case !known:
		return token, admission.Unknown()
	}
	return token, nil
}

// admit decides about a Hello, and records the session of an agent that is admitted. The token is found again once
// revoked knows of the agent, so that no revocation is missed.
func (s *Server) admit(ctx context.Context, h *linkv1.Hello) (_ *Agent, refused *linkv1.Refused) {
	token, refused := s.find(ctx, h)
	if refused != nil {
		return nil, refused
	}
	a := &Agent{Cluster: token.Cluster, Instance: h.GetInstance(), Hello: proto.Clone(h).(*linkv1.Hello), token: token.ID}
	a.Hello.Token = ""
	s.mu.Lock()
	s.admitting[a] = false
	s.mu.Unlock()
	defer func() {
		if refused != nil {
			s.admitted(a)
		}
	}()
	bound, err := s.cfg.Tokens.Bind(ctx, token.ID, h.GetClusterUid())
	if err != nil {
		return nil, s.unavailable("binding of the token", err)
	}
	if refused := admission.Bound(token.Name, bound, h.GetClusterUid()); refused != nil {
		return nil, refused
	}
	if still, refused := s.find(ctx, h); refused != nil {
		return nil, refused
	} else if still != token {
		return nil, admission.Unknown()
	}
	err = s.swap(ctx, a.Cluster, func(e admission.Entry) (admission.Entry, bool) {
		e, refused = e.Admit(h, s.cfg.Replica, time.Now(), s.cfg.Lease)
		a.Epoch = e.Epoch
		return e, refused == nil
	})
	switch {
	case err != nil:
		return nil, s.unavailable("the registry", err)
	case refused != nil:
		return nil, refused
	}
	return a, nil
}

// admitted ends the admission of an agent that has no session.
func (s *Server) admitted(a *Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.admitting, a)
}

// renew extends the session's lease until it ends, and ends it once another has replaced it.
func (s *Server) renew(ctx context.Context, a *Agent) {
	ticker := time.NewTicker(s.cfg.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-a.Done():
			s.ended(a)
			return
		}
		if s.draining.Load() {
			continue // another replica may have it
		}
		if by, ours := s.keep(a, time.Now().Add(s.cfg.Lease)); !ours {
			s.superseded(ctx, a, by)
		}
	}
}

// keep sets the end of a session's lease. It returns false if another session has replaced it, and the
// instance of that; a registry that cannot be reached ends no session.
func (s *Server) keep(a *Agent, until time.Time) (by string, ours bool) {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Lease/3)
	defer cancel()
	err := s.swap(ctx, a.Cluster, func(e admission.Entry) (next admission.Entry, _ bool) {
		by = e.Instance
		next, ours = e.Renew(a.Epoch, until)
		return next, ours
	})
	if err != nil {
		s.cfg.Logger.Warn("the registry does not know that a session continues", "cluster", a.Cluster.Name, "error", err)
		return "", true
	}
	return by, ours
}

// ended records that a session has ended.
func (s *Server) ended(a *Agent) { _, _ = s.keep(a, time.Now()) }

package server_test

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/credential/signed"
)

var stage = registry.Cluster{Organisation: "acme", Name: "stage"}

// agentOf starts an agent with a token and the UID of a cluster, which answers connections with its name.
func (s *site) agentOf(r *replica, name, token, uid string) (a *link.Agent, stop func()) {
	s.Helper()
	cfg := s.config(r.address, name)
	cfg.Token = func() (string, error) { return token, nil }
	cfg.Hello = func(context.Context) (*linkv1.Hello, error) {
		return &linkv1.Hello{Version: admission.Version, ClusterUid: uid, Instance: name, OperatorVersion: "test"}, nil
	}
	cfg.Handle = func(_ context.Context, in *carrier.Incoming, _ *linkv1.Welcome) {
		if c, err := in.Accept(); err == nil {
			_, _ = c.Write([]byte(name + "\n"))
			_ = c.Close()
		}
	}
	return s.start(cfg)
}

// answers opens a connection to a cluster, and returns an error unless the agent with a name answers it.
func (s *site) answers(r *replica, of registry.Cluster, name string) error {
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	c, err := r.Open(ctx, of, &linkv1.Open{Caller: &linkv1.Caller{Name: "jo"}, To: &linkv1.Open_Service{Service: &tunnelv1.Address{Host: "cart.shop", Port: 80}}})
	if err != nil {
		return err
	}
	defer c.Close()
	return expect(c, name+"\n")
}

// TestAnAgentActsForItsOwnClusterOnly has the agents of two clusters, which are confused in each way that a Hello permits.
func TestAnAgentActsForItsOwnClusterOnly(t *testing.T) {
	s := newSite(t)
	s.tokens.Set(map[[sha256.Size]byte]registry.Token{sha256.Sum256([]byte("s3cret-prod")): {ID: "1", Cluster: prod}, sha256.Sum256([]byte("s3cret-stage")): {ID: "2", Cluster: stage}})
	r := s.serve("one", 100, nil)
	a, stopA := s.agentOf(r, "a", "s3cret-prod", "uid-1")
	b, stopB := s.agentOf(r, "b", "s3cret-stage", "uid-2")
	s.up(a, 1)
	s.up(b, 1)
	both := func() {
		t.Helper()
		for range 10 {
			for name, of := range map[string]registry.Cluster{"a": prod, "b": stage} {
				if err := s.answers(r, of, name); err != nil {
					t.Errorf("cluster %s: %v", of.Name, err)
				}
			}
		}
	}
	both()
	for name, c := range map[string]struct{ token, uid string }{"with the UID of the other": {"s3cret-prod", "uid-2"}, "with its token": {"s3cret-stage", "uid-1"}} {
		x, end := s.agentOf(r, "x", c.token, c.uid)
		s.becomes(x, "refused "+name, func(st link.State) bool { return st.Err != nil && strings.Contains(st.Err.Error(), "uid-") })
		end()
	}
	both()
	stopA()
	s.ended()
	same, end := s.agentOf(r, "b", "s3cret-prod", "uid-1") // an instance of the same name
	s.up(same, 2)
	if err := s.answers(r, prod, "b"); err != nil {
		t.Error(err)
	}
	if e, _ := s.registry.Get(t.Context(), stage); e.Epoch != 1 || !e.Live(time.Now()) {
		t.Errorf("the session of the other cluster is now %+v", e)
	}
	end()
	s.ended()
	a, _ = s.agentOf(r, "a", "s3cret-prod", "uid-1")
	s.up(a, 3)
	both()
	stopB()
	var waiting sync.WaitGroup
	waiting.Go(func() { // until an agent of its own cluster is back
		if err := s.answers(r, stage, "c"); err != nil {
			t.Errorf("a connection that waited: %v", err)
		}
	})
	if err := s.answers(r, prod, "a"); err != nil {
		t.Error(err)
	}
	c, _ := s.agentOf(r, "c", "s3cret-stage", "uid-2")
	s.up(c, 2)
	waiting.Wait()
}

// revoking calls a function after each binding of a token.
type revoking struct {
	registry.Tokens
	bound func()
}

// Bind implements registry.Tokens.
func (r revoking) Bind(ctx context.Context, id, uid string) (string, error) {
	defer r.bound()
	return r.Tokens.Bind(ctx, id, uid)
}

// recording calls a function after each write of a session.
type recording struct {
	registry.Registry
	recorded func()
}

// Swap implements registry.Registry.
func (r recording) Swap(ctx context.Context, c registry.Cluster, old, next admission.Entry) (bool, error) {
	defer r.recorded()
	return r.Registry.Swap(ctx, c, old, next)
}

// sent records whether keys are sent, which is done in each session.
type sent struct{ atomic.Bool }

// Public implements server.Keys.
func (s *sent) Public() (signed.Keys, <-chan struct{}) {
	s.Store(true)
	return signed.Keys{}, nil
}

// TestATokenThatIsRevokedDuringAnAdmissionHasNoSession revokes a token after it was found, and before the session of its
// agent began.
func TestATokenThatIsRevokedDuringAnAdmissionHasNoSession(t *testing.T) {
	for name, at := range map[string]struct {
		change   func(*server.Config, func())
		recorded uint64 // the epoch
	}{
		"before its session is recorded": {func(c *server.Config, revoke func()) { c.Tokens = revoking{c.Tokens, revoke} }, 0},
		"after its session is recorded":  {func(c *server.Config, revoke func()) { c.Registry = recording{c.Registry, revoke} }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			keys := &sent{}
			t.Cleanup(func() { // the server has ended
				if keys.Load() {
					t.Error("there was a session")
				}
			})
			r := s.serve("one", 100, func(c *server.Config) {
				c.Keys = keys
				at.change(c, func() { s.tokens.Set(nil) })
			})
			a, _ := s.start(s.config(r.address, "a"))
			s.becomes(a, "refused", func(st link.State) bool {
				return st.Kind == link.Down && st.Err != nil && strings.Contains(st.Err.Error(), "not known")
			})
			if all := r.Agents(); len(all) != 0 {
				t.Errorf("there are sessions: %v", all)
			}
			if e, _ := s.registry.Get(t.Context(), prod); e.Epoch != at.recorded {
				t.Errorf("the registry has %+v", e)
			}
		})
	}
}

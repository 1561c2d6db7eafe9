package linkserver_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/linkserver"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/tests/link/replicas"
	"switchyard.dev/tests/port"
)

// TestKeptConnectionsLeaveAFormerAgent has a Service that keeps its connections, as the reverse proxy does: they do
// not keep the session of a former agent, which would otherwise be cut while requests use them.
func TestKeptConnectionsLeaveAFormerAgent(t *testing.T) {
	s := newSite(t)
	r := s.start(func(c *linkserver.Config) { c.Server.Linger = time.Hour })
	s.agent(r.at["agents"])
	get := func() {
		t.Helper()
		answer, _, _ := s.send(r.at["users"], "GET / HTTP/1.1\nHost: web.shop.svc\n"+with(joKey)+"\n")
		if answer.StatusCode != http.StatusOK {
			t.Errorf("answered %s", answer.Status)
		}
	}
	get()
	former := r.Link().Agents()[0]
	s.instance(r.at["agents"], "b", 2)
	select {
	case <-former.Done():
	case <-time.After(patience):
		t.Fatal("the session of the former agent continues")
	}
	get()
}

// TestRequestsLeaveAFormerAgentAtOnce sends them through the replica of the agents and another one: the first after an
// upgrade uses no connection of the former agent.
func TestRequestsLeaveAFormerAgentAtOnce(t *testing.T) {
	s := newSite(t)
	s.certify()
	shared, tokens := &registry.Memory{}, &registry.MemoryTokens{}
	tokens.Set(map[[sha256.Size]byte]registry.Token{sha256.Sum256([]byte(prodToken)): {ID: "1", Cluster: prod}})
	var all []*running
	for range 2 {
		all = append(all, s.start(func(c *linkserver.Config) {
			c.ReplicasAddress = fmt.Sprintf("127.0.0.1:%d", port.Of(t))
			if err := replicas.Replicate(c, s.dir, shared, tokens); err != nil {
				t.Fatal(err)
			}
			c.Server.Linger = time.Hour
		}))
	}
	opened := func(r *running) int {
		t.Helper()
		if answer, _, _ := s.send(r.at["users"], "GET / HTTP/1.1\nHost: web.shop.svc\nConnection: close\n"+with(joKey)+"\n"); answer.StatusCode != http.StatusOK {
			t.Errorf("answered %s", answer.Status)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.opens)
	}
	for i, name := range []string{"a", "b"} {
		s.instance(all[0].at["agents"], name, uint64(i+1))
		for j, r := range all {
			if n := opened(r); n != 2*i+j+1 {
				t.Errorf("agent %s, replica %d: %d connections were opened", name, j, n)
			}
		}
	}
}

package linkserver_test

import (
	"net/http"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/linkserver"
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
	case <-time.After(patience / 2): // the reverse proxy closes idle connections after a minute
		t.Fatal("the session of the former agent continues")
	}
	get()
}

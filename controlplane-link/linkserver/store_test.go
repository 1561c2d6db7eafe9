package linkserver_test

import (
	"encoding/base64"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	cpstore "switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/linkserver"
	"switchyard.dev/tools/wait"
)

// TestTheStoreOutlivesTheServer has the registry and the tokens of a server in a store, which the next
// server opens: epochs continue, the token stays bound, and its deletion ends the session.
func TestTheStoreOutlivesTheServer(t *testing.T) {
	s := newSite(t)
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		t.Fatal(err)
	}
	var now *cpstore.Store
	begin := func() *running {
		if now, err = cpstore.Open(t.Context(), cpstore.Config{Path: filepath.Join(s.dir, "store.db"), Keys: keys}); err != nil {
			t.Fatal(err)
		}
		opened := now
		t.Cleanup(func() { _ = opened.Close() }) // after the server; it may be closed
		return s.start(func(c *linkserver.Config) {
			c.Server.Linger = time.Millisecond
			c.Server.Registry, c.Server.Tokens = cpstore.Registry{Store: now}, &cpstore.Tokens{Store: now}
		})
	}
	one := begin()
	err = errors.Join(
		now.CreateOrganisation(t.Context(), model.Organisation{Name: prod.Organisation}, model.Event{ID: "1", Org: prod.Organisation}),
		now.CreateCluster(t.Context(), model.Cluster{Org: prod.Organisation, Name: prod.Name}, model.Event{ID: "2"}),
		now.CreateClusterToken(t.Context(), model.ClusterToken{Org: prod.Organisation, Cluster: prod.Name, ID: "t1", Digest: model.DigestOf(prodToken)}, model.Event{ID: "3"}),
	)
	if err != nil {
		t.Fatal(err)
	}
	var to atomic.Value
	to.Store(one.at["agents"])
	a := s.agent(s.front(func() []string { return []string{to.Load().(string)} }))
	one.stop()
	err = <-one.ended
	one.ended <- err // for its end
	if err := errors.Join(err, now.Close()); err != nil {
		t.Fatal(err)
	}
	two := begin()
	to.Store(two.at["agents"])
	s.up(a, 2)
	if uid, err := (&cpstore.Tokens{Store: now}).Bind(t.Context(), "t1", "uid-2"); err != nil || uid != "uid-1" {
		t.Errorf("the token is bound to %s, %v", uid, err)
	}
	if err := now.DeleteClusterToken(t.Context(), prod.Organisation, prod.Name, "t1", model.Event{ID: "4"}); err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, patience, "the end of the session", func() error {
		if state, _ := a.State(); state.Kind == link.Up || state.Err == nil || !strings.Contains(state.Err.Error(), "revoked") {
			return errors.New("there is a session")
		}
		return nil
	})
}

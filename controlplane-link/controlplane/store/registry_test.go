package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/admission"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/registry"
)

var demo = registry.Cluster{Organisation: org, Name: "demo"}

func entry(epoch uint64, instance string) admission.Entry {
	return admission.Entry{Epoch: epoch, Instance: instance, Replica: "r1:7443", Until: at(int(epoch)), Superseded: []string{"old"}}
}

// replicas opens a store twice where it can be, otherwise returns it twice.
func replicas(t *testing.T, c store.Config) [2]*store.Store {
	s := filled(t, c)
	if c.PostgreSQL == "" {
		return [2]*store.Store{s, s}
	}
	return [2]*store.Store{s, open(t, c)}
}

// next waits for a value.
func next[T any](t *testing.T, values <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-values:
	case <-time.After(time.Minute):
		t.Fatal("nothing within a minute")
	}
	return v
}

func TestRegistry(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		both, ctx := replicas(t, c), t.Context()
		here, there := store.Registry{Store: both[0]}, store.Registry{Store: both[1]}
		changes := make(chan admission.Entry, 9)
		there.Watch(ctx, func(c registry.Cluster, e admission.Entry) {
			if c == demo {
				changes <- e
			}
		})
		same(t, value[admission.Entry](t)(here.Get(ctx, demo)), admission.Entry{})
		swap := func(r store.Registry, old, next admission.Entry, want bool) {
			t.Helper()
			same(t, value[bool](t)(r.Swap(ctx, demo, old, next)), want)
		}
		swap(here, entry(1, "a"), entry(2, "a"), false) // there is none
		swap(here, admission.Entry{}, entry(1, "a"), true)
		same(t, next(t, changes), entry(1, "a"))
		swap(there, admission.Entry{}, entry(1, "b"), false)
		swap(there, entry(1, "b"), entry(2, "b"), false)
		renewed := entry(1, "a")
		renewed.Until, renewed.Superseded = time.Time{}, nil
		swap(there, entry(1, "a"), renewed, true) // no new epoch, which nothing reports
		same(t, value[admission.Entry](t)(here.Get(ctx, demo)), renewed)
		swap(here, renewed, entry(2, "b"), true)
		same(t, next(t, changes), entry(2, "b"))

		must(t, both[0].Close())
		s := store.Registry{Store: open(t, c)}
		same(t, value[admission.Entry](t)(s.Get(ctx, demo)), entry(2, "b"))
	})
}

// TestRegistryHasOneWinner: of replicas that swap the same entry at once, one does.
func TestRegistryHasOneWinner(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		both := replicas(t, c)
		old := admission.Entry{}
		for epoch := uint64(1); epoch < 20; epoch++ {
			var wg sync.WaitGroup
			won := make(chan admission.Entry, 4)
			for i := range 4 {
				wg.Go(func() {
					e := entry(epoch, string(rune('a'+i)))
					if done, err := (store.Registry{Store: both[i%2]}).Swap(t.Context(), demo, old, e); err != nil {
						t.Error(err)
					} else if done {
						won <- e
					}
				})
			}
			wg.Wait()
			if len(won) != 1 {
				t.Fatalf("epoch %d: %d replicas have it", epoch, len(won))
			}
			old = <-won
		}
	})
}

func TestTokens(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		both, ctx := replicas(t, c), t.Context()
		k := model.ClusterToken{Org: org, Cluster: "demo", ID: "t1", Digest: model.DigestOf("value"), CreatedAt: at(1)}
		must(t, both[0].CreateClusterToken(ctx, k, event("token.create")))
		tokens := &store.Tokens{Store: both[1]}
		revoked := make(chan string, 9)
		tokens.Watch(ctx, func(id string) { revoked <- id })
		found, known, err := tokens.Find(ctx, "value")
		must(t, err)
		same(t, found, registry.Token{ID: "t1", Cluster: demo})
		same(t, known, true)
		_, known, err = tokens.Find(ctx, "other")
		must(t, err)
		same(t, known, false)
		same(t, value[string](t)(tokens.Bind(ctx, "t1", "uid-1")), "uid-1")
		same(t, value[string](t)(tokens.Bind(ctx, "t1", "uid-2")), "uid-1")
		_, err = tokens.Bind(ctx, "none", "uid-1")
		refused(t, err, model.ErrNotFound, "none")
		same(t, value[bool](t)(tokens.Valid(ctx, "t1")), true)

		must(t, both[0].DeleteClusterToken(ctx, org, "demo", "t1", event("token.delete")))
		same(t, next(t, revoked), "t1")
		same(t, value[bool](t)(tokens.Valid(ctx, "t1")), false)
		k.ID = "t2"
		must(t, both[0].CreateClusterToken(ctx, k, event("token.create")))
		_, known, err = tokens.Find(ctx, "value")
		must(t, err)
		same(t, known, true)
		bound := value[string](t)(tokens.Bind(ctx, "t2", "uid-2")) // a new token is bound to nothing
		same(t, bound, "uid-2")
		must(t, both[0].DeleteCluster(ctx, org, "demo", event("cluster.delete")))
		for id := next(t, revoked); id != "t2"; id = next(t, revoked) {
			t.Errorf("%s was revoked twice", id)
		}
	})
}

// TestWatch: watchers at all replicas are notified of committed writes in their order, of observations, and of nothing else.
func TestWatch(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		both, ctx := replicas(t, c), t.Context()
		changes, observed := make(chan store.Change, 99), make(chan store.Change, 99)
		both[1].Watch(ctx, func(c store.Change) {
			switch c.Kind {
			case store.Observed:
				observed <- c
			case store.Everything:
			default:
				changes <- c
			}
		})
		ready := store.Change{Kind: store.Cluster, Org: org, Cluster: "ready"}
		for first := (store.Change{}); first != ready; { // PostgreSQL is connected in the background
			_ = both[0].DeleteCluster(ctx, org, "ready", event("cluster.delete")) // there is none at first
			must(t, both[0].CreateCluster(ctx, model.Cluster{Org: org, Name: "ready"}, event("cluster.create")))
			select {
			case first = <-changes:
			case <-time.After(100 * time.Millisecond):
			}
		}
		o := value[model.Sandbox](t)(both[0].PutSandbox(ctx, sandbox("a"), event("sandbox.apply")))
		same(t, value[bool](t)(both[0].Observe(ctx, store.Sandbox, org, "a", "demo", model.Status{Generation: o.Generation, Ready: true})), true)
		if _, err := both[0].PutRouteGroup(ctx, model.RouteGroup{Org: org, Name: "a"}, event("routegroup.apply")); err == nil {
			t.Error("a route group has the name of a sandbox")
		}
		must(t, both[1].DeleteSandbox(ctx, org, "a", false, at(1), event("sandbox.delete")))
		must(t, both[0].CreateCluster(ctx, model.Cluster{Org: org, Name: "last"}, event("cluster.create")))
		var got []store.Change
		for c := next(t, changes); c.Cluster != "last"; c = next(t, changes) {
			if c != ready {
				got = append(got, c)
			}
		}
		want := store.Change{Kind: store.Sandbox, Org: org, Cluster: "demo", Name: "a"}
		same(t, got, []store.Change{want, want})
		same(t, next(t, observed), store.Change{Kind: store.Observed, Org: org})
		same(t, value[bool](t)(both[0].Observe(ctx, store.Sandbox, org, "none", "demo", model.Status{})), false)
		refused(t, both[0].ReportCluster(ctx, model.Cluster{Org: "other", Name: "none"}), model.ErrNotFound, `"none"`)
		must(t, both[0].ReportCluster(ctx, model.Cluster{Org: org, Name: "last", OperatorVersion: "1"}))
		same(t, next(t, observed), store.Change{Kind: store.Observed, Org: org})
		same(t, len(observed), 0)
	})
}

// TestATokenIsBoundOnce: of clusters that show the same token at once, one has it.
func TestATokenIsBoundOnce(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		both, ctx := replicas(t, c), t.Context()
		for n := range 16 {
			id := fmt.Sprintf("t%d", n)
			must(t, both[0].CreateClusterToken(ctx, model.ClusterToken{Org: org, Cluster: "demo", ID: id, Digest: model.DigestOf(id)}, event("token.create")))
			var wg sync.WaitGroup
			var bound [4]string
			for i := range bound {
				wg.Go(func() {
					var err error
					if bound[i], err = (&store.Tokens{Store: both[i%2]}).Bind(ctx, id, fmt.Sprintf("uid-%d", i)); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			for _, uid := range bound {
				if uid == "" || uid != bound[0] {
					t.Fatalf("token %s is bound to %q", id, bound)
				}
			}
		}
	})
}

// TestWatchAfterALostConnection: tokens that were revoked without a notification are reported.
func TestWatchAfterALostConnection(t *testing.T) {
	name := newName()
	url := value[string](t)(server.Create(t.Context(), name, ""))
	both, ctx := replicas(t, store.Config{PostgreSQL: url, Keys: keys("first")}), t.Context()
	must(t, both[0].CreateClusterToken(ctx, model.ClusterToken{Org: org, Cluster: "demo", ID: "t1", Digest: model.DigestOf("value")}, event("token.create")))
	revoked := make(chan string, 9)
	(&store.Tokens{Store: both[1]}).Watch(ctx, func(id string) { revoked <- id })
	clusters := make(chan string, 9)
	both[1].Watch(ctx, func(c store.Change) {
		if c.Kind == store.Cluster {
			clusters <- c.Cluster
		}
	})
	for listens := false; !listens; { // until it is connected
		_ = both[0].DeleteCluster(ctx, org, "third", event("cluster.delete")) // there is none at first
		must(t, both[0].CreateCluster(ctx, model.Cluster{Org: org, Name: "third"}, event("cluster.create")))
		select {
		case <-clusters:
			listens = true
		case <-time.After(100 * time.Millisecond):
		}
	}
	must(t, server.Execute(ctx, name, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"))
	must(t, both[0].DeleteClusterToken(ctx, org, "demo", "t1", event("token.delete")))
	same(t, next(t, revoked), "t1")
}

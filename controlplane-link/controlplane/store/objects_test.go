package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/workflows/spec"
)

// sandbox is a valid sandbox, with a key made of its name.
func sandbox(name string) model.Sandbox {
	return model.Sandbox{
		Org: org, Name: name, Cluster: "demo", RoutingKey: fmt.Sprintf("%013s", name), Spec: json.RawMessage(`{"cluster":"demo"}`),
		CreatedAt: at(10), UpdatedAt: at(10),
	}
}

func TestSandboxes(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		first := value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("b"), event("sandbox.apply")))
		want := sandbox("b")
		want.Generation = first.Generation
		same(t, first, want)
		next := sandbox("b")
		next.RoutingKey, next.CreatedAt, next.UpdatedAt, next.Spec = "ignored", at(20), at(20), json.RawMessage(`{"cluster": "demo", "ttl":null}`)
		second := value[model.Sandbox](t)(s.PutSandbox(ctx, next, event("sandbox.apply")))
		want.Spec, want.UpdatedAt, want.Generation = next.Spec, at(20), second.Generation
		same(t, second, want)
		if second.Generation <= first.Generation {
			t.Errorf("generation %d after %d", second.Generation, first.Generation)
		}
		a := sandbox("a")
		a.Cluster = "other"
		a = value[model.Sandbox](t)(s.PutSandbox(ctx, a, event("sandbox.apply")))
		same(t, value[[]model.Sandbox](t)(s.Sandboxes(ctx, org)), []model.Sandbox{a, second})
		same(t, value[[]model.Sandbox](t)(s.SandboxesOf(ctx, org, "demo")), []model.Sandbox{second})

		next.Cluster = "other"
		_, err := s.PutSandbox(ctx, next, event("sandbox.apply"))
		refused(t, err, model.ErrMoved, `"b"`)
		_, err = s.PutRouteGroup(ctx, model.RouteGroup{Org: org, Name: "b", RoutingKey: "new"}, event("routegroup.apply"))
		refused(t, err, model.ErrExists, `"b"`)
		unknown := sandbox("c")
		unknown.Cluster = "none"
		_, err = s.PutSandbox(ctx, unknown, event("sandbox.apply"))
		refused(t, err, model.ErrNotFound, `"none"`)
		same(t, value[model.Sandbox](t)(s.Sandbox(ctx, org, "b")), second)
	})
}

func TestDeletionKeepsATombstone(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		first := value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")))
		must(t, s.DeleteSandbox(ctx, org, "a", false, at(30), event("sandbox.delete")))
		tombstone := value[model.Sandbox](t)(s.Sandbox(ctx, org, "a"))
		if tombstone.Generation <= first.Generation || !tombstone.DeletedAt.Equal(at(30)) {
			t.Errorf("tombstone %+v", tombstone)
		}
		must(t, s.DeleteSandbox(ctx, org, "a", false, at(31), event("sandbox.delete")))
		same(t, value[model.Sandbox](t)(s.Sandbox(ctx, org, "a")), tombstone)
		must(t, s.DeleteSandbox(ctx, org, "a", true, at(32), event("sandbox.delete")))
		forced := value[model.Sandbox](t)(s.Sandbox(ctx, org, "a"))
		if forced.Generation <= tombstone.Generation || !forced.Force || !forced.DeletedAt.Equal(at(30)) {
			t.Errorf("tombstone %+v", forced)
		}
		_, err := s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply"))
		refused(t, err, model.ErrDeleting, `"a"`)
		refused(t, s.DeleteCluster(ctx, org, "demo", event("cluster.delete")), model.ErrInUse, "demo")
		same(t, value[bool](t)(s.FinishSandbox(ctx, org, "a", tombstone.Generation, event("sandbox.deleted"))), false)
		same(t, value[bool](t)(s.FinishSandbox(ctx, org, "a", forced.Generation, event("sandbox.deleted"))), true)
		same(t, value[bool](t)(s.FinishSandbox(ctx, org, "a", forced.Generation, event("sandbox.deleted"))), false)
		_, err = s.Sandbox(ctx, org, "a")
		refused(t, err, model.ErrNotFound, `"a"`)
		refused(t, s.DeleteSandbox(ctx, org, "a", false, at(33), event("sandbox.delete")), model.ErrNotFound, `"a"`)

		_, err = s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply"))
		refused(t, err, model.ErrKeyTaken, `"a"`) // the key of the deleted one
		again := sandbox("a")
		again.RoutingKey = "another"
		again = value[model.Sandbox](t)(s.PutSandbox(ctx, again, event("sandbox.apply")))
		if again.Generation <= forced.Generation {
			t.Errorf("generation %d after that of the tombstone, %d", again.Generation, forced.Generation)
		}
		same(t, value[bool](t)(s.FinishSandbox(ctx, org, "a", again.Generation, event("sandbox.deleted"))), false) // it is no tombstone
		must(t, s.DeleteSandbox(ctx, org, "a", false, at(40), event("sandbox.delete")))
		tombstone = value[model.Sandbox](t)(s.Sandbox(ctx, org, "a"))
		same(t, value[bool](t)(s.FinishSandbox(ctx, org, "a", tombstone.Generation, event("sandbox.deleted"))), true)
		must(t, s.DeleteCluster(ctx, org, "demo", event("cluster.delete")))
	})
}

func TestStatusOfOlderGenerationsIsIgnored(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		first := value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")))
		second := value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")))
		status := model.Status{Generation: second.Generation, Ready: true, Message: "All desired workloads are available.", Local: []model.Tunnel{{Name: "l", Connected: true}}}
		observe := func(status model.Status, want bool) {
			t.Helper()
			same(t, value[bool](t)(s.ObserveSandbox(ctx, org, "a", status)), want)
		}
		writes, observations := s.Transactions()
		observe(status, true)
		if w, o := s.Transactions(); w != writes || o != observations+1 {
			t.Errorf("a status took %d writes, %d observations", w-writes, o-observations)
		}
		observe(status, false)
		observe(model.Status{Generation: first.Generation}, false)
		observe(model.Status{Generation: second.Generation + 1}, false)
		same(t, value[model.Sandbox](t)(s.Sandbox(ctx, org, "a")).Status, status)
		third := value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")))
		same(t, third.Status, status)
		same(t, value[bool](t)(s.ObserveRouteGroup(ctx, org, "a", status)), false)
	})
}

func TestRouteGroups(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		g := model.RouteGroup{Org: org, Name: "g", RoutingKey: "group", Spec: json.RawMessage(`{}`), CreatedAt: at(1), UpdatedAt: at(1)}
		put := value[model.RouteGroup](t)(s.PutRouteGroup(ctx, g, event("routegroup.apply")))
		g.Generation = put.Generation
		same(t, put, g)
		_, err := s.PutSandbox(ctx, sandbox("g"), event("sandbox.apply"))
		refused(t, err, model.ErrExists, `"g"`)
		_, err = s.Sandbox(ctx, org, "g")
		refused(t, err, model.ErrNotFound, `"g"`)
		same(t, value[bool](t)(s.ObserveRouteGroup(ctx, org, "g", model.Status{Generation: g.Generation, Matched: []string{"a"}})), true)
		same(t, value[model.RouteGroup](t)(s.RouteGroup(ctx, org, "g")).Status.Matched, []string{"a"})
		part := &model.Status{Generation: g.Generation, Ready: true, Matched: []string{"b", "a"}}
		same(t, value[bool](t)(s.ObserveIn(ctx, org, "g", "one", part)), true)
		same(t, value[bool](t)(s.ObserveIn(ctx, org, "g", "one", part)), false)
		same(t, value[bool](t)(s.ObserveIn(ctx, org, "g", "two", &model.Status{Generation: g.Generation, Reason: "No", Message: "not yet", Matched: []string{"c", "a"}})), true)
		st := value[model.RouteGroup](t)(s.RouteGroup(ctx, org, "g")).Status
		if st.Ready || st.Message != "cluster two: not yet" || st.Generation != g.Generation || !slices.Equal(st.Matched, []string{"a", "b", "c"}) {
			t.Errorf("the union: %+v", st)
		}
		must(t, s.DeleteRouteGroup(ctx, org, "g", at(2), event("routegroup.delete")))
		same(t, value[bool](t)(s.ObserveIn(ctx, org, "g", "three", part)), false) // it is a tombstone
		same(t, value[bool](t)(s.ObserveIn(ctx, org, "g", "two", nil)), true)
		tombstone := value[[]model.RouteGroup](t)(s.RouteGroups(ctx, org))[0]
		same(t, value[bool](t)(s.FinishRouteGroup(ctx, org, "g", tombstone.Generation, event("routegroup.deleted"))), true)
		same(t, len(value[[]model.RouteGroup](t)(s.RouteGroups(ctx, org))), 0)
		again := model.RouteGroup{Org: org, Name: "h", RoutingKey: "other", Spec: json.RawMessage(`{}`), CreatedAt: at(1), UpdatedAt: at(1)}
		same(t, value[model.RouteGroup](t)(s.PutRouteGroup(ctx, again, event("routegroup.apply"))).Name, "h")
		must(t, s.DeleteRouteGroup(ctx, org, "h", at(2), event("routegroup.delete"))) // no cluster has it
		same(t, len(value[[]model.RouteGroup](t)(s.RouteGroups(ctx, org))), 0)
	})
}

func TestPluginsInUse(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		name := func(version string) spec.PluginName { return spec.PluginName{Bare: "db", Version: version} }
		var plugins []model.Plugin
		for _, version := range []string{"0.0.0", "1.10.0", "1.9.0"} {
			p := model.Plugin{Org: org, Name: name(version), Spec: json.RawMessage(`{"v":"` + version + `"}`), CreatedAt: at(1), UpdatedAt: at(1)}
			must(t, s.CreatePlugin(ctx, p, event("plugin.apply")))
			refused(t, s.CreatePlugin(ctx, p, event("plugin.apply")), model.ErrExists, p.Name.String())
			plugins = append(plugins, p)
		}
		same(t, value[[]model.Plugin](t)(s.Plugins(ctx, org)), []model.Plugin{plugins[1], plugins[2], plugins[0]})
		same(t, value[model.Plugin](t)(s.Plugin(ctx, org, name(""))), plugins[0])
		for sb, cluster := range map[string]string{"x": "demo", "y": "other"} {
			o := sandbox(sb)
			o.Cluster, o.Plugins = cluster, map[string]spec.PluginName{"store": name("1.9.0")}
			same(t, value[model.Sandbox](t)(s.PutSandbox(ctx, o, event("sandbox.apply"))).Plugins, o.Plugins)
		}
		unknown := sandbox("z")
		unknown.Plugins = map[string]spec.PluginName{"store": name("2.0.0")}
		_, err := s.PutSandbox(ctx, unknown, event("sandbox.apply"))
		refused(t, err, model.ErrNotFound, "db@2.0.0")
		plugins[2].Uses = []model.Use{{Resource: "store", Sandbox: "x", Cluster: "demo"}, {Resource: "store", Sandbox: "y", Cluster: "other"}}
		same(t, value[model.Plugin](t)(s.Plugin(ctx, org, name("1.9.0"))), plugins[2])
		err = s.DeletePlugin(ctx, org, name("1.9.0"), event("plugin.delete"))
		refused(t, err, model.ErrInUse, "db@1.9.0")
		if want := `in use by sandbox "x" in cluster "demo", sandbox "y" in cluster "other"`; !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %s", err, want)
		}
		must(t, s.DeletePlugin(ctx, org, name("1.10.0"), event("plugin.delete")))
		must(t, s.DeleteSandbox(ctx, org, "x", false, at(2), event("sandbox.delete")))
		if _, err := s.PutSandbox(ctx, func() model.Sandbox { o := sandbox("y"); o.Cluster = "other"; return o }(), event("sandbox.apply")); err != nil {
			t.Error(err)
		}
		err = s.DeletePlugin(ctx, org, name("1.9.0"), event("plugin.delete"))
		refused(t, err, model.ErrInUse, `"x"`) // its tombstone runs the delete steps
		if strings.Contains(err.Error(), `"y"`) {
			t.Error(err)
		}
	})
}

// TestWritesOfReplicas has two stores write to the same objects at once.
func TestWritesOfReplicas(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s := filled(t, c)
		replicas := []*store.Store{s, s}
		if c.PostgreSQL != "" {
			replicas[1] = open(t, c)
		}
		const writers, writes = 4, 25
		generations := make([][]int64, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for n := range writes {
					o := sandbox(fmt.Sprintf("s%d", n%3))
					o.RoutingKey = fmt.Sprintf("key%d-%d", w, n)
					o, err := replicas[w%2].PutSandbox(t.Context(), o, event("sandbox.apply"))
					if err != nil {
						t.Error(err)
						return
					}
					generations[w] = append(generations[w], o.Generation)
				}
			})
		}
		wg.Wait()
		seen := map[int64]bool{}
		for _, of := range generations {
			for i, g := range of {
				if seen[g] || i > 0 && g <= of[i-1] {
					t.Errorf("generation %d was given twice, or before an older one", g)
				}
				seen[g] = true
			}
		}
		if len(seen) != writers*writes {
			t.Errorf("%d generations of %d writes", len(seen), writers*writes)
		}
		if all := value[[]model.Event](t)(s.Events(t.Context(), org, model.EventQuery{Types: []string{"sandbox.apply"}, Limit: 1000})); len(all) != writers*writes {
			t.Errorf("%d events of %d writes", len(all), writers*writes)
		}
	})
}

func TestAWriteAndItsEventAreOneTransaction(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		ev := event("sandbox.apply")
		writes, _ := s.Transactions()
		first := value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("a"), ev))
		if w, _ := s.Transactions(); w != writes+1 {
			t.Errorf("a specification took %d transactions", w-writes)
		}
		if _, err := s.PutSandbox(ctx, sandbox("a"), ev); err == nil { // the ID of the event is taken
			t.Error("a write without its event was stored")
		}
		same(t, value[model.Sandbox](t)(s.Sandbox(ctx, org, "a")), first)
		before := value[[]model.Event](t)(s.Events(ctx, org, model.EventQuery{Limit: 1000}))
		if err := s.DeleteSandbox(ctx, org, "none", false, at(1), event("sandbox.delete")); !errors.Is(err, model.ErrNotFound) {
			t.Error(err)
		}
		same(t, value[[]model.Event](t)(s.Events(ctx, org, model.EventQuery{Limit: 1000})), before)
	})
}

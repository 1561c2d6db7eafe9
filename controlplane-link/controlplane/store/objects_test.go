package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
		same(t, value[[]store.Change](t)(s.Delivered(ctx, org, "demo")), []store.Change{{Kind: store.Sandbox, Name: second.Name}})

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
		same(t, len(value[[]model.Event](t)(s.Events(ctx, org, model.EventQuery{Types: []string{"sandbox.delete"}, Limit: 9}))), 1)
		must(t, s.DeleteSandbox(ctx, org, "a", true, at(32), event("sandbox.delete")))
		forced := value[model.Sandbox](t)(s.Sandbox(ctx, org, "a"))
		if forced.Generation <= tombstone.Generation || !forced.Force || !forced.DeletedAt.Equal(at(30)) {
			t.Errorf("tombstone %+v", forced)
		}
		_, err := s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply"))
		refused(t, err, model.ErrDeleting, `"a"`)
		same(t, value[bool](t)(s.Finish(ctx, store.Sandbox, org, "a", "demo", tombstone.Generation, event("sandbox.deleted"))), false)
		same(t, value[bool](t)(s.Finish(ctx, store.Sandbox, org, "a", "demo", forced.Generation, event("sandbox.deleted"))), true)
		same(t, value[bool](t)(s.Finish(ctx, store.Sandbox, org, "a", "demo", forced.Generation, event("sandbox.deleted"))), false)
		_, err = s.Finish(ctx, store.Sandbox, "none", "a", "demo", forced.Generation, event("sandbox.deleted"))
		refused(t, err, model.ErrNotFound, `organisation "none"`)
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
		same(t, value[bool](t)(s.Finish(ctx, store.Sandbox, org, "a", "demo", again.Generation, event("sandbox.deleted"))), false) // it is no tombstone
		must(t, s.DeleteSandbox(ctx, org, "a", false, at(40), event("sandbox.delete")))
		tombstone = value[model.Sandbox](t)(s.Sandbox(ctx, org, "a"))
		same(t, value[bool](t)(s.Finish(ctx, store.Sandbox, org, "a", "demo", tombstone.Generation, event("sandbox.deleted"))), true)
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
			same(t, value[bool](t)(s.Observe(ctx, store.Sandbox, org, "a", "demo", status)), want)
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
		same(t, value[bool](t)(s.Observe(ctx, store.RouteGroup, org, "a", "demo", status)), false)
	})
}

// group is a route group of a cluster, or of all, that matches a label.
func group(name, cluster string, endpoints ...string) model.RouteGroup {
	text := `{"match":{"label":{"key":"feature","value":"check*"}},"endpoints":[`
	for i, cluster := range endpoints {
		text += strings.Repeat(",", min(i, 1)) + fmt.Sprintf(`{"name":"e%d","target":"http://web:80","cluster":%q}`, i, cluster)
	}
	return model.RouteGroup{Org: org, Name: name, Cluster: cluster, RoutingKey: "key-of-" + name, Spec: json.RawMessage(text + "]}"), CreatedAt: at(1), UpdatedAt: at(1)}
}

func TestAGroupHasANewGenerationWhenItsSandboxesChange(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		for _, g := range []model.RouteGroup{group("all", ""), group("in-demo", "demo"), group("in-other", "other"), group("left", "demo")} {
			value[model.RouteGroup](t)(s.PutRouteGroup(ctx, g, event("routegroup.apply")))
		}
		must(t, s.DeleteRouteGroup(ctx, org, "left", at(2), event("routegroup.delete")))
		changes := make(chan store.Change, 100)
		s.Watch(ctx, func(c store.Change) { changes <- c })
		numbers := func() map[string]int64 {
			out := map[string]int64{}
			for _, g := range value[[]model.RouteGroup](t)(s.RouteGroups(ctx, org)) {
				out[g.Name] = g.Generation
			}
			return out
		}
		// write makes a write, after which these groups have its generation and others their former one.
		write := func(what string, write func() error, changed ...string) {
			t.Helper()
			before := numbers()
			must(t, write())
			newest := value[int64](t)(s.Generation(ctx, org))
			for name, now := range numbers() {
				want := before[name]
				if slices.Contains(changed, name) {
					want = newest
				}
				if now != want {
					t.Errorf("%s: group %s has generation %d, want %d", what, name, now, want)
				}
			}
			for left := slices.Clone(changed); len(left) > 0; {
				select {
				case c := <-changes:
					left = slices.DeleteFunc(left, func(name string) bool {
						return c.Kind == store.Everything || c.Kind == store.RouteGroup && c.Name == name // everything: PostgreSQL is connected
					})
				case <-time.After(time.Minute):
					t.Fatalf("%s: no watcher is notified of groups %s", what, left)
				}
			}
		}
		put := func(name, spec string) func() error {
			o := sandbox(name)
			o.Spec = json.RawMessage(spec)
			return func() error { _, err := s.PutSandbox(ctx, o, event("sandbox.apply")); return err }
		}
		write("no label", put("a", `{}`))
		write("another label", put("a", `{"labels":{"team":"checkout"}}`))
		write("the label", put("a", `{"labels":{"feature":"checkout"}}`), "all", "in-demo")
		write("the same labels", put("a", `{"labels":{"feature":"checkout"},"description":"new"}`))
		write("another value that matches", put("a", `{"labels":{"feature":"checkin"}}`))
		write("a value that does not", put("a", `{"labels":{"feature":"search"}}`), "all", "in-demo")
		write("a new one with it", put("b", `{"labels":{"feature":"checkout"}}`), "all", "in-demo")
		remove := func() error { return s.DeleteSandbox(ctx, org, "b", false, at(3), event("sandbox.delete")) }
		write("deleted", remove, "all", "in-demo")
		write("deleted again", remove)
	})
}

// TestAGroupEndsAfterItsLastSandbox: its lifetime begins when it has no sandbox, and begins again after it had one.
func TestAGroupEndsAfterItsLastSandbox(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		put := func(name string, created, updated int, ttl string) {
			t.Helper()
			g := group(name, "")
			g.CreatedAt, g.UpdatedAt = at(created), at(updated)
			g.Spec = json.RawMessage(strings.Replace(string(g.Spec), "{", fmt.Sprintf(`{"ttl":{"duration":"1m","offsetFrom":%q},`, ttl), 1))
			value[model.RouteGroup](t)(s.PutRouteGroup(ctx, g, event("routegroup.apply")))
		}
		one := func(name string, when int, spec string) {
			t.Helper()
			o := sandbox(name)
			o.UpdatedAt, o.Spec = at(when), json.RawMessage(spec)
			value[model.Sandbox](t)(s.PutSandbox(ctx, o, event("sandbox.apply")))
		}
		// left are the groups that have not ended at a time.
		left := func(when int, want ...string) {
			t.Helper()
			must(t, s.EndLifetimes(ctx, org, at(when), func(store.Kind, string) model.Event { return event("routegroup.expire") }))
			var got []string
			for _, g := range value[[]model.RouteGroup](t)(s.RouteGroups(ctx, org)) {
				if g.DeletedAt.IsZero() {
					got = append(got, g.Name)
				} else if !g.DeletedAt.Equal(at(when)) && slices.Contains(want, g.Name) {
					t.Errorf("%s was deleted at %s", g.Name, g.DeletedAt)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("at %d: %q, want %q", when, got, want)
			}
		}
		put("created", 0, 0, "createdAt")
		put("unmatched", 0, 0, "noMatchedSandboxes")
		put("updated", 0, 0, "updatedAt")
		left(59, "created", "unmatched", "updated")
		one("a", 30, `{"labels":{"feature":"checkout"}}`)
		put("updated", 0, 40, "updatedAt")
		left(60, "unmatched", "updated")
		one("b", 70, `{"labels":{"feature":"checkout"}}`)
		must(t, s.DeleteSandbox(ctx, org, "a", false, at(80), event("sandbox.delete")))
		one("b", 90, `{"labels":{"feature":"checkout"}}`)
		left(1000, "unmatched")
		one("b", 1000, `{}`)
		one("b", 1010, `{"labels":{"feature":"checkout"}}`)
		one("b", 1020, `{}`)
		put("unmatched", 0, 1050, "noMatchedSandboxes")
		if g := value[model.RouteGroup](t)(s.RouteGroup(ctx, org, "unmatched")); !g.UnmatchedAt.Equal(at(1020)) {
			t.Errorf("without a sandbox since %s", g.UnmatchedAt)
		}
		left(1079, "unmatched")
		left(1080)
		left(1081)
		if all := value[[]model.Event](t)(s.Events(ctx, org, model.EventQuery{Types: []string{"routegroup.expire"}, Limit: 10})); len(all) != 3 {
			t.Errorf("%d entries in the audit trail", len(all))
		}
	})
}

func TestClustersOfRouteGroupsExist(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		_, err := s.PutRouteGroup(ctx, group("g", "none"), event("routegroup.apply"))
		refused(t, err, model.ErrNotFound, `spec.cluster: cluster "none"`)
		_, err = s.PutRouteGroup(ctx, group("g", "", "demo", "none"), event("routegroup.apply"))
		refused(t, err, model.ErrNotFound, `spec.endpoints[1].cluster: cluster "none"`)
		value[model.RouteGroup](t)(s.PutRouteGroup(ctx, group("g", "", "demo", "other"), event("routegroup.apply")))
		_, err = s.PutRouteGroup(ctx, group("g", "", "none"), event("routegroup.apply"))
		refused(t, err, model.ErrNotFound, `spec.endpoints[0].cluster: cluster "none"`)
		refused(t, s.DeleteCluster(ctx, org, "other", event("cluster.delete")), model.ErrInUse, "other")
		value[model.RouteGroup](t)(s.PutRouteGroup(ctx, group("g", "", "demo"), event("routegroup.apply")))
		must(t, s.DeleteCluster(ctx, org, "other", event("cluster.delete")))
	})
}

func TestRouteGroups(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		g := model.RouteGroup{Org: org, Name: "g", RoutingKey: "group", Spec: json.RawMessage(`{}`), CreatedAt: at(1), UpdatedAt: at(1)}
		put := value[model.RouteGroup](t)(s.PutRouteGroup(ctx, g, event("routegroup.apply")))
		g.Generation, g.UnmatchedAt = put.Generation, at(1)
		same(t, put, g)
		_, err := s.PutSandbox(ctx, sandbox("g"), event("sandbox.apply"))
		refused(t, err, model.ErrExists, `"g"`)
		_, err = s.Sandbox(ctx, org, "g")
		refused(t, err, model.ErrNotFound, `"g"`)
		same(t, value[bool](t)(s.Observe(ctx, store.RouteGroup, org, "g", "demo", model.Status{Generation: g.Generation, Matched: []string{"a"}})), true)
		same(t, value[model.RouteGroup](t)(s.RouteGroup(ctx, org, "g")).Status.Matched, []string{"a"})
		part := model.Status{Generation: g.Generation, Ready: true, Matched: []string{"b", "a"}}
		same(t, value[bool](t)(s.Observe(ctx, store.RouteGroup, org, "g", "demo", part)), true)
		same(t, value[bool](t)(s.Observe(ctx, store.RouteGroup, org, "g", "demo", part)), false)
		same(t, value[bool](t)(s.Observe(ctx, store.RouteGroup, org, "g", "other", model.Status{Generation: g.Generation, Reason: "No", Message: "not yet", Matched: []string{"c", "a"}})), true)
		st := value[model.RouteGroup](t)(s.RouteGroup(ctx, org, "g")).Status
		if st.Ready || st.Message != "cluster other: not yet" || st.Generation != g.Generation || !slices.Equal(st.Matched, []string{"a", "b", "c"}) {
			t.Errorf("the union: %+v", st)
		}
		must(t, s.DeleteRouteGroup(ctx, org, "g", at(2), event("routegroup.delete")))
		same(t, value[bool](t)(s.Observe(ctx, store.RouteGroup, org, "g", "three", part)), false) // it is a tombstone
		tombstone := value[[]model.RouteGroup](t)(s.RouteGroups(ctx, org))[0]
		same(t, value[bool](t)(s.Finish(ctx, store.RouteGroup, org, "g", "other", tombstone.Generation, event("routegroup.deleted"))), true)
		same(t, len(value[[]model.RouteGroup](t)(s.RouteGroups(ctx, org))), 1) // one has its part yet
		same(t, value[bool](t)(s.Finish(ctx, store.RouteGroup, org, "g", "demo", tombstone.Generation, event("routegroup.deleted"))), true)
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
		same(t, value[[]model.Plugin](t)(s.Plugins(ctx, org))[1], plugins[2])
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

// TestADeletionByAnotherAuthor: a deletion that the cluster refuses to its author is done by the next one.
func TestADeletionByAnotherAuthor(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")))
		spread(t, s, "g", "demo")
		member, admin := event("sandbox.delete"), event("sandbox.delete")
		member.Role = model.RoleMember
		admin.By, admin.Role = model.Principal{Kind: model.KindUser, ID: "u2", Name: "bob@example.com"}, model.RoleAdmin
		for when, ev := range []model.Event{member, admin} {
			for _, name := range []string{"a", "g"} {
				of := func() (generation int64, by model.Author, at time.Time) {
					if name == "g" {
						g := value[model.RouteGroup](t)(s.RouteGroup(ctx, org, name))
						return g.Generation, g.Author, g.DeletedAt
					}
					o := value[model.Sandbox](t)(s.Sandbox(ctx, org, name))
					return o.Generation, o.Author, o.DeletedAt
				}
				remove := func() error {
					ev.ID = event("").ID
					if name == "g" {
						return s.DeleteRouteGroup(ctx, org, name, at(when), ev)
					}
					return s.DeleteSandbox(ctx, org, name, false, at(when), ev)
				}
				before, _, _ := of()
				must(t, remove())
				after, by, deleted := of()
				must(t, remove())
				if again, _, _ := of(); after <= before || again != after || !deleted.Equal(at(0)) {
					t.Errorf("%s, deletion %d: generation %d after %d, then %d, deleted at %s", name, when, after, before, again, deleted)
				}
				same(t, by, model.Author{Principal: ev.By, Role: ev.Role})
			}
		}
	})
}

// TestADeletionIsNotTakenOver by an author with a lower role, that can lack the right to it in the cluster. Its force has an
// author of its own.
func TestADeletionIsNotTakenOver(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")))
		authors := map[string]model.Author{
			"member": {Principal: model.Principal{Kind: model.KindUser, ID: "u3", Name: "eve@example.com"}, Role: model.RoleMember},
			"other":  {Principal: model.Principal{Kind: model.KindServiceAccount, ID: "ci", Name: "ci"}, Role: model.RoleMember},
			"admin":  {Principal: ada, Role: model.RoleAdmin},
			"system": {Principal: model.Principal{Kind: model.KindSystem, Name: "control plane"}},
		}
		before := model.Sandbox{}
		for i, step := range []struct {
			by              string
			force           bool
			author, forceBy string // after it
			changes         bool
		}{
			{"member", false, "member", "", true},
			{"other", false, "other", "", true},
			{"admin", false, "admin", "", true},
			{"member", false, "admin", "", false},
			{"member", true, "admin", "member", true},
			{"member", true, "admin", "member", false},
			{"other", true, "admin", "other", true},
			{"other", false, "admin", "other", false},
			{"system", false, "system", "other", true},
			{"admin", true, "system", "admin", true},
			{"member", true, "system", "admin", false},
		} {
			ev := event("sandbox.delete")
			ev.By, ev.Role = authors[step.by].Principal, authors[step.by].Role
			must(t, s.DeleteSandbox(ctx, org, "a", step.force, at(30), ev))
			o := value[model.Sandbox](t)(s.Sandbox(ctx, org, "a"))
			if o.Author != authors[step.author] || o.ForcedBy != authors[step.forceBy] || o.Force != (step.forceBy != "") || o.Generation > before.Generation != step.changes {
				t.Errorf("%d: %s, force %t: generation %d after %d, tombstone %+v", i, step.by, step.force, o.Generation, before.Generation, o)
			}
			before = o
		}
	})
}

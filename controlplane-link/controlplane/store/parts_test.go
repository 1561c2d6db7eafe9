package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
)

// spread writes a route group of all clusters, with a part in some, and returns its generation.
func spread(t *testing.T, s *store.Store, name string, clusters ...string) int64 {
	t.Helper()
	g := value[model.RouteGroup](t)(s.PutRouteGroup(t.Context(), group(name, ""), event("routegroup.apply")))
	for _, cluster := range clusters {
		same(t, value[bool](t)(s.Observe(t.Context(), store.RouteGroup, org, name, cluster, model.Status{Generation: g.Generation, Ready: true})), true)
	}
	return g.Generation
}

// TestAPartEndsOnce: a cluster without a part changes nothing, while another one has a part. Each change is announced
// to all clusters, so that a change by it would never end.
func TestAPartEndsOnce(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		spread(t, s, "g", "demo", "other")
		must(t, s.DeleteRouteGroup(ctx, org, "g", at(2), event("routegroup.delete")))
		tombstone := value[model.RouteGroup](t)(s.RouteGroup(ctx, org, "g")).Generation
		for _, row := range []struct {
			cluster string
			want    bool
		}{{"third", false}, {"demo", true}, {"demo", false}, {"third", false}, {"other", true}, {"other", false}} {
			before := value[int64](t)(s.Generation(ctx, org))
			if is := value[bool](t)(s.Finish(ctx, store.RouteGroup, org, "g", row.cluster, tombstone, event("routegroup.deleted"))); is != row.want {
				t.Errorf("cluster %s: %t, want %t", row.cluster, is, row.want)
			}
			if wrote := value[int64](t)(s.Generation(ctx, org)) != before; wrote != row.want { // and is announced
				t.Errorf("cluster %s: a write: %t, want %t", row.cluster, wrote, row.want)
			}
		}
		same(t, len(value[[]model.Event](t)(s.Events(ctx, org, model.EventQuery{Types: []string{"routegroup.deleted"}, Limit: 9}))), 2)
		same(t, len(value[[]model.RouteGroup](t)(s.RouteGroups(ctx, org))), 0)
	})
}

// TestStatusesOfPartsAreKept: the generation of a part counts for its own cluster only. A new part is pending, of
// generation 0, and so is the union.
func TestStatusesOfPartsAreKept(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		first := spread(t, s, "g", "demo")
		second := spread(t, s, "g")
		observe := func(cluster string, part model.Status, want bool) {
			t.Helper()
			if is := value[bool](t)(s.Observe(ctx, store.RouteGroup, org, "g", cluster, part)); is != want {
				t.Errorf("cluster %s, %+v: %t, want %t", cluster, part, is, want)
			}
		}
		observe("other", model.Status{Reason: "Pending"}, true)
		observe("demo", model.Status{Generation: first, Reason: "No"}, true)
		observe("demo", model.Status{Generation: second, Ready: true}, true)
		observe("demo", model.Status{Generation: second, Ready: true}, false)
		observe("demo", model.Status{Generation: first, Reason: "Old"}, false)
		observe("demo", model.Status{Generation: second + 1}, false)
		observe("other", model.Status{Generation: first, Ready: true}, true)
		observe("other", model.Status{Generation: second, Ready: true}, true)
		if st := value[model.RouteGroup](t)(s.RouteGroup(ctx, org, "g")).Status; !st.Ready || st.Generation != second {
			t.Errorf("the union: %+v", st)
		}
	})
}

// TestADeletedClusterHasNoParts: its parts of route groups of all clusters end with it, and tombstones that wait for
// nothing else. A status of it that is late makes no new part.
func TestADeletedClusterHasNoParts(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		spread(t, s, "last", "other")
		spread(t, s, "left", "demo", "other")
		number := spread(t, s, "live", "demo")
		late := model.Status{Generation: number, Reason: "No"}
		same(t, value[bool](t)(s.Observe(ctx, store.RouteGroup, org, "live", "other", late)), true)
		spread(t, s, "without")
		for _, name := range []string{"last", "left"} {
			must(t, s.DeleteRouteGroup(ctx, org, name, at(2), event("routegroup.delete")))
		}
		changes := make(chan store.Change, 99)
		s.Watch(ctx, func(c store.Change) { changes <- c })
		must(t, s.DeleteCluster(ctx, org, "other", event("cluster.delete")))
		same(t, value[bool](t)(s.Observe(ctx, store.RouteGroup, org, "live", "other", late)), false)
		same(t, value[bool](t)(s.Observe(ctx, store.RouteGroup, org, "without", "other", model.Status{})), false)
		for _, g := range value[[]model.RouteGroup](t)(s.RouteGroups(ctx, org)) {
			ready := map[string]bool{"left": true, "live": true, "without": false}
			if is, known := ready[g.Name]; !known || g.Status.Ready != is || len(g.Status.Clusters) > 1 {
				t.Errorf("route group %s: %+v", g.Name, g.Status)
			}
		}
		announced := map[string]bool{"last": true, "left": true, "live": true}
		for len(announced) > 0 {
			c := next(t, changes)
			if c.Kind == store.Everything { // PostgreSQL was connected since
				break
			}
			delete(announced, c.Name)
		}
	})
}

// TestADestroyedClusterIsDeleted: tombstones that wait for a cluster end with it, live objects are named in the error.
func TestADestroyedClusterIsDeleted(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		remove := func() error { return s.DeleteCluster(ctx, org, "other", event("cluster.delete")) }
		for _, name := range []string{"a", "b"} {
			o := sandbox(name)
			o.Cluster = "other"
			value[model.Sandbox](t)(s.PutSandbox(ctx, o, event("sandbox.apply")))
		}
		for _, g := range []model.RouteGroup{group("in", "other"), group("to", "", "demo", "other")} {
			g = value[model.RouteGroup](t)(s.PutRouteGroup(ctx, g, event("routegroup.apply")))
			for _, cluster := range []string{"demo", "other"} {
				if g.Cluster == "" || g.Cluster == cluster {
					same(t, value[bool](t)(s.Observe(ctx, store.RouteGroup, org, g.Name, cluster, model.Status{Generation: g.Generation})), true)
				}
			}
		}
		must(t, s.DeleteSandbox(ctx, org, "b", false, at(2), event("sandbox.delete")))
		refused(t, remove(), model.ErrInUse, `cluster "other": in use by route group "in", route group "to", sandbox "a"; delete them first`)
		must(t, s.DeleteRouteGroup(ctx, org, "in", at(2), event("routegroup.delete")))
		must(t, s.DeleteSandbox(ctx, org, "a", false, at(2), event("sandbox.delete")))
		refused(t, remove(), model.ErrInUse, `in use by route group "to"; delete them`)
		same(t, len(value[[]model.Sandbox](t)(s.Sandboxes(ctx, org))), 2)
		must(t, s.DeleteRouteGroup(ctx, org, "to", at(2), event("routegroup.delete")))
		must(t, remove())
		same(t, len(value[[]model.Sandbox](t)(s.Sandboxes(ctx, org))), 0)
		left := value[[]model.RouteGroup](t)(s.RouteGroups(ctx, org))
		if len(left) != 1 || left[0].Name != "to" || len(left[0].Status.Clusters) != 1 {
			t.Errorf("route groups %+v", left)
		}
		entry := value[[]model.Event](t)(s.Events(ctx, org, model.EventQuery{Types: []string{"cluster.delete"}, Limit: 9}))
		if want := `{"of":"cluster.delete","tombstones":3}`; len(entry) != 1 || string(entry[0].Data) != want {
			t.Errorf("the entries are %+v, want data %s", entry, want)
		}
	})
}

// TestADeletionWaitsForAPart: a part that is recorded while a route group is deleted, or while the part of another
// cluster ends, is not lost: its cluster may have the object.
func TestADeletionWaitsForAPart(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		for n := range 60 {
			name := fmt.Sprint("g", n)
			spread(t, s, name)
			var recorded bool
			var err error
			var wg sync.WaitGroup
			wg.Go(func() {
				time.Sleep(time.Duration(n) * 50 * time.Microsecond) // at each moment of the deletion
				recorded, err = s.Observe(ctx, store.RouteGroup, org, name, "demo", model.Status{Reason: "Pending"})
			})
			must(t, s.DeleteRouteGroup(ctx, org, name, at(2), event("routegroup.delete")))
			wg.Wait()
			must(t, err)
			if _, err := s.RouteGroup(ctx, org, name); recorded == errors.Is(err, model.ErrNotFound) {
				t.Errorf("deletion %d: a part was recorded: %t; the tombstone: %v", n, recorded, err)
			}
		}
	})
}

package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

func scanCluster(r database.Row) (c model.Cluster, err error) {
	return c, r.Scan(&c.Org, &c.Name, &c.CreatedAt, &c.OperatorVersion, &c.Config)
}

// CreateCluster registers a cluster. The error wraps model.ErrExists if there is one.
func (s *Store) CreateCluster(ctx context.Context, c model.Cluster, ev model.Event) error {
	return s.write(ctx, c.Org, ev, func(ctx context.Context, t *tx) error {
		t.changed(Change{Kind: Cluster, Org: c.Org, Cluster: c.Name})
		return of("cluster", c.Name, t.insert(ctx, []any{c.Org}, []maximum{clusters}, insertCluster, c.Org, c.Name, c.CreatedAt, c.OperatorVersion, c.Config))
	})
}

// Cluster returns a cluster.
func (s *Store) Cluster(ctx context.Context, org, name string) (model.Cluster, error) {
	c, err := database.One(ctx, s.db.Reads(), scanCluster, selectCluster, org, name)
	return c, of("cluster", name, err)
}

// Clusters returns the clusters of an organisation.
func (s *Store) Clusters(ctx context.Context, org string) ([]model.Cluster, error) {
	all, err := database.List(ctx, s.db.Reads(), scanCluster, selectClusters, org)
	return byName(all, func(c model.Cluster) string { return c.Name }), err
}

// ReportCluster records what the agent of a cluster has reported: OperatorVersion and Config.
func (s *Store) ReportCluster(ctx context.Context, c model.Cluster) error {
	n, err := s.db.Observe(ctx, reportCluster, c.Org, c.Name, c.OperatorVersion, c.Config)
	if err == nil && n == 0 {
		err = model.ErrNotFound
	}
	return of("cluster", c.Name, err)
}

// DeleteCluster deletes a cluster with its tokens, its parts of route groups of all clusters, and the tombstones that
// wait for it: it may not exist any more. The event gets their number. The objects of the cluster stay. The error wraps
// model.ErrInUse and names the sandboxes and route groups in it, and those with endpoints in it, that are not deleted.
func (s *Store) DeleteCluster(ctx context.Context, org, name string, ev model.Event) error {
	return s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		if err := database.Must(ctx, t, model.ErrNotFound, deleteCluster, org, name); err != nil {
			return of("cluster", name, err)
		}
		if _, err := database.Exec(ctx, t, lockGroups, org); err != nil { // Observe adds parts
			return err
		}
		groups, err := database.List(ctx, t, scanGroup, selectGroups, org)
		if err != nil {
			return err
		}
		if err := unused(ctx, t, org, name, groups); err != nil {
			return of("cluster", name, err)
		}
		dropped, err := database.List(ctx, t, func(r database.Row) (c Change, err error) {
			return c, r.Scan(&c.Kind, &c.Name)
		}, deleteObjectsOf, org, name)
		if err != nil {
			return err
		}
		ended, err := dropParts(ctx, t, name, groups)
		if err != nil {
			return err
		}
		for _, c := range dropped {
			t.changed(Change{Kind: c.Kind, Org: org, Name: c.Name})
		}
		if n := len(dropped) + ended; n > 0 {
			t.recorded = map[string]int64{"tombstones": int64(n)}
		}
		t.changed(Change{Kind: Cluster, Org: org, Cluster: name})
		return dropCredentials(ctx, t, ClusterToken, org, model.Principal{Kind: model.KindCluster, ID: name})
	})
}

// unused returns an error that names the live objects that a cluster has, or that name it.
func unused(ctx context.Context, t *tx, org, cluster string, groups []model.RouteGroup) error {
	names, err := database.List(ctx, t, database.Column[string], selectSandboxNamesOf, org, cluster)
	var by []string
	for _, name := range names {
		by = append(by, fmt.Sprintf("sandbox %q", name))
	}
	for _, g := range groups {
		if g.DeletedAt.IsZero() && slices.Contains(slices.Collect(maps.Values(g.Clusters())), cluster) {
			by = append(by, fmt.Sprintf("route group %q", g.Name))
		}
	}
	if err != nil || len(by) == 0 {
		return err
	}
	slices.Sort(by)
	return fmt.Errorf("%w; delete them first", inUse{by})
}

// dropParts removes the parts of a cluster from the route groups of all clusters, and the tombstones that have no other
// part. It returns how many.
func dropParts(ctx context.Context, t *tx, cluster string, groups []model.RouteGroup) (ended int, err error) {
	for _, g := range groups {
		if _, has := g.Status.Clusters[cluster]; !has || g.Cluster != "" || err != nil {
			continue
		}
		t.changed(Change{Kind: RouteGroup, Org: g.Org, Name: g.Name})
		left := without(g.Status, cluster)
		if len(left.Clusters) == 0 && !g.DeletedAt.IsZero() {
			ended++
			err = database.Must(ctx, t, model.ErrNotFound, deleteObject, g.Org, g.Name, string(RouteGroup), g.Generation)
		} else {
			err = database.Must(ctx, t, model.ErrNotFound, partObject, g.Org, g.Name, database.JSON{Of: left})
		}
	}
	return ended, err
}

// without returns the status of a route group without the part of a cluster.
func without(s model.Status, cluster string) model.Status {
	left := maps.Clone(s.Clusters)
	delete(left, cluster)
	for name, part := range left {
		return model.Status{Clusters: left}.With(name, part)
	}
	return model.Status{}
}

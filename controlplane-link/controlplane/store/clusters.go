package store

import (
	"context"
	"maps"

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

// DeleteCluster deletes a cluster with its tokens and its parts of route groups of all clusters. The error wraps
// model.ErrInUse while it has sandboxes or route groups, or endpoints of any, also those that are being deleted.
func (s *Store) DeleteCluster(ctx context.Context, org, name string, ev model.Event) error {
	return s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		if err := database.Must(ctx, t, model.ErrNotFound, deleteCluster, org, name); err != nil {
			return of("cluster", name, err)
		}
		left, err := database.List(ctx, t, database.Column[string], selectObjectNamesOf, org, name)
		if err != nil {
			return err
		}
		named, err := groupsNaming(ctx, t, org, name)
		if err != nil {
			return err
		}
		if len(left) > 0 || named {
			return of("cluster", name, model.ErrInUse)
		}
		if err := dropParts(ctx, t, org, name); err != nil {
			return err
		}
		t.changed(Change{Kind: Cluster, Org: org, Cluster: name})
		return dropCredentials(ctx, t, ClusterToken, org, model.Principal{Kind: model.KindCluster, ID: name})
	})
}

// dropParts removes the parts of a cluster that was deleted from route groups, and the tombstones that have no other.
func dropParts(ctx context.Context, t *tx, org, cluster string) error {
	if _, err := database.Exec(ctx, t, lockGroups, org); err != nil { // Observe adds parts
		return err
	}
	groups, err := database.List(ctx, t, scanGroup, selectGroups, org)
	for _, g := range groups {
		if _, has := g.Status.Clusters[cluster]; !has || err != nil {
			continue
		}
		t.changed(Change{Kind: RouteGroup, Org: org, Name: g.Name})
		left := without(g.Status, cluster)
		if len(left.Clusters) == 0 && !g.DeletedAt.IsZero() {
			err = database.Must(ctx, t, model.ErrNotFound, deleteObject, org, g.Name, string(RouteGroup), g.Generation)
		} else {
			err = database.Must(ctx, t, model.ErrNotFound, partObject, org, g.Name, database.JSON{Of: left})
		}
	}
	return err
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

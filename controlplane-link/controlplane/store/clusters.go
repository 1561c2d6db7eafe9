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
	s.observed(c.Org)
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
		ended, err := dropObjects(ctx, t, org, name)
		if err != nil {
			return of("cluster", name, err)
		}
		if ended > 0 {
			t.recorded = map[string]int64{"tombstones": ended}
		}
		t.changed(Change{Kind: Cluster, Org: org, Cluster: name})
		return dropCredentials(ctx, t, ClusterToken, org, model.Principal{Kind: model.KindCluster, ID: name})
	})
}

// dropObjects drops the parts of a cluster, and the tombstones that wait for it only. It returns how many ended. The
// error names the live objects that the cluster has, or that name it.
func dropObjects(ctx context.Context, t *tx, org, cluster string) (ended int64, err error) {
	if _, err := database.Exec(ctx, t, lockGroups, org); err != nil { // Observe adds parts
		return 0, err
	}
	var live []string
	for _, what := range []Kind{RouteGroup, Sandbox} {
		all, err := database.List(ctx, t, scanObject, selectObjects, org, string(what))
		if err != nil {
			return 0, err
		}
		for _, o := range all {
			_, has := o.Status.Clusters[cluster]
			switch named := slices.Contains(slices.Collect(maps.Values(clustersOf(what, o))), cluster); {
			case named && o.DeletedAt.IsZero():
				live = append(live, fmt.Sprintf("%s %q", what.noun(), o.Name))
			case has, o.Cluster == cluster:
				n, err := dropPart(ctx, t, what, o, cluster)
				if ended += n; err != nil {
					return 0, err
				}
			}
		}
	}
	if slices.Sort(live); len(live) > 0 {
		err = fmt.Errorf("%w; delete them first", inUse(live))
	}
	return ended, err
}

package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
	crdv1 "switchyard.dev/protos/crd/v1"
)

func cluster(name string) thing { return thing{what: "cluster", name: name} }

func scanCluster(r database.Row) (c model.Cluster, err error) {
	return c, r.Scan(&c.Org, &c.Name, &c.CreatedAt, &c.OperatorVersion, &c.Config)
}

// CreateCluster registers a cluster. The error wraps model.ErrExists if there is one.
func (s *Store) CreateCluster(ctx context.Context, c model.Cluster, ev model.Event) error {
	o := thing{"cluster", c.Name, Change{Kind: Cluster, Org: c.Org, Cluster: c.Name}}
	return s.add(ctx, c.Org, ev, o, []maximum{clusters}, insertCluster, c.Org, c.Name, c.CreatedAt, c.OperatorVersion, c.Config)
}

// Cluster returns a cluster.
func (s *Store) Cluster(ctx context.Context, org, name string) (model.Cluster, error) {
	return get(ctx, s, cluster(name), scanCluster, selectCluster, org, name)
}

// Clusters returns the clusters of an organisation.
func (s *Store) Clusters(ctx context.Context, org string) ([]model.Cluster, error) {
	return listed(ctx, s, func(c model.Cluster) (time.Time, string) { return time.Time{}, c.Name }, scanCluster, selectClusters, org)
}

// ReportCluster records what the agent of a cluster has reported: OperatorVersion and Config.
func (s *Store) ReportCluster(ctx context.Context, c model.Cluster) error {
	n, err := s.db.Observe(ctx, reportCluster, c.Org, c.Name, c.OperatorVersion, c.Config)
	if err == nil && n > 0 {
		s.observed(c.Org)
		return nil
	}
	return cluster(c.Name).of(cmp.Or(err, model.ErrNotFound))
}

// DeleteCluster deletes a cluster with its tokens, its parts of route groups of all clusters, and the tombstones that
// wait for it: it may not exist any more. The event gets their number. The objects of the cluster stay. The error wraps
// model.ErrInUse and names the sandboxes and route groups in it, and those with endpoints in it, that are not deleted.
func (s *Store) DeleteCluster(ctx context.Context, org, name string, ev model.Event) error {
	return s.write(ctx, org, ev, func(t *tx) {
		t.must(model.ErrNotFound, cluster(name), deleteCluster, org, name)
		if ended := t.dropObjects(org, name); ended > 0 {
			t.recorded = map[string]int64{"tombstones": ended}
		}
		t.changed(Change{Kind: Cluster, Org: org, Cluster: name})
		t.dropCredentials(ClusterToken, org, model.Principal{Kind: model.KindCluster, ID: name})
	})
}

// dropObjects drops the parts of a cluster, and the tombstones that wait for it only. It returns how many ended. The
// error names the live objects that the cluster has, or that name it.
func (t *tx) dropObjects(org, name string) (ended int64) {
	t.exec(lockGroups, org) // Observe adds parts
	var live []string
	for _, kind := range []Kind{RouteGroup, Sandbox} {
		for _, o := range list(t, scanObject, selectObjects, org, kind) {
			_, has := o.Status.Clusters[name]
			switch named := slices.Contains(slices.Collect(maps.Values(o.clusters())), name); {
			case named && o.DeletedAt.IsZero():
				live = append(live, fmt.Sprintf("%s %q", kind.noun(), o.Name))
			case has, o.Cluster == name:
				ended += t.dropPart(o, name)
			}
		}
	}
	for _, g := range list(t, database.Column[string], selectRunnerGroupsIn, org, name, crdv1.SmartTestsNamespace) {
		live = append(live, fmt.Sprintf("runner group %q", g))
	}
	ended += t.exec(dropRunnerGroups, org, name, crdv1.SmartTestsNamespace)
	t.exec(dropJobs, org, name)
	t.exec(dropExecutions, org, name)
	if slices.Sort(live); len(live) > 0 {
		t.fail(cluster(name).of(fmt.Errorf("%w; delete them first", inUse(live))))
	}
	return ended
}

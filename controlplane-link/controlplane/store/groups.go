package store

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

func groupOf(o model.Sandbox) model.RouteGroup {
	return model.RouteGroup{
		Org: o.Org, Name: o.Name, Cluster: o.Cluster, RoutingKey: o.RoutingKey, Spec: o.Spec, Generation: o.Generation,
		CreatedAt: o.CreatedAt, UpdatedAt: o.UpdatedAt, DeletedAt: o.DeletedAt, Status: o.Status,
	}
}

func groupsOf(all []model.Sandbox) []model.RouteGroup {
	var groups []model.RouteGroup
	for _, o := range all {
		groups = append(groups, groupOf(o))
	}
	return groups
}

// clustersExist returns an error with the path of the field if an object names a cluster that is not registered.
func clustersExist(ctx context.Context, t *tx, what Kind, o model.Sandbox) error {
	named := map[string]string{"spec.cluster": o.Cluster}
	if what == RouteGroup {
		named = groupOf(o).Clusters()
	}
	for _, path := range slices.Sorted(maps.Keys(named)) {
		if err := database.Exists(ctx, t, selectCluster, o.Org, named[path]); err != nil {
			return fmt.Errorf("%s: %w", path, of("cluster", named[path], err))
		}
	}
	return nil
}

// groupsNaming reports whether a route group or an endpoint of one names a cluster.
func groupsNaming(ctx context.Context, t *tx, org, cluster string) (bool, error) {
	groups, err := database.List(ctx, t, scanObject, selectObjects, org, string(RouteGroup))
	return slices.ContainsFunc(groups, func(o model.Sandbox) bool {
		return slices.Contains(slices.Collect(maps.Values(groupOf(o).Clusters())), cluster)
	}), err
}

// regroup gives a new generation to the route groups that have a sandbox after a write and had not before, or
// the reverse: their objects change.
func regroup(ctx context.Context, t *tx, what Kind, was []model.Sandbox, is model.Sandbox) error {
	before, after := model.Candidates(was), model.Candidates([]model.Sandbox{is})
	if what != Sandbox || reflect.DeepEqual(before, after) {
		return nil
	}
	groups, err := database.List(ctx, t, scanObject, selectObjects, is.Org, string(RouteGroup))
	for _, o := range groups {
		if g := groupOf(o); err == nil && len(g.Members(before)) != len(g.Members(after)) {
			t.changed(Change{Kind: RouteGroup, Org: g.Org, Cluster: g.Cluster, Name: g.Name})
			err = database.Must(ctx, t, model.ErrNotFound, numberObject, g.Org, g.Name, t.generation)
		}
	}
	return err
}

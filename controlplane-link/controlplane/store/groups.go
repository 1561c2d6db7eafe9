package store

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

func scanGroup(r database.Row) (g model.RouteGroup, err error) {
	return g, r.Scan(&g.Org, &g.Name, &g.Cluster, &g.RoutingKey, &g.Spec, &g.Generation, &g.CreatedAt, &g.UpdatedAt, &g.DeletedAt, &g.UnmatchedAt, database.JSON{Of: &g.Author}, database.JSON{Of: &g.Status})
}

// PutRouteGroup is PutSandbox for a route group. The clusters of its endpoints must exist, too.
func (s *Store) PutRouteGroup(ctx context.Context, g model.RouteGroup, ev model.Event) (model.RouteGroup, error) {
	row := model.Sandbox{
		Org: g.Org, Name: g.Name, Cluster: g.Cluster, RoutingKey: g.RoutingKey, Spec: g.Spec, CreatedAt: g.CreatedAt, UpdatedAt: g.UpdatedAt, Author: g.Author,
	}
	_, err := s.put(ctx, RouteGroup, row, ev, func(ctx context.Context, t *tx, _ []model.Sandbox, _ model.Sandbox) (err error) {
		if g, err = database.One(ctx, t, scanGroup, selectGroup, g.Org, g.Name); err == nil {
			err = renumber(ctx, t, &g, g.UpdatedAt)
		}
		return err
	})
	return g, err
}

// RouteGroup returns a route group, also one that is being deleted.
func (s *Store) RouteGroup(ctx context.Context, org, name string) (model.RouteGroup, error) {
	g, err := database.One(ctx, s.db.Reads(), scanGroup, selectGroup, org, name)
	return g, of(RouteGroup.noun(), name, err)
}

// RouteGroups returns the route groups of an organisation, also those that are being deleted.
func (s *Store) RouteGroups(ctx context.Context, org string) ([]model.RouteGroup, error) {
	all, err := database.List(ctx, s.db.Reads(), scanGroup, selectGroups, org)
	return byName(all, func(g model.RouteGroup) string { return g.Name }), err
}

// DeleteRouteGroup makes a route group a tombstone with a generation of its own, or removes it if no cluster has a
// part of it.
func (s *Store) DeleteRouteGroup(ctx context.Context, org, name string, at time.Time, ev model.Event) error {
	return s.markDeleted(ctx, RouteGroup, org, name, 0, false, at, ev)
}

// clustersOf returns the clusters that an object names, by the path of the field.
func clustersOf(what Kind, o model.Sandbox) map[string]string {
	if what == RouteGroup {
		return model.RouteGroup{Cluster: o.Cluster, Spec: o.Spec}.Clusters()
	}
	return map[string]string{"spec.cluster": o.Cluster}
}

// clustersExist returns an error with the path of the field if an object names a cluster that is not registered.
func clustersExist(ctx context.Context, t *tx, what Kind, o model.Sandbox) error {
	named := clustersOf(what, o)
	for _, path := range slices.Sorted(maps.Keys(named)) {
		if err := database.Exists(ctx, t, selectCluster, o.Org, named[path]); err != nil {
			return fmt.Errorf("%s: %w", path, of("cluster", named[path], err))
		}
	}
	return nil
}

// regroup sets the generation of the route groups that have a sandbox after a write and had not before, or
// the reverse, to that of the write: their objects change.
func regroup(ctx context.Context, t *tx, was []model.Sandbox, is model.Sandbox, at time.Time) error {
	before, after := model.Candidates(was), model.Candidates([]model.Sandbox{is})
	if reflect.DeepEqual(before, after) {
		return nil
	}
	groups, err := database.List(ctx, t, scanGroup, selectGroups, is.Org)
	for _, g := range groups {
		if err == nil && len(g.Members(before)) != len(g.Members(after)) {
			t.changed(Change{Kind: RouteGroup, Org: g.Org, Cluster: g.Cluster, Name: g.Name})
			err = renumber(ctx, t, &g, at)
		}
	}
	return err
}

// renumber sets the generation of a route group to that of a write at a time, and its UnmatchedAt.
func renumber(ctx context.Context, t *tx, g *model.RouteGroup, at time.Time) error {
	all, err := database.List(ctx, t, scanObject, selectObjects, g.Org, string(Sandbox))
	if err != nil {
		return err
	}
	g.Generation = t.generation
	switch matches := len(g.Members(model.Candidates(all))) > 0; {
	case matches:
		g.UnmatchedAt = time.Time{}
	case g.UnmatchedAt.IsZero():
		g.UnmatchedAt = at
	}
	return database.Must(ctx, t, model.ErrNotFound, numberGroup, g.Org, g.Name, g.Generation, g.UnmatchedAt)
}

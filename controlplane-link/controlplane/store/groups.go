package store

import (
	"context"
	"reflect"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

func scanGroup(r database.Row) (model.RouteGroup, error) {
	o, err := scanObject(r)
	return model.RouteGroup(o.Sandbox), err
}

// PutRouteGroup is PutSandbox for a route group. The clusters of its endpoints must exist, too.
func (s *Store) PutRouteGroup(ctx context.Context, g model.RouteGroup, ev model.Event) (model.RouteGroup, error) {
	o, err := s.put(ctx, object{RouteGroup, model.Sandbox(g)}, ev)
	return model.RouteGroup(o), err
}

// RouteGroup returns a route group, also one that is being deleted.
func (s *Store) RouteGroup(ctx context.Context, org, name string) (model.RouteGroup, error) {
	return get(ctx, s, RouteGroup.named(name), scanGroup, selectObject, org, RouteGroup, name)
}

// RouteGroups returns the route groups of an organisation, also those that are being deleted.
func (s *Store) RouteGroups(ctx context.Context, org string) ([]model.RouteGroup, error) {
	all, err := database.List(ctx, s.db.Reads(), scanGroup, selectObjects, org, RouteGroup)
	return byName(all, func(g model.RouteGroup) string { return g.Name }), err
}

// DeleteRouteGroup makes a route group a tombstone with a generation of its own, or removes it if no cluster has a
// part of it.
func (s *Store) DeleteRouteGroup(ctx context.Context, org, name string, at time.Time, ev model.Event) error {
	return s.markDeleted(ctx, RouteGroup, org, name, 0, false, at, ev)
}

// candidates are the sandboxes among objects that route groups can match.
func candidates(all []object) []model.Candidate {
	var sandboxes []model.Sandbox
	for _, o := range all {
		sandboxes = append(sandboxes, o.Sandbox)
	}
	return model.Candidates(sandboxes)
}

// regroup sets the generation of the route groups that have a sandbox after a write and had not before, or
// the reverse, to that of the write: their objects change.
func (t *tx) regroup(was []object, is object, at time.Time) {
	before, after := candidates(was), candidates([]object{is})
	if reflect.DeepEqual(before, after) {
		return
	}
	for _, g := range list(t, scanObject, selectObjects, is.Org, RouteGroup) {
		group := model.RouteGroup(g.Sandbox)
		if len(group.Members(before)) != len(group.Members(after)) {
			t.changed(g.change())
			t.renumber(&g, at)
		}
	}
}

// renumber sets the generation of a route group to that of a write at a time, and its UnmatchedAt.
func (t *tx) renumber(g *object, at time.Time) {
	matches := model.RouteGroup(g.Sandbox).Members(candidates(list(t, scanObject, selectObjects, g.Org, Sandbox)))
	g.Generation = t.generation
	switch {
	case len(matches) > 0:
		g.UnmatchedAt = time.Time{}
	case g.UnmatchedAt.IsZero():
		g.UnmatchedAt = at
	}
	t.must(model.ErrNotFound, thing{}, numberGroup, g.Org, g.Name, g.Generation, g.UnmatchedAt)
}

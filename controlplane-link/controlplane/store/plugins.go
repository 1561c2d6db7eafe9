package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
	"switchyard.dev/workflows/spec"
)

func plugin(name spec.PluginName) thing { return thing{what: "resource plugin", name: name.String()} }

func scanPlugin(r database.Row) (p model.Plugin, err error) {
	return p, r.Scan(&p.Org, &p.Name.Bare, &p.Name.Version, &p.Spec, &p.CreatedAt, &p.UpdatedAt)
}

// CreatePlugin adds a version of a plugin. The error wraps model.ErrExists if there is one: versions
// never change.
func (s *Store) CreatePlugin(ctx context.Context, p model.Plugin, ev model.Event) error {
	return s.add(ctx, p.Org, ev, plugin(p.Name), []maximum{versions, pluginBytes}, insertPlugin,
		p.Org, p.Name.Bare, p.Name.Defaulted().Version, p.Spec, p.CreatedAt, p.UpdatedAt)
}

// Plugins returns all versions of all plugins of an organisation, by name, the newest version first.
func (s *Store) Plugins(ctx context.Context, org string) ([]model.Plugin, error) {
	all, err := database.List(ctx, s.db.Reads(), scanPlugin, selectPlugins, org)
	if err != nil {
		return nil, err
	}
	with, err := database.List(ctx, s.db.Reads(), scanObject, selectObjectsWithPlugins, org)
	if err != nil {
		return nil, err
	}
	used := uses(with)
	var names []spec.PluginName
	for i := range all {
		all[i].Uses = used[all[i].Name.String()]
		names = append(names, all[i].Name)
	}
	spec.NewestFirst(names)
	slices.SortFunc(all, func(a, b model.Plugin) int { return slices.Index(names, a.Name) - slices.Index(names, b.Name) })
	return all, nil
}

// DeletePlugin deletes a version of a plugin. The error wraps model.ErrInUse and names the sandboxes
// while any has a resource of it, also those that are being deleted.
func (s *Store) DeletePlugin(ctx context.Context, org string, name spec.PluginName, ev model.Event) error {
	return s.write(ctx, org, ev, func(t *tx) {
		t.must(model.ErrNotFound, plugin(name), deletePlugin, org, name.Bare, name.Defaulted().Version)
		var by []string
		for _, u := range uses(list(t, scanObject, selectObjectsWithPlugins, org))[name.String()] {
			by = append(by, fmt.Sprintf("sandbox %q in cluster %q", u.Sandbox, u.Cluster))
		}
		if len(by) > 0 {
			t.fail(plugin(name).of(inUse(slices.Compact(by))))
		}
	})
}

// inUse returns model.ErrInUse with the objects that refer to one, of many with the first ones.
func inUse(by []string) error {
	const most = 5
	more := ""
	if n := len(by) - most; n > 0 {
		by, more = by[:most], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Errorf("%w by %s%s", model.ErrInUse, strings.Join(by, ", "), more)
}

// ErrUnchanged rolls a write back that would change nothing.
var ErrUnchanged = errors.New("nothing to change")

// UnlessUnchanged reports whether a write has changed something: it returns false and no error for ErrUnchanged.
func UnlessUnchanged(err error) (bool, error) {
	if errors.Is(err, ErrUnchanged) {
		return false, nil
	}
	return err == nil, err
}

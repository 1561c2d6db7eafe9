package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
)

// maxEvents is more than a run has.
const maxEvents = 1 << 20

// recorded returns the steps that have events, and the last one of each name.
func recorded(ctx context.Context, in *store.Store) (all map[string]step, last map[string]step, err error) {
	events, err := in.Events(ctx, org, model.EventQuery{Types: []string{"write"}, Limit: maxEvents})
	all, last = map[string]step{}, map[string]step{}
	for _, ev := range events {
		var s step
		if err := json.Unmarshal(ev.Data, &s); err != nil {
			return nil, nil, fmt.Errorf("event %s: %w", ev.ID, err)
		}
		all[s.id()] = s
		if old, is := last[s.Name]; !is || s.N > old.N {
			last[s.Name] = s
		}
	}
	return all, last, err
}

// check compares a store with the acknowledged steps: it returns those that are lost, and the half applied
// objects, which are not as the last event of their name describes them, or have none.
func check(ctx context.Context, in *store.Store, acked map[string]bool) (lost, half []string, err error) {
	all, last, err := recorded(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	for id := range acked {
		if _, is := all[id]; !is {
			lost = append(lost, id)
		}
	}
	objects, err := in.Sandboxes(ctx, org)
	if err != nil {
		return nil, nil, err
	}
	found := map[string]model.Sandbox{}
	for _, o := range objects {
		found[o.Name] = o
		if _, is := last[o.Name]; !is {
			half = append(half, o.Name+" has no event")
		}
	}
	for name, s := range last {
		if wrong := s.wrong(ctx, in, found); wrong != "" {
			half = append(half, fmt.Sprintf("%s after %s %s: %s", name, s.Do, s.id(), wrong))
		}
	}
	return lost, half, nil
}

// wrong returns the difference of an object from its last step.
func (s step) wrong(ctx context.Context, in *store.Store, objects map[string]model.Sandbox) string {
	o, is := objects[s.Name]
	switch {
	case s.Do == secret:
		if value, err := in.SecretValue(ctx, org, s.Name); err != nil || value != fmt.Sprint(s.N) {
			return fmt.Sprintf("its value is %q, %v", value, err)
		}
		return ""
	case s.Do == finish && is:
		return "it is still there"
	case s.Do == finish:
		if _, err := in.Sandbox(ctx, org, s.Name); !errors.Is(err, model.ErrNotFound) {
			return fmt.Sprint(err)
		}
		return ""
	case !is:
		return "it is missing"
	case o.DeletedAt.IsZero() != (s.Do == apply):
		return "it is a tombstone, or should be"
	case s.Do == apply && (string(o.Spec) != fmt.Sprint(s.N) || len(o.Plugins) != len(s.plugins())):
		return fmt.Sprintf("its specification is %s, its plugins %v", o.Spec, o.Plugins)
	}
	return ""
}

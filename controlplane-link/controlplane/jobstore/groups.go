package jobstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

// Store has runner groups and jobs.
type Store struct{ *store.Store }

// Maxima of an organisation. They bound lists and the database.
const (
	mostGroups = 250
	mostJobs   = 20000
)

// ErrEnded is the error of a cancelation of a job that has ended.
var ErrEnded = errors.New("the job has ended")

func scanGroup(r database.Row) (g model.RunnerGroup, err error) {
	return g, r.Scan(&g.Org, &g.Name, &g.Cluster, &g.Namespace, &g.Spec, &g.Generation, &g.CreatedAt, &g.UpdatedAt, &g.DeletedAt,
		database.JSON{Of: &g.Author}, database.JSON{Of: &g.Status})
}

// about adds the object to an error about its state.
func about(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", what, name, err)
}

func group(name string, err error) error { return about("runner group", name, err) }

func groupChange(g model.RunnerGroup) store.Change {
	return store.Change{Kind: store.RunnerGroup, Org: g.Org, Cluster: g.Cluster, Name: g.Name}
}

// PutGroup creates a runner group, or replaces its Spec, and returns it with its generation. Errors wrap
// model.ErrMoved (its cluster or namespace would change) or ErrDeleting.
func (s Store) PutGroup(ctx context.Context, g model.RunnerGroup, ev model.Event) (model.RunnerGroup, error) {
	err := s.Write(ctx, g.Org, ev, func(ctx context.Context, t *database.Tx, generation int64) ([]store.Change, error) {
		old, err := database.One(ctx, t, scanGroup, selectGroup, g.Org, g.Name)
		switch author := (database.JSON{Of: g.Author}); {
		case errors.Is(err, model.ErrNotFound):
			err = database.Must(ctx, t, model.ErrExists, insertGroup, g.Org, g.Name, g.Cluster, g.Namespace, g.Spec, generation, g.CreatedAt, author)
			if err == nil {
				err = store.Enough(ctx, t, "runner groups", mostGroups, countGroups, g.Org)
			}
		case err != nil:
		case !old.DeletedAt.IsZero():
			err = model.ErrDeleting
		case old.Cluster != g.Cluster || old.Namespace != g.Namespace:
			err = model.ErrMoved
		default:
			err = database.Must(ctx, t, model.ErrNotFound, updateGroup, g.Org, g.Name, g.Spec, generation, g.UpdatedAt, author)
		}
		if err == nil {
			g, err = database.One(ctx, t, scanGroup, selectGroup, g.Org, g.Name)
		}
		return []store.Change{groupChange(g)}, err
	})
	return g, group(g.Name, err)
}

// Group returns a runner group, also one that is being deleted.
func (s Store) Group(ctx context.Context, org, name string) (model.RunnerGroup, error) {
	g, err := database.One(ctx, s.Database().Reads(), scanGroup, selectGroup, org, name)
	return g, group(name, err)
}

// Groups returns the runner groups of an organisation by name, also those that are being deleted.
func (s Store) Groups(ctx context.Context, org string) ([]model.RunnerGroup, error) {
	all, err := database.List(ctx, s.Database().Reads(), scanGroup, selectGroups, org)
	slices.SortFunc(all, func(a, b model.RunnerGroup) int { return cmp.Compare(a.Name, b.Name) })
	return all, err
}

// DeleteGroup makes a runner group a tombstone, and ends the jobs that wait for it outside of the cluster. Those in the
// cluster are ended there.
func (s Store) DeleteGroup(ctx context.Context, org, name string, at time.Time, ev model.Event) error {
	_, err := store.UnlessUnchanged(s.Write(ctx, org, ev, func(ctx context.Context, t *database.Tx, generation int64) ([]store.Change, error) {
		g, err := database.One(ctx, t, scanGroup, selectGroup, org, name)
		if err == nil {
			err = database.Must(ctx, t, store.ErrUnchanged, markGroup, org, name, at, generation, database.JSON{Of: model.Author{Principal: ev.By, Role: ev.Role}})
		}
		if err == nil {
			err = endWaiting(ctx, t, at, "RunnerGroupDeleted", fmt.Sprintf("Runner group %s was deleted.", name), lockWaitingGroup, org, name)
		}
		return []store.Change{groupChange(g)}, err
	}))
	return group(name, err)
}

// FinishGroup removes the tombstone of a generation: the cluster has no such object. Its jobs record the time.
func (s Store) FinishGroup(ctx context.Context, g model.RunnerGroup, ev model.Event) error {
	_, err := store.UnlessUnchanged(s.Write(ctx, g.Org, ev, func(ctx context.Context, t *database.Tx, _ int64) ([]store.Change, error) {
		err := database.Must(ctx, t, store.ErrUnchanged, deleteGroup, g.Org, g.Name, g.Generation)
		if err == nil {
			_, err = database.Exec(ctx, t, groupGone, g.Org, g.Name, ev.At)
		}
		return []store.Change{{Kind: store.RunnerGroup, Org: g.Org, Name: g.Name}}, err
	}))
	return group(g.Name, err)
}

// ObserveGroup records the status of a runner group that was read, and returns false if it has another one than that now.
func (s Store) ObserveGroup(ctx context.Context, g model.RunnerGroup, status model.RunnerGroupStatus) (bool, error) {
	n, err := s.Database().Observe(ctx, observeGroup, g.Org, g.Name, database.JSON{Of: status}, database.JSON{Of: g.Status})
	if n == 0 && err == nil { // another release can have written the same status with other fields
		var text string
		if text, err = s.statusText(ctx, g); text != "" {
			n, err = s.Database().Observe(ctx, observeGroup, g.Org, g.Name, database.JSON{Of: status}, text)
		}
	}
	if n > 0 {
		s.Observed(g.Org)
	}
	return n > 0, err
}

// statusText returns the stored text of the status of a runner group that was read; empty: it has another one now.
func (s Store) statusText(ctx context.Context, g model.RunnerGroup) (string, error) {
	text, err := database.One(ctx, s.Database().Reads(), database.Column[string], selectStatus, g.Org, g.Name)
	if errors.Is(err, model.ErrNotFound) {
		return "", nil
	}
	var now model.RunnerGroupStatus
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &now)
	}
	if err != nil || now != g.Status {
		return "", err
	}
	return text, nil
}

// counted is the number of jobs of a group or sandbox in a phase.
type counted struct {
	name  string
	phase model.Phase
	n     int
}

// Phases returns how many jobs there are in each phase, by the runner group; only those that have not ended.
func (s Store) Phases(ctx context.Context, org string) (map[string]map[model.Phase]int, error) {
	return s.count(ctx, countPhases, org)
}

// PhasesOfSandboxes returns how many jobs there are in each phase, by the sandbox.
func (s Store) PhasesOfSandboxes(ctx context.Context, org string) (map[string]map[model.Phase]int, error) {
	return s.count(ctx, countOfSandboxes, org)
}

func (s Store) count(ctx context.Context, query, org string) (map[string]map[model.Phase]int, error) {
	all, err := database.List(ctx, s.Database().Reads(), func(r database.Row) (c counted, err error) {
		return c, r.Scan(&c.name, &c.phase, &c.n)
	}, query, org)
	out := map[string]map[model.Phase]int{}
	for _, c := range all {
		if out[c.name] == nil {
			out[c.name] = map[model.Phase]int{}
		}
		out[c.name][c.phase] = c.n
	}
	return out, err
}

// Package teststore keeps Smart Tests and their executions in the database of a control plane.
package teststore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/database"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// Store has tests and executions.
type Store struct{ *store.Store }

// Maxima of an organisation.
const (
	mostTests      = 1000
	mostTestBytes  = 16 << 20 // all tests are read when a sandbox triggers some
	mostExecutions = 20000
)

// pageBytes ends a page of executions.
const pageBytes = 16 << 20

// ErrEnded is the error of a cancelation of an execution that has ended.
var ErrEnded = errors.New("the execution has ended")

func scanTest(r database.Row) (t model.Test, err error) {
	return t, r.Scan(&t.Org, &t.Name, database.JSON{Of: &t.Spec}, &t.Generation, &t.CreatedAt, &t.UpdatedAt)
}

func scan(r database.Row) (model.TestExecution, error) { return scanWith(r) }

// scanWith scans an execution, and more columns. Its specification has the script, which is stored once.
func scanWith(r database.Row, more ...any) (x model.TestExecution, err error) {
	err = r.Scan(append([]any{&x.Org, &x.ID, &x.Sequence, &x.Cluster, &x.Test, &x.RunID, &x.Sandbox, &x.RoutingKey, &x.Revision, &x.Trigger, &x.Script, &x.Timeout,
		&x.CreatedAt, &x.CanceledAt, database.JSON{Of: &x.Author}, database.JSON{Of: &x.Spec}, database.JSON{Of: &x.Status}, database.JSON{Of: &x.Results}}, more...)...)
	if x.Spec.External != nil {
		x.Spec.External.Script = &x.Script
	}
	return x, err
}

// PutTest creates a test, or replaces its specification, and returns it.
func (s Store) PutTest(ctx context.Context, test model.Test, ev model.Event) (out model.Test, err error) {
	err = s.Write(ctx, test.Org, ev, func(ctx context.Context, t *database.Tx, generation int64) ([]store.Change, error) {
		_, err := database.Exec(ctx, t, putTest, test.Org, test.Name, database.JSON{Of: test.Spec}, generation, test.UpdatedAt)
		if err == nil {
			err = store.Enough(ctx, t, "tests", mostTests, countTests, test.Org)
		}
		if err == nil {
			err = store.Enough(ctx, t, "bytes of tests", mostTestBytes, sumTests, test.Org)
		}
		if err == nil {
			out, err = database.One(ctx, t, scanTest, selectTest, test.Org, test.Name)
		}
		return nil, err
	})
	return out, err
}

// Test returns a test; model.ErrNotFound: there is none.
func (s Store) Test(ctx context.Context, org, name string) (model.Test, error) {
	return database.One(ctx, s.Database().Reads(), scanTest, selectTest, org, name)
}

// Tests returns the tests of an organisation by name.
func (s Store) Tests(ctx context.Context, org string) ([]model.Test, error) {
	all, err := database.List(ctx, s.Database().Reads(), scanTest, selectTests, org)
	slices.SortFunc(all, func(a, b model.Test) int { return cmp.Compare(a.Name, b.Name) })
	return all, err
}

// DeleteTest deletes a test. Its executions stay.
func (s Store) DeleteTest(ctx context.Context, org, name string, ev model.Event) error {
	return s.Write(ctx, org, ev, func(ctx context.Context, t *database.Tx, _ int64) ([]store.Change, error) {
		return nil, database.Must(ctx, t, model.ErrNotFound, deleteTest, org, name)
	})
}

func change(x model.TestExecution) store.Change {
	return store.Change{Kind: store.TestExecution, Org: x.Org, Cluster: x.Cluster, Name: x.ID}
}

// Submit adds an execution, which is pending, and returns it with its sequence. One of a trigger is added once for each revision of
// its sandbox, else it returns model.ErrExists, and cancels those of former revisions.
func (s Store) Submit(ctx context.Context, x model.TestExecution, ev model.Event) (model.TestExecution, error) {
	x.Status.Phase = model.TestPending
	stored := x.Spec
	if x.Spec.External != nil {
		external := *x.Spec.External
		external.Script = nil
		stored.External = &external
	}
	err := s.Write(ctx, x.Org, ev, func(ctx context.Context, t *database.Tx, generation int64) (changes []store.Change, err error) {
		x.Sequence = generation
		if x.Trigger != "" {
			if err := database.Exists(ctx, t, selectSame, x.Org, x.Sandbox, x.Trigger, x.Revision); !errors.Is(err, model.ErrNotFound) {
				return nil, cmp.Or(err, model.ErrExists)
			}
			if changes, err = supersede(ctx, t, x); err != nil {
				return nil, err
			}
		}
		err = database.Must(ctx, t, model.ErrExists, insert, x.Org, x.ID, x.Sequence, x.Cluster, x.Test, x.RunID, x.Sandbox, x.RoutingKey, x.Revision, x.Trigger,
			x.Script, x.Timeout, x.CreatedAt, database.JSON{Of: x.Author}, database.JSON{Of: stored}, database.JSON{Of: x.Status})
		if err == nil {
			err = store.Enough(ctx, t, "executions of tests", mostExecutions, countAll, x.Org)
		}
		return append(changes, change(x)), err
	})
	return x, err
}

// supersede cancels the executions of a trigger for former revisions.
func supersede(ctx context.Context, t *database.Tx, x model.TestExecution) (changes []store.Change, err error) {
	former, err := database.List(ctx, t, database.Column[string], selectFormer, x.Org, x.Sandbox, x.Trigger, x.Revision)
	for _, id := range former {
		var old model.TestExecution
		if err == nil {
			old, err = database.One(ctx, t, scan, lock, x.Org, id)
		}
		if err == nil && !old.Ended() && old.CanceledAt.IsZero() {
			err = canceled(ctx, t, old, x.CreatedAt, v2.JobsCanceledByInternal, fmt.Sprintf("Sandbox %s was changed.", x.Sandbox))
			changes = append(changes, change(old))
		}
	}
	return changes, err
}

// canceled cancels an execution that has not ended. One that is pending ends at once.
func canceled(ctx context.Context, t *database.Tx, x model.TestExecution, at time.Time, by v2.JobsCanceledBy, message string) error {
	x.Status.FinalState = &v2.TestExecutionState{Canceled: &v2.TestExecutionCanceledState{CanceledAt: new(at.Format(time.RFC3339)), CanceledBy: new(string(by)), Message: &message}}
	var finished time.Time
	if x.Status.Phase == model.TestPending {
		finished, x.Status.Phase, x.Status.FinishedAt = at, model.TestCanceled, new(at.Format(time.RFC3339))
	}
	return database.Must(ctx, t, model.ErrNotFound, cancel, x.Org, x.ID, at, x.Status.Phase, finished, database.JSON{Of: x.Status})
}

// Cancel cancels an execution: one that is in progress ends when its jobs have. The error wraps ErrEnded or model.ErrNotFound.
func (s Store) Cancel(ctx context.Context, org, id string, at time.Time, ev model.Event) error {
	_, err := store.UnlessUnchanged(s.Write(ctx, org, ev, func(ctx context.Context, t *database.Tx, _ int64) ([]store.Change, error) {
		x, err := database.One(ctx, t, scan, lock, org, id)
		switch {
		case err != nil:
			return nil, err
		case x.Ended():
			return nil, ErrEnded
		case !x.CanceledAt.IsZero():
			return nil, store.ErrUnchanged
		}
		return []store.Change{change(x)}, canceled(ctx, t, x, at, v2.JobsCanceledByAPIRequest, "It was canceled by a user.")
	}))
	return err
}

// Execution returns an execution; model.ErrNotFound: there is none.
func (s Store) Execution(ctx context.Context, org, id string) (model.TestExecution, error) {
	return database.One(ctx, s.Database().Reads(), scan, selectOne, org, id)
}

// List are the executions to list.
type List struct {
	// After is the sequence of the last one before; 0: from the beginning. Newest: the newest first.
	After  int64
	Newest bool
	// RunID is that of the executions; empty: of any.
	RunID string
	// Most is how many there are at most, and fewer if they are large; Keep reports the ones to list; nil: all.
	Most int
	Keep func(model.TestExecution) bool
}

// Executions returns executions in the order of their sequence.
func (s Store) Executions(ctx context.Context, org string, l List) ([]model.TestExecution, error) {
	query, args, n, size := selectNewer+oldestFirst, []any{org, l.After, l.RunID}, 0, int64(0)
	if l.Newest {
		query, args[1] = selectOlder+newestFirst, cmp.Or(l.After, math.MaxInt64)
	}
	all, err := database.List(ctx, s.Database().Reads(), func(r database.Row) (x model.TestExecution, err error) {
		if n == l.Most || size >= pageBytes {
			return x, database.ErrEnough
		}
		var one int64
		if x, err = scanWith(r, &one); err == nil && (l.Keep == nil || l.Keep(x)) {
			n, size = n+1, size+one
			return x, nil
		}
		return model.TestExecution{}, err
	}, query, args...)
	return slices.DeleteFunc(all, func(x model.TestExecution) bool { return x.ID == "" }), err
}

// Begin records that an execution begins, unless it has begun or ended, or the cluster has as many in progress. false: it does not.
func (s Store) Begin(ctx context.Context, x model.TestExecution, most int) (bool, error) {
	n, err := s.Database().Observe(ctx, begin, x.Org, x.ID, x.Cluster, database.JSON{Of: x.Status}, most)
	return n == 1, err
}

// Observe records the status and the results of an execution that has not ended. false: it has.
func (s Store) Observe(ctx context.Context, x model.TestExecution, finished time.Time) (bool, error) {
	n := x.Numbers()
	rows, err := s.Database().Observe(ctx, observe, x.Org, x.ID, x.Status.Phase, finished, database.JSON{Of: x.Status}, database.JSON{Of: x.Results}, n.Passed, n.Failed, n.Green, n.Yellow, n.Red)
	if rows == 1 {
		s.Observed(x.Org)
	}
	return rows == 1, err
}

// Unended names the executions of a cluster that have not ended, the oldest first.
func (s Store) Unended(ctx context.Context, org, cluster string) ([]string, error) {
	return database.List(ctx, s.Database().Reads(), database.Column[string], selectNamesIn, org, cluster)
}

// Of is a revision of the sandbox with a routing key.
type Of struct {
	RoutingKey string
	Revision   int64
}

// Summaries returns the numbers of the executions of each revision of the sandboxes of an organisation.
func (s Store) Summaries(ctx context.Context, org string) (map[Of]model.Summary, error) {
	out := map[Of]model.Summary{}
	_, err := database.List(ctx, s.Database().Reads(), func(r database.Row) (n model.Numbers, err error) {
		var of Of
		var phase v2.TestexecutionsPhase
		if err = r.Scan(&of.RoutingKey, &of.Revision, &phase, &n.Executions, &n.Passed, &n.Failed, &n.Green, &n.Yellow, &n.Red); err == nil {
			if out[of] == nil {
				out[of] = model.Summary{}
			}
			out[of][phase] = n
		}
		return n, err
	}, summaries, org)
	return out, err
}

// Expire deletes the executions that ended before a time.
func (s Store) Expire(ctx context.Context, org string, before time.Time) (int64, error) {
	return s.Database().Observe(ctx, expire, org, before)
}

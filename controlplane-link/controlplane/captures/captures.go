package captures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/database"
	"switchyard.dev/sidecars/traffic/recording"
)

// Capture is a recording of the requests that members of a sandbox receive.
type Capture struct {
	Org, Name, Cluster, Sandbox, Workload string
	// Until is when it ends by itself. StoppedAt is when a user has ended it, and DeletedAt when one has deleted it; EndedAt
	// is when nothing follows.
	CreatedAt, Until, StoppedAt, DeletedAt, EndedAt time.Time
	// Revision grows with each save. Segments, Requests and Bytes are how many of each are stored.
	Revision, Segments, Requests, Bytes int64
	// Message is the cause for which it waits, or has ended.
	Message  string
	Author   model.Author
	Progress recording.Progress
}

// Phase returns its state.
func (c Capture) Phase() string {
	switch {
	case !c.EndedAt.IsZero():
		return "ended"
	case c.Progress.Ready:
		return "recording"
	}
	return "pending"
}

// Segment is a file with exchanges.
type Segment struct {
	Number   int64
	File     string
	Requests int64
	Bytes    int64
}

// Limits bound the stored requests.
type Limits struct {
	// Capture is the maximum size of a capture, which then ends, and Organisation that of all of an organisation when one
	// begins, in bytes.
	Capture, Organisation int64
}

// WithDefaults returns the limits, with those of DefaultLimits for zero.
func (l Limits) WithDefaults() Limits {
	return Limits{cmp.Or(l.Capture, DefaultLimits.Capture), cmp.Or(l.Organisation, DefaultLimits.Organisation)}
}

// DefaultLimits are 256 MiB a capture and 4 GiB an organisation.
var DefaultLimits = Limits{Capture: 256 << 20, Organisation: 4 << 30}

// Maxima of an organisation.
const mostCaptures, mostRunning = 1000, 20

// Store has captures.
type Store struct {
	*store.Store
	Limits Limits
}

// errOther is the error of a save at a replica after another one has saved, or the capture was deleted.
var errOther = errors.New("another replica of the control plane records it now, or it was deleted")

func scan(r database.Row) (c Capture, err error) {
	return c, r.Scan(&c.Org, &c.Name, &c.Cluster, &c.Sandbox, &c.Workload, &c.CreatedAt, &c.Until, &c.StoppedAt, &c.DeletedAt, &c.EndedAt,
		&c.Revision, &c.Segments, &c.Requests, &c.Bytes, &c.Message, database.JSON{Of: &c.Author}, database.JSON{Of: &c.Progress})
}

func scanSegment(r database.Row) (s Segment, err error) {
	return s, r.Scan(&s.Number, &s.File, &s.Requests, &s.Bytes)
}

func about(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("capture %q: %w", name, err)
}

func changed(c Capture) []store.Change {
	return []store.Change{{Kind: store.Capture, Org: c.Org, Cluster: c.Cluster, Name: c.Name}}
}

// Create adds a capture. Errors wrap model.ErrExists (the name) or ErrTooMany.
func (s Store) Create(ctx context.Context, c Capture, ev model.Event) error {
	return s.Write(ctx, c.Org, ev, func(ctx context.Context, t *database.Tx, _ int64) ([]store.Change, error) {
		err := database.Must(ctx, t, model.ErrExists, insertCapture, c.Org, c.Name, c.Cluster, c.Sandbox, c.Workload, c.CreatedAt, c.Until, database.JSON{Of: c.Author})
		for _, m := range []struct {
			query, what string
			most        int64
		}{{countCaptures, "captures", mostCaptures}, {countRunning, "captures that have not ended", mostRunning}, {sumBytes, "bytes of captures", s.Limits.Organisation}} {
			var n int64
			if err == nil {
				n, err = database.One(ctx, t, database.Column[int64], m.query, c.Org)
			}
			if err == nil && n > m.most {
				err = fmt.Errorf("%w %s: the maximum is %d; end or delete one first", model.ErrTooMany, m.what, m.most)
			}
		}
		return changed(c), err
	})
}

// Capture returns a capture, also one that is being deleted.
func (s Store) Capture(ctx context.Context, org, name string) (Capture, error) {
	c, err := database.One(ctx, s.Database().Reads(), scan, selectCapture, org, name)
	return c, about(name, err)
}

// Captures returns the captures of an organisation, the newest first; with a sandbox only those of it.
func (s Store) Captures(ctx context.Context, org, sandbox string) ([]Capture, error) {
	all, err := database.List(ctx, s.Database().Reads(), scan, selectCaptures, org)
	all = slices.DeleteFunc(all, func(c Capture) bool { return sandbox != "" && c.Sandbox != sandbox })
	slices.SortFunc(all, func(a, b Capture) int { return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.Name, b.Name)) })
	return all, err
}

// running returns the captures of a cluster that have not ended.
func (s Store) running(ctx context.Context, org, cluster string) ([]Capture, error) {
	return database.List(ctx, s.Database().Reads(), scan, selectRunning, org, cluster)
}

// Expired returns the captures that were created before a time, and those that a user has deleted and that have ended: their recorder was
// interrupted before it removed them.
func (s Store) Expired(ctx context.Context, org string, before time.Time) ([]Capture, error) {
	return database.List(ctx, s.Database().Reads(), scan, selectExpired, org, before)
}

// Segments returns the files of a capture, in their order.
func (s Store) Segments(ctx context.Context, c Capture) ([]Segment, error) {
	return database.List(ctx, s.Database().Reads(), scanSegment, selectSegments, c.Org, c.Name)
}

// End has a capture end, and with deletes be deleted then.
func (s Store) End(ctx context.Context, c Capture, deletes bool, at time.Time, ev model.Event) error {
	return about(c.Name, s.Write(ctx, c.Org, ev, func(ctx context.Context, t *database.Tx, _ int64) ([]store.Change, error) {
		err := database.Exists(ctx, t, selectCapture, c.Org, c.Name)
		if err == nil {
			_, err = database.Exec(ctx, t, stopCapture, c.Org, c.Name, at)
		}
		if err == nil && deletes {
			_, err = database.Exec(ctx, t, markCapture, c.Org, c.Name, at)
		}
		return changed(c), err
	}))
}

// save saves the progress of a capture, with a new segment if it has a file, and returns it with its revision.
func (s Store) save(ctx context.Context, c Capture, with Segment) (Capture, error) {
	err := s.Database().ObserveIn(ctx, func(ctx context.Context, t *database.Tx) error {
		err := database.Must(ctx, t, errOther, saveCapture, c.Org, c.Name, c.Revision, c.Segments, c.Requests, c.Bytes, c.Message, database.JSON{Of: c.Progress}, c.EndedAt)
		if err == nil && with.File != "" {
			_, err = database.Exec(ctx, t, insertSegment, c.Org, c.Name, with.Number, with.File, with.Requests, with.Bytes)
		}
		return err
	})
	if err == nil {
		c.Revision++
		s.Observed(c.Org)
	}
	return c, about(c.Name, err)
}

// Remove removes a capture, after its files.
func (s Store) Remove(ctx context.Context, c Capture, ev model.Event) error {
	return s.Write(ctx, c.Org, ev, func(ctx context.Context, t *database.Tx, _ int64) ([]store.Change, error) {
		_, err := database.Exec(ctx, t, deleteSegments, c.Org, c.Name)
		if err == nil {
			_, err = database.Exec(ctx, t, deleteCapture, c.Org, c.Name)
		}
		return changed(c), err
	})
}

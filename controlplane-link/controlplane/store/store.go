package store

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
)

// Config is the configuration of a Store.
type Config struct {
	// Path is the file of SQLite. Its folder exists, on a local file system.
	Path string
	// PostgreSQL is the URL of a PostgreSQL database instead, or its key=value form.
	PostgreSQL string
	// Keys encrypt secrets.
	Keys *seal.Keys
	// Logger logs lost connections to PostgreSQL. It can be nil.
	Logger *slog.Logger
}

// Store is an open store. Make one with Open. It is safe for concurrent use.
type Store struct {
	db   *database.DB
	keys *seal.Keys
}

//go:embed migrations
var migrations embed.FS

// Open opens a store, and creates or migrates its tables. The caller closes it.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Keys == nil {
		return nil, errors.New("the store has no key for secrets: configure a file with keys")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	db, err := database.Open(ctx, c.Path, c.PostgreSQL, files, c.Logger)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, keys: c.Keys}
	if err := s.checkKeys(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// Close closes the store. Watchers are not notified any more.
func (s *Store) Close() error { return s.db.Close() }

// Transactions returns how many transactions were begun for writes, and for observations such as a
// status.
func (s *Store) Transactions() (writes, observations uint64) { return s.db.Transactions() }

// Backup writes a consistent copy of a store in SQLite to a new file, while it is in use. To restore
// it, stop the control plane, replace the file and delete those with its name and -wal or -shm.
func (s *Store) Backup(ctx context.Context, path string) error { return s.db.Backup(ctx, path) }

// tx is a transaction. Its first error ends it: later statements do nothing, reads return nothing, and it is rolled back.
type tx struct {
	*database.Tx
	ctx context.Context
	err error
	// generation is that of a write; recorded are numbers that its event gets.
	generation int64
	recorded   map[string]int64
}

// transact runs the transaction of a write, and records its event.
func (s *Store) transact(ctx context.Context, ev model.Event, do func(*tx)) error {
	return s.db.Write(ctx, func(ctx context.Context, raw *database.Tx) error {
		t := &tx{Tx: raw, ctx: ctx}
		if do(t); t.err != nil {
			return t.err
		}
		ev.Data = withNumbers(ev.Data, t.recorded)
		t.exec(insertEvent, ev.ID, ev.Org, ev.At, ev.Type, ev.By.Kind, ev.By.ID, ev.By.Name, ev.Method, ev.Masked, ev.Data)
		if t.err != nil {
			return fmt.Errorf("record event %s in the audit trail: %w", ev.Type, t.err)
		}
		return nil
	})
}

// write is transact in an organisation. Writes of an organisation are serial.
func (s *Store) write(ctx context.Context, org string, ev model.Event, do func(*tx)) error {
	ev.Org = org
	return s.transact(ctx, ev, func(t *tx) {
		t.generation = one(t, organisation(org), database.Column[int64], lockOrganisation, org)
		if t.err == nil {
			do(t)
		}
	})
}

// observe runs the transaction of an observation.
func (s *Store) observe(ctx context.Context, do func(*tx)) error {
	return s.db.ObserveIn(ctx, func(ctx context.Context, raw *database.Tx) error {
		t := &tx{Tx: raw, ctx: ctx}
		do(t)
		return t.err
	})
}

// withNumbers adds numbers to an object in JSON. Other values stay.
func withNumbers(object json.RawMessage, numbers map[string]int64) json.RawMessage {
	var of map[string]json.RawMessage
	if len(numbers) == 0 || json.Unmarshal(object, &of) != nil || of == nil {
		return object
	}
	for name, n := range numbers {
		of[name] = json.RawMessage(strconv.FormatInt(n, 10))
	}
	text, _ := json.Marshal(of) // its values are JSON
	return text
}

// thing is what a statement is about: its name in errors, if it has one, and the change that watchers are notified of; none: they are not.
type thing struct {
	what, name string
	change     Change
}

// of adds the thing to an error about its state.
func (o thing) of(err error) error {
	if err == nil || o.what == "" {
		return err
	}
	return fmt.Errorf("%s %q: %w", o.what, o.name, err)
}

// fail ends the transaction with an error; nil changes nothing.
func (t *tx) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// changed notifies watchers once the transaction is committed.
func (t *tx) changed(c Change) {
	text, _ := json.Marshal(c) // its fields are texts
	t.Changed(string(text))
}

// exec runs a statement, and returns how many rows it has changed.
func (t *tx) exec(query string, args ...any) (n int64) {
	if t.err == nil {
		n, t.err = database.Exec(t.ctx, t, query, args...)
	}
	return n
}

// must is exec for a statement that changes the row of a thing; without one the transaction fails with an error.
func (t *tx) must(missing error, o thing, query string, args ...any) {
	if t.err == nil {
		if n := t.exec(query, args...); n == 0 {
			t.fail(missing)
		}
		t.err = o.of(t.err)
	}
	if o.change.Kind != "" {
		t.changed(o.change)
	}
}

// list returns the rows of a query.
func list[T any](t *tx, scan func(database.Row) (T, error), query string, args ...any) (all []T) {
	if t.err == nil {
		all, t.err = database.List(t.ctx, t, scan, query, args...)
	}
	return all
}

// one returns the row of a thing; without one the transaction fails with model.ErrNotFound.
func one[T any](t *tx, o thing, scan func(database.Row) (T, error), query string, args ...any) (v T) {
	if t.err == nil {
		var err error
		v, err = database.One(t.ctx, t, scan, query, args...)
		t.err = o.of(err)
	}
	return v
}

// exists fails unless the query about a thing has a row.
func (t *tx) exists(o thing, query string, args ...any) {
	if t.err == nil {
		t.err = o.of(database.Exists(t.ctx, t, query, args...))
	}
}

// set is a write of one statement, which changes the row of a thing.
func (s *Store) set(ctx context.Context, org string, ev model.Event, o thing, query string, args ...any) error {
	return s.write(ctx, org, ev, func(t *tx) { t.must(model.ErrNotFound, o, query, args...) })
}

// add is a write of one statement, which adds a row to those of the organisation that maxima count.
func (s *Store) add(ctx context.Context, org string, ev model.Event, o thing, maxima []maximum, query string, args ...any) error {
	return s.write(ctx, org, ev, func(t *tx) { t.insert(o, []any{org}, maxima, query, args...) })
}

// get returns the row of a thing.
func get[T any](ctx context.Context, s *Store, o thing, scan func(database.Row) (T, error), query string, args ...any) (T, error) {
	v, err := database.One(ctx, s.db.Reads(), scan, query, args...)
	return v, o.of(err)
}

// Kind is the kind of a changed object.
type Kind string

// Kinds of changed objects.
const (
	// Everything may have changed: notifications were lost. Watchers read all that they need.
	Everything   Kind = "everything"
	Sandbox      Kind = "sandbox"
	RouteGroup   Kind = "routegroup"
	Cluster      Kind = "cluster"
	AgentSession Kind = "agentsession"
	ClusterToken Kind = "clustertoken"
	APIKey       Kind = "apikey"
	Login        Kind = "login"
	RunnerGroup  Kind = "runnergroup"
	Job          Kind = "job"
	// TestExecution is one run of a Smart Test.
	TestExecution Kind = "testexecution"
	// Observed: the statuses of sandboxes or route groups of an organisation, or reports of its clusters, have
	// changed. Such a change names no object, and can be lost.
	Observed Kind = "observed"
)

// Change names an object that was written or deleted, or is Observed.
type Change struct {
	Kind Kind
	Org  string
	// Cluster is that of the object; empty for objects of no cluster or of several, and for those that
	// were removed.
	Cluster string `json:",omitempty"`
	// Name is that of the object, or the ID of a credential, or of the user of a login.
	Name string `json:",omitempty"`
}

// Watch calls changed after each change at any replica, until ctx ends. It does not block, and changed
// must not.
func (s *Store) Watch(ctx context.Context, changed func(Change)) {
	s.db.Watch(ctx, func(text string) {
		c := Change{Kind: Everything}
		if text == "" || json.Unmarshal([]byte(text), &c) == nil {
			changed(c)
		}
	})
}

// observed notifies watchers of an observation.
func (s *Store) observed(org string) {
	text, _ := json.Marshal(Change{Kind: Observed, Org: org}) // its fields are texts
	s.db.Announce(string(text))
}

// listed returns the rows of a query by the time and the name in a key. Databases sort texts by their locale.
func listed[T any](
	ctx context.Context, s *Store, key func(T) (time.Time, string), scan func(database.Row) (T, error), query string, args ...any,
) ([]T, error) {
	all, err := database.List(ctx, s.db.Reads(), scan, query, args...)
	slices.SortFunc(all, func(a, b T) int {
		first, name := key(a)
		second, other := key(b)
		return cmp.Or(first.Compare(second), cmp.Compare(name, other))
	})
	return all, err
}

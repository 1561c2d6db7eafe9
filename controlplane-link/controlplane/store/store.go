package store

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"

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
	// Command: the process ends after a few writes, and does not migrate tables. It can open a file of
	// SQLite beside the server; the watchers of that are not notified of these writes.
	Command bool
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
	db, err := database.Open(ctx, database.Config{Path: c.Path, PostgreSQL: c.PostgreSQL, Migrations: files, Command: c.Command, Logger: c.Logger})
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

// tx is the transaction of a write.
type tx struct {
	*database.Tx
	// generation is that of the write; recorded are numbers that the event gets.
	generation int64
	recorded   map[string]int64
}

// changed notifies watchers once the transaction is committed.
func (t *tx) changed(c Change) {
	text, _ := json.Marshal(c) // its fields are texts
	t.Changed(string(text))
}

// write runs the transaction of a write in an organisation, and records its event. Writes of an
// organisation are serial.
func (s *Store) write(ctx context.Context, org string, ev model.Event, do func(context.Context, *tx) error) error {
	ev.Org = org
	return s.db.Write(ctx, func(ctx context.Context, raw *database.Tx) error {
		generation, err := database.One(ctx, raw, database.Column[int64], lockOrganisation, org)
		if err != nil {
			return of("organisation", org, err)
		}
		t := &tx{Tx: raw, generation: generation}
		if err := do(ctx, t); err != nil {
			return err
		}
		ev.Data = withNumbers(ev.Data, t.recorded)
		return record(ctx, raw, ev)
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

// object names an object in errors.
type object struct{ what, name string }

// set is a write of one statement, which changes the row of an object.
func (s *Store) set(ctx context.Context, org string, ev model.Event, o object, query string, args ...any) error {
	return s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		return of(o.what, o.name, database.Must(ctx, t, model.ErrNotFound, query, args...))
	})
}

// add is a write of one statement, which adds a row to those of the organisation that maxima count.
func (s *Store) add(ctx context.Context, org string, ev model.Event, o object, maxima []maximum, query string, args ...any) error {
	return s.write(ctx, org, ev, func(ctx context.Context, t *tx) error {
		return of(o.what, o.name, t.insert(ctx, []any{org}, maxima, query, args...))
	})
}

// of adds the object to an error about its state.
func of(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", what, name, err)
}

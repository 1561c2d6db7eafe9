package store

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/spec"
)

// NewDatabase returns the URL of a new PostgreSQL database. It is set by the tests of package store_test.
var NewDatabase func(ctx context.Context) (string, error)

// places returns the configurations of an empty store on both databases.
func places(t *testing.T) map[string]Config {
	t.Helper()
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		t.Fatal(err)
	}
	url, err := NewDatabase(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]Config{
		"sqlite":   {Path: filepath.Join(t.TempDir(), "store.db"), Keys: keys},
		"postgres": {PostgreSQL: url, Keys: keys},
	}
}

// tables opens the tables of a configuration, without a store.
func tables(t *testing.T, c Config) (*sql.DB, *goose.Provider) {
	t.Helper()
	driver, at, dialect := "sqlite", c.Path, goose.DialectSQLite3
	if c.PostgreSQL != "" {
		driver, at, dialect = "pgx", c.PostgreSQL, goose.DialectPostgres
	}
	db, err := sql.Open(driver, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // it is closed already
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	m, err := goose.NewProvider(dialect, db, files)
	if err != nil {
		t.Fatal(err)
	}
	return db, m
}

// TestMigrationFromEachVersion fills the tables of each version with rows as its release has written
// them (testdata/vN.sql), migrates them, and reads all rows. A migration without such a file fails.
func TestMigrationFromEachVersion(t *testing.T) {
	names, err := migrations.ReadDir("migrations")
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	for version := 1; version <= len(names); version++ {
		for name, c := range places(t) {
			t.Run(fmt.Sprintf("v%d/%s", version, name), func(t *testing.T) {
				readAll(t, migrated(t, c, version, rowsOf(t, fmt.Sprintf("v%d.sql", version))))
			})
		}
	}
}

// rowsOf returns the statements of a file in testdata, after those of the file that its first line names.
func rowsOf(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatalf("%v: write rows as this release does", err)
	}
	rows := string(text)
	if rest, is := strings.CutPrefix(rows, "-- after "); is {
		before, more, _ := strings.Cut(rest, "\n")
		rows = rowsOf(t, before) + more
	}
	return rows
}

// migrated opens a store of which the tables had rows in a version.
func migrated(t *testing.T, c Config, version int, rows string) *Store {
	t.Helper()
	db, m := tables(t, c)
	if _, err := m.UpTo(t.Context(), int64(version)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestAForcedDeletionOfAnOlderRelease stays one of its author, if another one with more rights deletes the sandbox without force.
func TestAForcedDeletionOfAnOlderRelease(t *testing.T) {
	for name, c := range places(t) {
		t.Run(name, func(t *testing.T) {
			s := migrated(t, c, 6, rowsOf(t, "v6.sql")+"UPDATE objects SET deleted = 1764450000000000000, force = 1;")
			system := model.Author{Principal: model.Principal{Kind: model.KindSystem, Name: "control plane"}}
			ev := Entry(model.Caller{Org: "acme", Principal: system.Principal, Method: model.MethodInternal}, "sandbox.expire", time.Now().UTC(), nil)
			before, err := s.Sandbox(t.Context(), "acme", "a")
			if err := errors.Join(err, s.DeleteSandbox(t.Context(), "acme", "a", false, time.Now(), ev)); err != nil {
				t.Fatal(err)
			}
			if o, err := s.Sandbox(t.Context(), "acme", "a"); err != nil || o.Author != system || !o.Force || before.Author.ID != "u1" || o.ForcedBy != before.Author {
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
}

// pluginOf returns a version of a plugin.
func pluginOf(ctx context.Context, s *Store, org string, name spec.PluginName) (model.Plugin, error) {
	all, err := s.Plugins(ctx, org)
	for _, p := range all {
		if p.Name == name {
			return p, err
		}
	}
	return model.Plugin{}, errors.Join(err, model.ErrNotFound)
}

// readAll reads a row of each table of testdata.
func readAll(t *testing.T, s *Store) {
	t.Helper()
	ctx, org := t.Context(), "acme"
	for what, read := range map[string]func() (any, error){
		"organisation":    func() (any, error) { return s.Organisation(ctx, org) },
		"user":            func() (any, error) { return s.UserBySubject(ctx, org, "https://id/7") },
		"service account": func() (any, error) { return s.ServiceAccount(ctx, org, "ci") },
		"caller":          func() (any, error) { return s.CallerOf(ctx, model.Digest{0xaa}) },
		"device login":    func() (any, error) { return s.DeviceLoginByCode(ctx, "ABCD") },
		"login":           func() (any, error) { return s.Session(ctx, model.Digest{0xcc}) },
		"cluster":         func() (any, error) { return s.Cluster(ctx, org, "demo") },
		"token":           func() (any, error) { return s.ClusterToken(ctx, org, "demo", "t1") },
		"sandbox":         func() (any, error) { return s.Sandbox(ctx, org, "a") },
		"plugin":          func() (any, error) { return pluginOf(ctx, s, org, spec.PluginName{Bare: "db", Version: "1.0.0"}) },
		"secret":          func() (any, error) { return s.SecretValue(ctx, org, "s") },
		"certificate":     func() (any, error) { v, _, err := s.Certificate(ctx, "preview.example.net"); return v, err },
		"devbox":          func() (any, error) { return s.Devbox(ctx, org, "d1") },
	} {
		if v, err := read(); err != nil {
			t.Errorf("%s: %v, %v", what, v, err)
		}
	}
	o, err := s.Sandbox(ctx, org, "a")
	if err != nil || o.RoutingKey != "abcdefghijklm" || o.Generation != 7 || o.Plugins["store"].Version != "1.0.0" || !o.Status.Ready {
		t.Errorf("sandbox %+v, %v", o, err)
	}
	e, err := s.Events(ctx, org, model.EventQuery{Limit: 9})
	if err != nil || len(e) != 1 || e[0].By.ID != "u1" {
		t.Errorf("events %+v, %v", e, err)
	}
	sessions, err := database.List(ctx, s.db.Reads(), scanSession, selectSessions)
	if err != nil || len(sessions) != 1 || sessions[0].entry.Epoch != 3 || !cmp.Equal(sessions[0].entry.Superseded, []string{"old"}) {
		t.Errorf("sessions %+v, %v", sessions, err)
	}
}

// TestMigrationsOnlyGoForward: a release does not start on the tables of a later one, and no migration
// has a way back.
func TestMigrationsOnlyGoForward(t *testing.T) {
	for name, c := range places(t) {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			db, _ := tables(t, c)
			if _, err := db.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, TRUE)"); err != nil {
				t.Fatal(err)
			}
			const want = "install the release that has migrated them, or restore a backup from before"
			if _, err := Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	names, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	for _, name := range names {
		if text, err := os.ReadFile(name); err != nil || strings.Contains(strings.ToLower(string(text)), "+goose down") {
			t.Errorf("%s has a way back, %v", name, err)
		}
	}
}

// TestWritesOfAReplicaNotifyTheOthers on PostgreSQL.
func TestWritesOfAReplicaNotifyTheOthers(t *testing.T) {
	c := places(t)["postgres"]
	server, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	other, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var changed atomic.Bool
	server.Watch(t.Context(), func(c Change) {
		if c.Kind == Cluster && c.Name == "demo" {
			changed.Store(true)
		}
	})
	wait.Eventually(t, 5*time.Minute, "a notification", func() error { // the server may not listen yet
		err := other.db.Write(t.Context(), func(_ context.Context, raw *database.Tx) error {
			(&tx{Tx: raw}).changed(Change{Kind: Cluster, Org: "acme", Name: "demo"})
			return nil
		})
		if err == nil && !changed.Load() {
			err = errors.New("no change of cluster demo")
		}
		return err
	})
}

// TestReadsDoNotWaitForWrites: reads have connections of their own.
func TestReadsDoNotWaitForWrites(t *testing.T) {
	for name, c := range places(t) {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			const writers = 64 // more than there are connections
			var under sync.WaitGroup
			begun, end := make(chan struct{}, writers), make(chan struct{})
			defer under.Wait()
			defer close(end)
			for range writers {
				under.Go(func() {
					_ = s.db.Write(t.Context(), func(context.Context, *database.Tx) error { // it is interrupted
						begun <- struct{}{}
						<-end
						return nil
					})
				})
			}
			<-begun
			bounded, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			for range 200 { // while the others begin
				if _, err := s.Organisations(bounded); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestReplicasMigrateOnce: replicas that start at the same time on an empty database all open it.
func TestReplicasMigrateOnce(t *testing.T) {
	c := places(t)["postgres"]
	opened := make(chan error, 4)
	for range cap(opened) {
		go func() {
			s, err := Open(context.WithoutCancel(t.Context()), c)
			if err == nil {
				err = s.Close()
			}
			opened <- err
		}()
	}
	for range cap(opened) {
		if err := <-opened; err != nil {
			t.Error(err)
		}
	}
}

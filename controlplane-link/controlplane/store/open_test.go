package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
)

// wrong fails unless a store does not open, with an error that contains a text.
func wrong(t *testing.T, c store.Config, want string) {
	t.Helper()
	s, err := store.Open(t.Context(), c)
	if err == nil {
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestConfigurationsThatDoNotOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "store.db")
	wrong(t, store.Config{Path: file}, "configure a file with keys")
	wrong(t, store.Config{Keys: keys("k")}, "configure one of them")
	wrong(t, store.Config{Path: file, PostgreSQL: server.URL("postgres"), Keys: keys("k")}, "configure one of them")
	wrong(t, store.Config{Path: filepath.Join(file, "none", "store.db"), Keys: keys("k")}, "none")
	wrong(t, store.Config{PostgreSQL: "postgres://%", Keys: keys("k")}, "the URL of the PostgreSQL database is not valid")
	wrong(t, store.Config{PostgreSQL: server.URL("none"), Keys: keys("k")}, "PostgreSQL database none at 127.0.0.1:")
	latin, err := server.Create(t.Context(), newName(), "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
	must(t, err)
	wrong(t, store.Config{PostgreSQL: latin, Keys: keys("k")}, "has encoding LATIN1: create it with encoding UTF8")
}

func TestPasswordsAreInNoError(t *testing.T) {
	for _, url := range []string{"postgres://user:sesame@127.0.0.1:1/x", "postgres://user:sesame@127.0.0.1:y/x", "host=127.0.0.1 port=1 password=sesame", "postgres://user:sesame@%/"} {
		s, err := store.Open(t.Context(), store.Config{PostgreSQL: url, Keys: keys("k")})
		if err == nil {
			_ = s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("got %v", err)
		}
	}
}

func TestSQLiteHasOneProcess(t *testing.T) {
	c := store.Config{Path: filepath.Join(t.TempDir(), "store.db"), Keys: keys("k")}
	s := filled(t, c)
	wrong(t, c, "stop it, or use PostgreSQL for several replicas")
	must(t, s.Close())
	open(t, c)
	info, err := os.Stat(c.Path)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %s", info.Mode())
	}
}

func TestADamagedFile(t *testing.T) {
	c := store.Config{Path: filepath.Join(t.TempDir(), "store.db"), Keys: keys("k")}
	s := filled(t, c)
	for n := range 200 {
		o := sandbox(fmt.Sprintf("s%d", n))
		value[model.Sandbox](t)(s.PutSandbox(t.Context(), o, event("sandbox.apply")))
	}
	must(t, s.Close())
	text, err := os.ReadFile(c.Path)
	must(t, err)
	clear(text[len(text)/2 : len(text)/2+4096])
	must(t, os.WriteFile(c.Path, text, 0o600))
	wrong(t, c, "move it away and restore a backup")
	must(t, os.WriteFile(c.Path, []byte(strings.Repeat("no database ", 1000)), 0o600))
	wrong(t, c, "move it away and restore a backup")
}

func TestBackup(t *testing.T) {
	folder := t.TempDir()
	c := store.Config{Path: filepath.Join(folder, "store.db"), Keys: keys("k")}
	s, ctx := filled(t, c), t.Context()
	must(t, s.CreateSecret(ctx, model.Secret{Org: org, Name: "s", Value: "v"}, event("secret.create")))
	kept := value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")))
	backup := filepath.Join(folder, "backup.db")
	must(t, s.Backup(ctx, backup))
	if err := s.Backup(ctx, backup); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("a backup was overwritten: %v", err)
	}
	later := value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")))
	must(t, s.Close())

	c.Path = backup
	s = open(t, c)
	same(t, value[model.Sandbox](t)(s.Sandbox(ctx, org, "a")), kept)
	same(t, value[string](t)(s.SecretValue(ctx, org, "s")), "v")
	must(t, s.Adopt(ctx, org, later.Generation+7, event("adopt"))) // of an object in a cluster
	again := value[model.Sandbox](t)(s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")))
	if again.Generation <= later.Generation+7 {
		t.Errorf("generation %d after that of a newer store, %d", again.Generation, later.Generation+7)
	}
	url, err := newDatabase(ctx)
	must(t, err)
	if err := open(t, store.Config{PostgreSQL: url, Keys: keys("k")}).Backup(ctx, backup); err == nil || !strings.Contains(err.Error(), "pg_dump") {
		t.Error(err)
	}
}

// TestSQLIsInOnePlace: statements are in sql.go only.
func TestSQLIsInOnePlace(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	below, err := filepath.Glob("*/*.go")
	must(t, err)
	files = append(files, below...)
	statement := regexp.MustCompile("[\"`] ?(SELECT|INSERT|UPDATE|DELETE|PRAGMA|LISTEN|VACUUM|CREATE|SHOW|AND|ORDER) ")
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		n := len(statement.FindAll(text, -1))
		if found += n; n > 0 && filepath.Base(file) != "sql.go" && !strings.HasSuffix(file, "_test.go") {
			t.Errorf("%s has a statement: move it to sql.go", file)
		}
	}
	if found < 50 {
		t.Errorf("%d statements found", found)
	}
}

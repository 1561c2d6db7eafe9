// Package stores runs tests of what a control plane stores on both databases.
package stores

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/tests/postgres"
)

// server is the PostgreSQL server of the tests of a package, and databases counts its databases.
var (
	server    *postgres.Server
	databases int
)

func start(ctx context.Context) (*postgres.Server, error) {
	return postgres.Temporary(ctx, "fsync=off", "full_page_writes=off")
}

// Main is the TestMain of a package that calls Each. Without it each test has a server.
func Main(m *testing.M) {
	var err error
	if server, err = start(context.Background()); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = server.Remove()
	os.Exit(code)
}

// Scene is an empty store with organisations.
type Scene struct {
	*testing.T
	Opened *store.Store
	// Now is the time of events.
	Now    time.Time
	events int
}

// Each runs a test on SQLite and on PostgreSQL, with organisations.
func Each(t *testing.T, test func(*Scene), organisations ...string) {
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			s := &Scene{T: t, Now: time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)}
			keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)))
			s.Must(err)
			c := store.Config{Path: filepath.Join(t.TempDir(), "store.db"), Keys: keys}
			if name == "postgres" {
				in := server
				if in == nil {
					in, err = start(t.Context())
					s.Must(err)
					t.Cleanup(func() { _ = in.Remove() })
				}
				databases++
				c.Path = ""
				c.PostgreSQL, err = in.Create(t.Context(), fmt.Sprint("scene", databases), "")
				s.Must(err)
			}
			s.Opened, err = store.Open(t.Context(), c)
			s.Must(err)
			t.Cleanup(func() { _ = s.Opened.Close() })
			for _, org := range organisations {
				s.Must(s.Opened.CreateOrganisation(t.Context(), model.Organisation{Name: org, CreatedAt: s.Now}, s.Event(org)))
			}
			test(s)
		})
	}
}

// Must fails the test for an error.
func (s *Scene) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Event returns an entry of the audit trail for a write of the test.
func (s *Scene) Event(org string) model.Event {
	s.events++
	return model.Event{
		Org: org, ID: fmt.Sprint(s.Name(), s.events), Type: "test", At: s.Now, By: model.Principal{Kind: model.KindUser, ID: "u1", Name: "jo"}, Role: model.RoleMember,
	}
}

package store_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/tests/postgres"
)

// server is the PostgreSQL of all tests.
var server *postgres.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if server, err = postgres.Temporary(context.Background(), "fsync=off", "full_page_writes=off"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	store.NewDatabase = newDatabase
	code := m.Run()
	if err := server.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// keys is a file with a key.
func keys(ids ...string) *seal.Keys {
	text := ""
	for _, id := range ids {
		key := make([]byte, 32)
		copy(key, id)
		text += id + " " + base64.StdEncoding.EncodeToString(key) + "\n"
	}
	k, err := seal.Parse(text)
	if err != nil {
		panic(err)
	}
	return k
}

var databases atomic.Int64

// newName returns a name for a PostgreSQL database.
func newName() string { return fmt.Sprintf("test%d", databases.Add(1)) }

// newDatabase returns the URL of a new PostgreSQL database.
func newDatabase(ctx context.Context) (string, error) { return server.Create(ctx, newName(), "") }

// each runs a test on both databases, each empty.
func each(t *testing.T, test func(*testing.T, store.Config)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		test(t, store.Config{Path: filepath.Join(t.TempDir(), "store.db"), Keys: keys("first")})
	})
	t.Run("postgres", func(t *testing.T) {
		url, err := newDatabase(t.Context())
		must(t, err)
		test(t, store.Config{PostgreSQL: url, Keys: keys("first")})
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a store until the test ends.
func open(t *testing.T, c store.Config) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), c)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() }) // it may be closed
	return s
}

const org = "acme"

var start = time.Date(2026, 11, 29, 21, 0, 0, 123456000, time.UTC)

// at is a time so many seconds after the start.
func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

var ada = model.Principal{Kind: model.KindUser, ID: "u1", Name: "ada@example.com"}

var events atomic.Int64

// event is a new event.
func event(what string) model.Event {
	return model.Event{
		Org: org, ID: fmt.Sprintf("e%d", events.Add(1)), Type: what, At: start, By: ada, Method: model.MethodAPIKey, Masked: "sk-1",
		Data: json.RawMessage(`{"of":"` + what + `"}`),
	}
}

// filled opens a store with an organisation, and the clusters demo and other.
func filled(t *testing.T, c store.Config) *store.Store {
	t.Helper()
	s := open(t, c)
	must(t, s.CreateOrganisation(t.Context(), model.Organisation{Name: org, DisplayName: "Acme", CreatedAt: at(0)}, event("org.create")))
	for _, name := range []string{"demo", "other"} {
		must(t, s.CreateCluster(t.Context(), model.Cluster{Org: org, Name: name, CreatedAt: at(1)}, event("cluster.create")))
	}
	return s
}

// refused fails unless an error is one of the state of an object, and names the object.
func refused(t *testing.T, err, want error, name string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
		t.Errorf("got %v, want %v of %s", err, want, name)
	}
}

// same fails unless two values are equal.
func same(t *testing.T, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// value fails if there is an error.
func value[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func TestOrganisations(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		refused(t, s.CreateOrganisation(ctx, model.Organisation{Name: org}, event("org.create")), model.ErrExists, org)
		same(t, value[[]model.Organisation](t)(s.Organisations(ctx)), []model.Organisation{{Name: org, DisplayName: "Acme", CreatedAt: at(0)}})
		_, err := s.Organisation(ctx, "none")
		refused(t, err, model.ErrNotFound, "none")
		ev := event("cluster.create")
		ev.Org = "none"
		refused(t, s.CreateCluster(ctx, model.Cluster{Org: "none", Name: "x"}, ev), model.ErrNotFound, "none")
		before := value[int64](t)(s.Generation(ctx, org))
		must(t, s.Adopt(ctx, org, before+100, event("adopt")))
		must(t, s.Adopt(ctx, org, 3, event("adopt")))
		if now := value[int64](t)(s.Generation(ctx, org)); now != before+101 {
			t.Errorf("generation %d after %d", now, before)
		}
	})
}

func TestUsers(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		u := model.User{Org: org, ID: "u1", Subject: "https://id/7", Email: "ada@example.com", FirstName: "Ada", LastName: "L", Avatar: "a", Role: model.RoleMember, CreatedAt: at(2), UpdatedAt: at(2)}
		must(t, s.PutUser(ctx, u, event("user.put")))
		other := model.User{Org: org, ID: "u0", Email: "bob@example.com", Role: model.RoleAdmin, CreatedAt: at(3), UpdatedAt: at(3)}
		must(t, s.PutUser(ctx, other, event("user.put")))
		changed := u
		changed.Role, changed.CreatedAt, changed.UpdatedAt = model.RoleAdmin, at(9), at(9)
		must(t, s.PutUser(ctx, changed, event("user.put")))
		changed.CreatedAt = at(2)
		same(t, value[[]model.User](t)(s.Users(ctx, org)), []model.User{changed, other})
		same(t, value[model.User](t)(s.UserBySubject(ctx, org, "https://id/7")), changed)
		_, err := s.UserBySubject(ctx, org, "")
		refused(t, err, model.ErrNotFound, "")
		other.Subject = u.Subject
		refused(t, s.PutUser(ctx, other, event("user.put")), model.ErrExists, "u1")
		must(t, s.DeleteUser(ctx, org, "u1", event("user.delete")))
		_, err = s.User(ctx, org, "u1")
		refused(t, err, model.ErrNotFound, "u1")
	})
}

func TestAPIKeys(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		owner := model.Principal{Kind: model.KindServiceAccount, ID: "ci"}
		k := model.APIKey{Org: org, ID: "k1", Owner: owner, Description: "for CI", Masked: "sk-a", Digest: model.DigestOf("secret-a"), CreatedAt: at(4)}
		refused(t, s.CreateAPIKey(ctx, k, event("key.create")), model.ErrNotFound, "ci")
		account := model.ServiceAccount{Org: org, Name: "ci", Description: "d", Role: model.RoleMember, CreatedAt: at(3), UpdatedAt: at(3)}
		must(t, s.CreateServiceAccount(ctx, account, event("sa.create")))
		refused(t, s.CreateServiceAccount(ctx, account, event("sa.create")), model.ErrExists, "ci")
		must(t, s.CreateAPIKey(ctx, k, event("key.create")))
		refused(t, s.CreateAPIKey(ctx, k, event("key.create")), model.ErrExists, "k1")
		want := model.Caller{Org: org, Principal: model.Principal{Kind: model.KindServiceAccount, ID: "ci", Name: "ci"}, Role: model.RoleMember, Method: model.MethodAPIKey, KeyID: "k1", Masked: "sk-a"}
		same(t, value[model.Caller](t)(s.CallerOf(ctx, k.Digest)), want)
		must(t, s.Used(ctx, "k1", at(9), ""))
		must(t, s.Used(ctx, "k1", at(8), ""))
		k.LastUsedAt = at(9)
		same(t, value[[]model.APIKey](t)(s.APIKeys(ctx, org, owner)), []model.APIKey{k})
		refused(t, s.DeleteAPIKey(ctx, org, ada, "k1", event("key.delete")), model.ErrNotFound, "k1") // of another owner
		must(t, s.DeleteServiceAccount(ctx, org, "ci", event("sa.delete")))
		if _, err := s.CallerOf(ctx, k.Digest); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("the key of a deleted account: %v", err)
		}
		must(t, s.PutUser(ctx, model.User{Org: org, ID: "u1", Email: ada.Name, Role: model.RoleAdmin}, event("user.put")))
		k.Owner = ada
		must(t, s.CreateAPIKey(ctx, k, event("key.create")))
		want.Principal, want.Role = ada, model.RoleAdmin
		same(t, value[model.Caller](t)(s.CallerOf(ctx, k.Digest)), want)
		must(t, s.DeleteAPIKey(ctx, org, ada, "k1", event("key.delete")))
		same(t, len(value[[]model.APIKey](t)(s.APIKeys(ctx, org, ada))), 0)
	})
}

func TestLogins(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		l := model.DeviceLogin{Device: model.DigestOf("device"), UserCode: "ABCD", CreatedAt: at(0), ExpiresAt: at(600), Address: "192.0.2.7", Preview: "web--a.preview.example.net"}
		must(t, s.CreateDeviceLogin(ctx, l))
		if err := s.CreateDeviceLogin(ctx, model.DeviceLogin{Device: model.DigestOf("other"), UserCode: "ABCD", CreatedAt: at(1)}); !errors.Is(err, model.ErrExists) {
			t.Error(err)
		}
		must(t, s.PolledDeviceLogin(ctx, l.Device, at(5)))
		session := model.Session{Org: org, UserID: "u1", Access: model.DigestOf("a"), Refresh: model.DigestOf("r"), CreatedAt: at(6), ExpiresAt: at(60), RefreshBy: at(600)}
		if err := s.FinishDeviceLogin(ctx, l.Device, session, event("login")); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("a pending login was finished: %v", err)
		}
		must(t, s.DecideDeviceLogin(ctx, l.Device, "u1", model.DigestOf("page"), false, event("login.accept")))
		if err := s.DecideDeviceLogin(ctx, l.Device, "u2", model.DigestOf("other"), false, event("login.accept")); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("accepted twice: %v", err)
		}
		l.PolledAt, l.Org, l.UserID, l.Session = at(5), org, "u1", model.DigestOf("page")
		same(t, value[model.DeviceLogin](t)(s.DeviceLoginByCode(ctx, "ABCD")), l)
		must(t, s.FinishDeviceLogin(ctx, l.Device, session, event("login")))
		if err := s.FinishDeviceLogin(ctx, l.Device, session, event("login")); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("finished twice: %v", err)
		}
		same(t, value[model.Session](t)(s.Session(ctx, session.Access)), session)
		next := session
		next.Access, next.Refresh = model.DigestOf("a2"), model.DigestOf("r2")
		must(t, s.ReplaceSession(ctx, session.Refresh, next, event("login.refresh")))
		if err := s.ReplaceSession(ctx, session.Refresh, next, event("login.refresh")); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("refreshed twice: %v", err)
		}
		if _, err := s.Session(ctx, session.Access); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("a replaced session: %v", err)
		}
		same(t, value[model.Session](t)(s.SessionByRefresh(ctx, next.Refresh)), next)
		must(t, s.EndSession(ctx, next.Access, event("logout")))
		if _, err := s.Session(ctx, next.Access); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("an ended session: %v", err)
		}
		for i, user := range []string{"u1", "u1", "u2"} {
			name := fmt.Sprint("s", i)
			must(t, s.CreateSession(ctx, model.Session{Org: org, UserID: user, Access: model.DigestOf(name), Refresh: model.DigestOf("r" + name), CreatedAt: at(6), ExpiresAt: at(60), RefreshBy: at(600)}, event("login")))
		}
		must(t, s.EndSessions(ctx, org, "u1", event("logout.everywhere")))
		for i, ended := range []bool{true, true, false} {
			if _, err := s.Session(ctx, model.DigestOf(fmt.Sprint("s", i))); errors.Is(err, model.ErrNotFound) != ended {
				t.Errorf("session %d: %v", i, err)
			}
		}
		must(t, s.CreateDeviceLogin(ctx, model.DeviceLogin{Device: model.DigestOf("later"), UserCode: "ABCD", CreatedAt: at(700), ExpiresAt: at(900)}))
	})
}

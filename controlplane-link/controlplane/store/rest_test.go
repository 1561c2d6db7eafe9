package store_test

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
)

func TestClusters(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		refused(t, s.CreateCluster(ctx, model.Cluster{Org: org, Name: "demo"}, event("cluster.create")), model.ErrExists, "demo")
		reported := model.Cluster{Org: org, Name: "demo", OperatorVersion: "1.4.0", Config: json.RawMessage(`{"a": 1}`)}
		must(t, s.ReportCluster(ctx, reported))
		reported.CreatedAt = at(1)
		same(t, value[[]model.Cluster](t)(s.Clusters(ctx, org)), []model.Cluster{reported, {Org: org, Name: "other", CreatedAt: at(1)}})
		refused(t, s.ReportCluster(ctx, model.Cluster{Org: org, Name: "none"}), model.ErrNotFound, "none")
		k := model.ClusterToken{Org: org, Cluster: "demo", ID: "t1", Masked: "ct-1", Digest: model.DigestOf("token"), CreatedAt: at(2)}
		must(t, s.CreateClusterToken(ctx, k, event("token.create")))
		must(t, s.Used(ctx, "t1", at(3), "192.0.2.1"))
		must(t, s.Used(ctx, "t1", at(4), "")) // the address stays
		k.LastConnectedAt, k.LastConnectedIP = at(4), "192.0.2.1"
		same(t, value[[]model.ClusterToken](t)(s.ClusterTokens(ctx, org, "demo")), []model.ClusterToken{k})
		same(t, value[model.ClusterToken](t)(s.ClusterToken(ctx, org, "demo", "t1")), k)
		same(t, value[model.Caller](t)(s.CallerOf(ctx, k.Digest)), model.Caller{
			Org: org, Principal: model.Principal{Kind: model.KindCluster, ID: "demo", Name: "demo"}, Method: model.MethodClusterToken, KeyID: "t1", Masked: "ct-1",
		})
		_, err := s.ClusterToken(ctx, org, "other", "t1")
		refused(t, err, model.ErrNotFound, "t1")
		must(t, s.DeleteCluster(ctx, org, "demo", event("cluster.delete")))
		if _, err := s.CallerOf(ctx, k.Digest); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("the token of a deleted cluster: %v", err)
		}
	})
}

// TestSecretsAreEncrypted reads all that the database has on disk or in its tables.
func TestSecretsAreEncrypted(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		const canary = "canary-of-a-secret"
		v := model.Secret{Org: org, Name: "s", Description: "d", Value: canary, CreatedAt: at(1), UpdatedAt: at(1)}
		must(t, s.CreateSecret(ctx, v, event("secret.create")))
		refused(t, s.CreateSecret(ctx, v, event("secret.create")), model.ErrExists, `"s"`)
		must(t, s.CreateSecret(ctx, model.Secret{Org: org, Name: "r", Value: canary}, event("secret.create")))
		must(t, s.CreateClusterToken(ctx, model.ClusterToken{Org: org, Cluster: "demo", ID: "t1", Digest: model.DigestOf(canary)}, event("token.create")))
		v.Value = ""
		same(t, value[model.Secret](t)(s.Secret(ctx, org, "s")), v)
		same(t, value[string](t)(s.SecretValue(ctx, org, "s")), canary)
		if text := dump(t, c); strings.Contains(text, canary) || !strings.Contains(text, "first") {
			t.Error("the value of a secret is in the database, or the test does not see the database")
		}
		must(t, s.Close())

		c.Keys = keys("second")
		if _, err := store.Open(ctx, c); err == nil || !strings.Contains(err.Error(), "add the lines of first again") {
			t.Errorf("opened without the key of a secret: %v", err)
		}
		another, err := seal.Parse("second " + base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\nfirst " + base64.StdEncoding.EncodeToString(make([]byte, 32)))
		must(t, err)
		c.Keys = another
		if _, err := store.Open(ctx, c); err == nil || !strings.Contains(err.Error(), `another key "first"`) {
			t.Errorf("opened with another key of the same identifier: %v", err)
		}
		c.Keys = keys("second", "first")
		s = open(t, c)
		setSealed(t, c, "'!' || sealed")
		if n, err := s.Reseal(ctx, org, event("secret.reseal")); n != 0 || err == nil || !strings.Contains(err.Error(), "secret "+org+"/") {
			t.Errorf("%d secrets are encrypted again, with the error %v", n, err)
		}
		setSealed(t, c, "substr(sealed, 2)")
		same(t, value[int](t)(s.Reseal(ctx, org, event("secret.reseal"))), 2)
		same(t, value[int](t)(s.Reseal(ctx, org, event("secret.reseal"))), 0)
		must(t, s.Close())
		c.Keys = keys("second")
		s = open(t, c)
		same(t, value[string](t)(s.SecretValue(ctx, org, "s")), canary)
		v.Value, v.UpdatedAt = "other", at(2)
		must(t, s.UpdateSecret(ctx, v, event("secret.update")))
		same(t, value[string](t)(s.SecretValue(ctx, org, "s")), "other")
		must(t, s.DeleteSecret(ctx, org, "s", event("secret.delete")))
		refused(t, s.UpdateSecret(ctx, v, event("secret.update")), model.ErrNotFound, `"s"`)
		same(t, len(value[[]model.Secret](t)(s.Secrets(ctx, org))), 1)
	})
}

// setSealed sets the encrypted values of all secrets to an expression.
func setSealed(t *testing.T, c store.Config, to string) {
	t.Helper()
	driver, at := "sqlite", c.Path
	if c.PostgreSQL != "" {
		driver, at = "pgx", c.PostgreSQL
	}
	db := value[*sql.DB](t)(sql.Open(driver, at))
	_, err := db.ExecContext(t.Context(), "UPDATE secrets SET sealed = "+to)
	must(t, errors.Join(err, db.Close()))
}

// dump returns what a database has: the files of SQLite, all rows of PostgreSQL.
func dump(t *testing.T, c store.Config) string {
	t.Helper()
	var all strings.Builder
	if c.Path != "" {
		found, err := filepath.Glob(c.Path + "*")
		must(t, err)
		for _, path := range found {
			text, err := os.ReadFile(path)
			must(t, err)
			all.Write(text)
		}
		return all.String()
	}
	conn := value[*pgx.Conn](t)(pgx.Connect(t.Context(), c.PostgreSQL))
	defer func() { _ = conn.Close(context.Background()) }() // it only reads
	rows, err := conn.Query(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
	must(t, err)
	tables := value[[]string](t)(pgx.CollectRows(rows, pgx.RowTo[string]))
	for _, table := range tables {
		rows, err := conn.Query(t.Context(), "SELECT x::text FROM "+table+" x")
		must(t, err)
		for _, line := range value[[]string](t)(pgx.CollectRows(rows, pgx.RowTo[string])) {
			all.WriteString(line + "\n")
		}
	}
	return all.String()
}

func TestDevboxes(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		d := model.Devbox{Org: org, ID: "d1", UserID: "u1", Metadata: map[string]string{"name": "laptop"}, CreatedAt: at(0), UpdatedAt: at(0)}
		same(t, value[bool](t)(s.RegisterDevbox(ctx, d, event("devbox.register"))), true)
		d.Metadata["goos"], d.UpdatedAt = "linux", at(1)
		same(t, value[bool](t)(s.RegisterDevbox(ctx, d, event("devbox.register"))), false)
		same(t, value[[]model.Devbox](t)(s.Devboxes(ctx, org)), []model.Devbox{d})

		session := model.DevboxSession{ID: "s1", CreatedAt: at(10), RenewedAt: at(10), ValidUntil: at(70)}
		must(t, s.ClaimDevbox(ctx, org, "d1", session, event("devbox.claim")))
		bob := func(seconds int) model.Event {
			ev := event("devbox.claim")
			ev.By, ev.At = model.Principal{Kind: model.KindUser, ID: "u2"}, at(seconds)
			return ev
		}
		taken := model.DevboxSession{ID: "s2", CreatedAt: at(69), RenewedAt: at(69), ValidUntil: at(130)}
		refused(t, s.ClaimDevbox(ctx, org, "d1", taken, bob(69)), model.ErrHeld, "d1")
		refused(t, s.ReleaseDevbox(ctx, org, "d1", bob(69)), model.ErrHeld, "d1")
		must(t, s.RenewDevbox(ctx, org, "d1", "s1", at(30), at(90)))
		session.RenewedAt, session.ValidUntil = at(30), at(90)
		d.Session = &session
		same(t, value[model.Devbox](t)(s.Devbox(ctx, org, "d1")), d)
		refused(t, s.RenewDevbox(ctx, org, "d1", "s2", at(31), at(91)), model.ErrHeld, "d1")
		refused(t, s.RenewDevbox(ctx, org, "d1", "s1", at(90), at(150)), model.ErrHeld, "d1") // it has ended
		refused(t, s.RenewDevbox(ctx, org, "none", "s1", at(31), at(91)), model.ErrNotFound, "none")
		taken.CreatedAt = at(90)
		must(t, s.ClaimDevbox(ctx, org, "d1", taken, bob(90)))
		refused(t, s.RenewDevbox(ctx, org, "d1", "s1", at(91), at(151)), model.ErrHeld, "d1")
		must(t, s.ReleaseDevbox(ctx, org, "d1", bob(91)))
		must(t, s.ReleaseDevbox(ctx, org, "d1", bob(91)))
		refused(t, s.RenewDevbox(ctx, org, "d1", "s2", at(92), at(152)), model.ErrHeld, "d1")
		same(t, value[int64](t)(s.DeleteIdleDevboxes(ctx, org, at(1), event("devbox.expire"))), int64(0))
		same(t, value[int64](t)(s.DeleteIdleDevboxes(ctx, org, at(2), event("devbox.expire"))), int64(1))
		refused(t, s.DeleteDevbox(ctx, org, "d1", event("devbox.delete")), model.ErrNotFound, "d1")
	})
}

func TestEvents(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		var all []model.Event
		for i, by := range []model.Principal{ada, {Kind: model.KindServiceAccount, ID: "ci"}, ada} {
			ev := event([]string{"a.x", "a.y", "b.x"}[i])
			ev.At, ev.By = at(100+i), by
			must(t, s.Record(ctx, ev))
			all = append([]model.Event{ev}, all...)
		}
		for name, row := range map[string]struct {
			query model.EventQuery
			want  []model.Event
		}{
			"newest": {model.EventQuery{Limit: 2}, all[:2]},
			"types":  {model.EventQuery{Types: []string{"a.x", "a.y"}, Limit: 9}, all[1:]},
			"by":     {model.EventQuery{PrincipalID: "ci", Limit: 9}, all[1:2]},
			"kind":   {model.EventQuery{Kind: model.KindServiceAccount, Limit: 9}, all[1:2]},
			"time":   {model.EventQuery{From: at(101), To: at(102), Limit: 9}, all[1:2]},
			"method": {model.EventQuery{From: at(100), Method: model.MethodAPIKey, Limit: 1}, all[:1]},
		} {
			t.Run(name, func(t *testing.T) { same(t, value[[]model.Event](t)(s.Events(ctx, org, row.query)), row.want) })
		}
		same(t, len(value[[]model.Event](t)(s.Events(ctx, "other", model.EventQuery{Limit: 9}))), 0)
		same(t, value[int64](t)(s.DeleteEvents(ctx, org, at(101))), int64(4)) // three of filled, one of the others
		same(t, value[[]model.Event](t)(s.Events(ctx, org, model.EventQuery{Limit: 9})), all[:2])
	})
}

// TestPagesOfEventsEnd: a page has at most 4 MiB of data, and at least one entry.
func TestPagesOfEventsEnd(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		for i := range 6 {
			ev := event("big")
			ev.At, ev.Data = at(100+i), json.RawMessage(`{"x":"`+strings.Repeat("x", 1<<20-100)+`"}`)
			must(t, s.Record(ctx, ev))
		}
		page := value[[]model.Event](t)(s.Events(ctx, org, model.EventQuery{Types: []string{"big"}, Limit: 9}))
		if len(page) != 4 || !page[0].At.Equal(at(105)) {
			t.Errorf("the page has %d entries", len(page))
		}
	})
}

// TestPendingLoginsHaveABound.
func TestPendingLoginsHaveABound(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		login := func(i, created int) error {
			code := fmt.Sprintf("code-%d", i)
			return s.CreateDeviceLogin(ctx, model.DeviceLogin{Device: model.DigestOf(code), UserCode: code, CreatedAt: at(created), ExpiresAt: at(created + 60)})
		}
		for i := range 1000 {
			must(t, login(i, 0))
		}
		if err := login(1000, 1); !errors.Is(err, model.ErrExists) {
			t.Errorf("one more than the bound: %v", err)
		}
		must(t, login(1000, 61)) // the others have expired
	})
}

// TestEndedSessionsAreDeleted by the next session, however that begins.
func TestEndedSessionsAreDeleted(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		session := func(name string, created int) model.Session {
			return model.Session{Org: org, UserID: "u1", Access: model.DigestOf(name), Refresh: model.DigestOf("r" + name), CreatedAt: at(created), ExpiresAt: at(created + 10), RefreshBy: at(created + 20)}
		}
		must(t, s.CreateSession(ctx, session("old", 0), event("login")))
		must(t, s.CreateSession(ctx, session("used", 19), event("login")))
		must(t, s.ReplaceSession(ctx, model.DigestOf("rused"), session("new", 21), event("login")))
		if _, err := s.Session(ctx, model.DigestOf("old")); !errors.Is(err, model.ErrNotFound) {
			t.Errorf("a session that has ended: %v", err)
		}
		value[model.Session](t)(s.Session(ctx, model.DigestOf("new")))
	})
}

// TestTextsThatPostgreSQLRefuses: the same error from both databases, for reads and writes.
func TestTextsThatPostgreSQLRefuses(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		for _, text := range []string{"a\x00b", "a\xffb"} {
			if _, err := s.Sandbox(ctx, org, text); !errors.Is(err, model.ErrText) {
				t.Errorf("read of %q: %v", text, err)
			}
			if _, err := s.PutSandbox(ctx, sandbox(text), event("sandbox.apply")); !errors.Is(err, model.ErrText) {
				t.Errorf("write of %q: %v", text, err)
			}
		}
	})
}

// TestAWriteOutlivesItsRequest: a client that disconnects does not interrupt a connection to the database.
func TestAWriteOutlivesItsRequest(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s := filled(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")); !errors.Is(err, context.Canceled) {
			t.Errorf("a write of a request that has ended: %v", err)
		}
		for range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(200*time.Microsecond, cancel)
			if _, err := s.PutSandbox(ctx, sandbox("a"), event("sandbox.apply")); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
	})
}

// TestListsHaveOneOrder: a write of an object does not move it in a list, also if others were created at the same
// time.
func TestListsHaveOneOrder(t *testing.T) {
	each(t, func(t *testing.T, c store.Config) {
		s, ctx := filled(t, c), t.Context()
		for _, id := range []string{"b", "a", "c"} {
			value[bool](t)(s.RegisterDevbox(ctx, model.Devbox{Org: org, ID: id, CreatedAt: at(0), UpdatedAt: at(0)}, event("devbox.register")))
			must(t, s.CreateClusterToken(ctx, model.ClusterToken{Org: org, Cluster: "demo", ID: id, Digest: model.DigestOf(id), CreatedAt: at(0)}, event("token.create")))
			must(t, s.Used(ctx, "b", at(9), ""))
		}
		all := ""
		for _, d := range value[[]model.Devbox](t)(s.Devboxes(ctx, org)) {
			all += d.ID
		}
		for _, k := range value[[]model.ClusterToken](t)(s.ClusterTokens(ctx, org, "demo")) {
			all += k.ID
		}
		same(t, all, "abcabc")
	})
}

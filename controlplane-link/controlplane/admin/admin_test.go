package admin_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/controlplane-link/controlplane/admin"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
)

const org = "default"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// server is the store of a server, which serves commands.
func server(t *testing.T) *store.Store {
	t.Helper()
	dir := t.TempDir()
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	must(t, err)
	s, err := store.Open(t.Context(), store.Config{Path: filepath.Join(dir, "store.db"), Keys: keys})
	must(t, err)
	must(t, admin.First(t.Context(), s, org, gives("")))
	socket := filepath.Join(dir, "admin.sock")
	t.Setenv("CONTROLPLANE_SOCKET", socket)
	if _, err := run(t, "reseal"); err == nil || !strings.Contains(err.Error(), "run the command in its container") {
		t.Errorf("without a server: %v", err)
	}
	must(t, os.WriteFile(socket, nil, 0o600)) // of a server that was killed
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- admin.Server{Store: s, Adopt: func(_ context.Context, org, cluster string, dry bool) (string, error) {
			if cluster == "away" {
				return "", errors.New("cluster away: is not connected")
			}
			return fmt.Sprintf("%s %s %t\n", org, cluster, dry), nil
		}}.Serve(ctx, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		silent, err := (&net.Dialer{}).DialContext(context.Background(), "unix", socket)
		must(t, err)
		defer silent.Close()
		stop()
		must(t, <-ended)
		must(t, s.Close())
	})
	wait.Eventually(t, 5*time.Minute, "a server", func() error {
		_, err := run(t, "organisation", "list")
		return err
	})
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	return s
}

// run runs a command, and returns its output.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	must(t, err)
	defer out.Close()
	failed := admin.Run(t.Context(), args, out)
	text, err := os.ReadFile(out.Name())
	must(t, err)
	return string(text), failed
}

// terminal returns a terminal, and the file from which its output is read.
func terminal(t *testing.T) (tty, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { must(t, screen.Close()) })
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	must(t, err)
	must(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	t.Cleanup(func() { must(t, tty.Close()) })
	return tty, screen
}

// A key is written to a terminal, or to a new file that its owner only can read, and nowhere else. The server
// is running.
func TestAdminCreate(t *testing.T) {
	s := server(t)
	if out, err := run(t, "admin", "create"); err == nil || !strings.Contains(err.Error(), "is no terminal") || out != "" {
		t.Errorf("%q, %v", out, err)
	}
	if users, err := s.Users(t.Context(), org); err != nil || len(users) != 0 {
		t.Errorf("a refused command has created %v (%v)", users, err)
	}
	tty, screen := terminal(t)
	must(t, admin.Run(t.Context(), []string{"admin", "create"}, tty))
	line := make([]byte, 200)
	n, err := screen.Read(line)
	must(t, err)
	caller, err := s.CallerOf(t.Context(), model.DigestOf(strings.TrimSpace(string(line[:n]))))
	if err != nil || caller.Role != model.RoleAdmin || caller.Org != org || caller.Principal.Name != "admin" {
		t.Errorf("%q: %+v, %v", line[:n], caller, err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if out, err := run(t, "admin", "create", "--out", file); err != nil || out != "" {
		t.Errorf("%q, %v", out, err)
	}
	key, err := os.ReadFile(file)
	must(t, err)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if caller, err = s.CallerOf(t.Context(), model.DigestOf(strings.TrimSpace(string(key)))); err != nil || caller.Principal.ID != "admin-default" {
		t.Errorf("%+v, %v", caller, err)
	}
	if _, err := run(t, "admin", "create", "--out", file); !errors.Is(err, os.ErrExist) {
		t.Errorf("a file was overwritten: %v", err)
	}
	none := filepath.Join(t.TempDir(), "key")
	if _, err := run(t, "admin", "create", "--organisation", "none", "--out", none); err == nil || err.Error() != `organisation "none": not found` {
		t.Errorf("an organisation that does not exist: %v", err)
	}
	if _, err := os.Stat(none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file without a key is left: %v", err)
	}
	all, err := s.Events(t.Context(), org, model.EventQuery{Types: []string{"apiKey.create"}, Kind: model.KindSystem, Limit: 9})
	if err != nil || len(all) != 2 || strings.Contains(string(all[0].Data), strings.TrimSpace(string(key))) {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestCommands(t *testing.T) {
	s := server(t)
	backup := filepath.Join(t.TempDir(), "backup.db")
	for _, row := range []struct{ args, want, failed string }{
		{"organisation create other", "", ""},
		{"organisation create other", "", "already exists"},
		{"organisation create a:b", "", "the name of the organisation is not valid"},
		{"organisation list", "default\nother\n", ""},
		{"admin create --organisation other --out " + filepath.Join(t.TempDir(), "key"), "", ""},
		{"user list --organisation other", "admin-other admin admin\n", ""},
		{"user list", "", ""},
		{"user delete admin-other", "", "not found"},
		{"user delete --organisation other admin-other", "", ""},
		{"user list --organisation other", "", ""},
		{"adopt demo", "default demo false\n", ""},
		{"adopt --dry-run --organisation other demo", "other demo true\n", ""},
		{"adopt away", "", "cluster away: is not connected"},
		{"reseal", "default: 0 secrets\nother: 0 secrets\n", ""},
		{"backup " + backup, "", ""},
		{"backup " + backup, "", "exists"},
		{"adopt", "", "usage: adopt CLUSTER"},
		{"adopt demo --organisation other", "", "flags before the argument"},
		{"reseal all", "", "usage: reseal"},
		{"reseal --all", "", "not defined"},
		{"organisation", "", "use admin create, adopt CLUSTER, backup PATH"},
		{"serve", "", `there is no command "serve"`},
	} {
		out, err := run(t, strings.Fields(row.args)...)
		if out != row.want || (err == nil) != (row.failed == "") || err != nil && !strings.Contains(err.Error(), row.failed) {
			t.Errorf("%s: %q, %v", row.args, out, err)
		}
	}
	if _, err := os.Stat(backup); err != nil {
		t.Error(err)
	}
	all, err := s.Events(t.Context(), "other", model.EventQuery{Types: []string{"store.backup"}, Limit: 9})
	if err != nil || len(all) != 1 || string(all[0].Data) != fmt.Sprintf(`{"path":%q}`, backup) {
		t.Errorf("the audit trail has %+v, %v", all, err)
	}
	must(t, admin.First(t.Context(), s, org, gives("")))
	for args, want := range map[string]bool{"": false, "--store x": false, "adopt x": true, "serve": true} {
		if got := admin.Is(strings.Fields(args)); got != want {
			t.Errorf("%q: %t", args, got)
		}
	}
}

// gives returns a function that returns a key.
func gives(key string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return key, nil }
}

// The first administrator has a key, once: neither a restart nor another key changes it.
func TestTheFirstAdministrator(t *testing.T) {
	s, ctx := server(t), t.Context()
	must(t, admin.First(ctx, s, org, gives(""))) // the Secret was deleted
	if err := admin.First(ctx, s, org, gives("short")); err == nil || !strings.Contains(err.Error(), "has 5 characters") {
		t.Error(err)
	}
	if err := admin.First(ctx, s, org, func(context.Context) (string, error) { return "", io.ErrUnexpectedEOF }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	key := strings.Repeat("k", 43)
	// A process that has ended between the two writes has left a user without a key.
	must(t, s.PutUser(ctx, model.User{Org: org, ID: "admin-default", Email: "admin", Role: model.RoleAdmin}, model.Event{ID: "user"}))
	for range 2 {
		must(t, admin.First(ctx, s, org, gives(key)))
	}
	must(t, admin.First(ctx, s, org, gives(strings.Repeat("x", 43))))
	if c, err := s.CallerOf(ctx, model.DigestOf(key)); err != nil || c.Role != model.RoleAdmin {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := s.CallerOf(ctx, model.DigestOf(strings.Repeat("x", 43))); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("another key: %v", err)
	}

	var deleted atomic.Int32
	failures := []error{io.ErrUnexpectedEOF}
	ended := make(chan error, 1)
	go func() {
		ended <- admin.Handover(ctx, s, org, first{key, func() error {
			if deleted.Add(1); len(failures) > 0 {
				err := failures[0]
				failures = nil
				return err
			}
			return nil
		}}, slog.New(slog.DiscardHandler))
	}()
	select {
	case err := <-ended:
		t.Fatalf("handed over before a login: %v", err)
	case <-time.After(100 * time.Millisecond): // it has read the store, or does so after this
	}
	if deleted.Load() > 0 {
		t.Error("the key was removed before a login")
	}
	keys, err := s.APIKeys(ctx, org, model.Principal{Kind: model.KindUser, ID: "admin-default"})
	must(t, err)
	must(t, s.Used(ctx, keys[0].ID, time.Now(), "192.0.2.1"))
	wait.Eventually(t, 5*time.Minute, "the end of the handover", func() error {
		select {
		case err := <-ended:
			return err
		default:
			return errors.New("it continues")
		}
	})
	if n := deleted.Load(); n != 2 {
		t.Errorf("deleted %d times", n)
	}
	if _, err := s.CallerOf(ctx, model.DigestOf(key)); err != nil {
		t.Errorf("the key that was used: %v", err)
	}
}

// first is the key of the first administrator.
type first struct {
	key    string
	remove func() error
}

func (f first) Key(context.Context) (string, error) { return f.key, nil }
func (f first) Delete(context.Context) error        { return f.remove() }

// A login at the issuer ends the handover, too; one of a member does not. The key, which was not used, ends with it.
func TestAHandoverByALogin(t *testing.T) {
	s := server(t)
	key := strings.Repeat("k", 43)
	must(t, admin.First(t.Context(), s, org, gives(key)))
	put := func(id string, role model.Role) {
		must(t, s.PutUser(t.Context(), model.User{Org: org, ID: id, Subject: id, Email: id, Role: role}, model.Event{ID: id}))
	}
	put("member", model.RoleMember)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	must(t, admin.Handover(ctx, s, org, first{key, func() error {
		t.Error("handed over to a member")
		return nil
	}}, slog.New(slog.DiscardHandler)))
	if _, err := s.CallerOf(t.Context(), model.DigestOf(key)); err != nil {
		t.Errorf("the key before the handover: %v", err)
	}
	put("admin", model.RoleAdmin)
	deleted := false
	must(t, admin.Handover(t.Context(), s, org, first{key, func() error {
		deleted = true
		return nil
	}}, slog.New(slog.DiscardHandler)))
	if !deleted {
		t.Error("not deleted")
	}
	if _, err := s.CallerOf(t.Context(), model.DigestOf(key)); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("the key after the handover: %v", err)
	}
	must(t, admin.First(t.Context(), s, org, gives(key)))
	if _, err := s.CallerOf(t.Context(), model.DigestOf(key)); !errors.Is(err, model.ErrNotFound) {
		t.Errorf("the key after another start: %v", err)
	}
}

// The Secret gets a key once, also from several replicas, and is deleted; nothing creates it again.
func TestTheSecret(t *testing.T) {
	w := world.New(t)
	ns := w.NewNamespace("controlplane")
	o := admin.Secret{Cluster: w.Access().Config(), Namespace: ns, Name: "controlplane-admin"}
	if key, err := o.Key(t.Context()); key != "" || err != nil {
		t.Errorf("without a Secret: %q, %v", key, err)
	}
	for _, name := range []string{"controlplane-admin", "other"} {
		w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}})
	}
	keys := make(chan string, 4)
	for range cap(keys) {
		go func() {
			key, err := o.Key(t.Context())
			if err != nil {
				t.Error(err)
			}
			keys <- key
		}()
	}
	first := <-keys
	for range cap(keys) - 1 {
		if key := <-keys; key != first || len(key) < 43 {
			t.Errorf("the keys %q and %q", first, key)
		}
	}
	for range 2 {
		must(t, o.Delete(t.Context()))
	}
	if key, err := o.Key(t.Context()); key != "" || err != nil {
		t.Errorf("after its deletion: %q, %v", key, err)
	}
	var all corev1.SecretList
	must(t, w.Client.List(t.Context(), &all, client.InNamespace(ns)))
	if len(all.Items) != 1 || all.Items[0].Name != "other" {
		t.Errorf("%+v", all.Items)
	}
}

package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/logtest"
	"switchyard.dev/eventbus/server"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
)

func TestMain(m *testing.M) { world.Main(m) }

// cut cuts the wire from the bus to the API server.
var cut atomic.Bool

// program is the program of the bus, running in this process.
type program struct {
	store, url, health, metrics string
	log                         *background.Output
	ended                       chan error
	end                         func()
}

func start(t *testing.T, namespace string) *program {
	t.Helper()
	return startOn(t, namespace, filepath.Join(t.TempDir(), "store"))
}

func startOn(t *testing.T, namespace, store string, more ...string) *program {
	t.Helper()
	p := &program{store: store, log: &background.Output{}, ended: make(chan error, 1)}
	settings, err := server.ParseSettings(append([]string{
		"--store", p.store, "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--metrics", "127.0.0.1:0",
		"--writer-service-account", namespace + "/writer", "--follower-service-account", namespace + "/reader," + namespace + "/other",
	}, more...), unset, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	config := world.Shared(t).As("")
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if cut.Load() {
				return nil, errors.New("the wire is cut")
			}
			return next.RoundTrip(r)
		})
	})
	s, err := server.Start(server.Config{
		Settings: settings, Reviews: kubernetes.NewForConfigOrDie(config).AuthenticationV1().TokenReviews(),
		Logger: slog.New(slog.NewJSONHandler(p.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	bus, health, metrics := s.Addresses()
	p.url, p.health, p.metrics = "nats://"+bus.String(), "http://"+health.String(), "http://"+metrics.String()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		p.ended <- s.Run(ctx)
		s.Close()
		close(p.ended)
	}()
	p.end = func() {
		cancel()
		for range p.ended {
		}
	}
	t.Cleanup(p.end)
	return p
}

// namespace makes a namespace with the service accounts.
func namespace(t *testing.T) string {
	t.Helper()
	w := world.Shared(t)
	ns := w.NewNamespace("bus")
	w.Accounts(ns, "writer", "reader", "stranger")
	return ns
}

// tokenFile holds a token of a service account, for the bus.
func tokenFile(t *testing.T, namespace, account string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	token := world.Shared(t).Token(namespace, account, "eventbus.signadot.svc", nil)
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func open(t *testing.T, p *program, role connect.Role, token string) (*jetstream.Log, *nats.Conn) {
	t.Helper()
	log, conn, err := connect.Open(connect.Config{URL: p.url, Role: role, TokenFile: token, Name: t.Name(), Logger: slog.New(slog.DiscardHandler)}, jetstream.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return log, conn
}

// await waits for a condition.
var await = wait.Holds

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestServiceAccountsWriteAndFollow(t *testing.T) {
	ns := namespace(t)
	p := start(t, ns)
	writer, conn := open(t, p, connect.Writer, tokenFile(t, ns, "writer"))
	await(t, "the writer is connected", conn.IsConnected)
	if _, err := writer.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	pos, err := writer.Append(t.Context(), logtest.Fact("a", 1), 0)
	if err != nil {
		t.Fatal(err)
	}
	reader, conn := open(t, p, connect.Follower, tokenFile(t, ns, "reader"))
	await(t, "the follower is connected", conn.IsConnected)
	if tip, err := reader.Tip(t.Context()); err != nil || tip != pos.Pos {
		t.Errorf("the follower sees %v, %v", tip, err)
	}
	for url, want := range map[string]string{
		p.health + "/healthz":  "ok",
		p.health + "/readyz":   "ok",
		p.metrics + "/metrics": "switchyard_eventbus_last_sequence 1\n",
	} {
		if code, text := get(t, url); code != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d without %q", url, code, want)
		}
	}
	_, text := get(t, p.metrics+"/metrics")
	for _, want := range []string{"events 1", "connections 2", "synced 1", "ready 1"} {
		if !strings.Contains(text, "switchyard_eventbus_"+want+"\n") {
			t.Errorf("the metrics lack %q", want)
		}
	}
}

func TestOtherClientsAreRefusedAndLogged(t *testing.T) {
	ns := namespace(t)
	p := start(t, ns)
	_, stranger := open(t, p, connect.Follower, tokenFile(t, ns, "stranger"))
	await(t, "the stranger is refused", func() bool { return p.log.Says("service account " + ns + "/stranger may neither write nor follow") })
	_, impostor := open(t, p, connect.Writer, tokenFile(t, ns, "reader"))
	await(t, "the follower that wants to write is let in as a follower", impostor.IsConnected)
	log, err := jetstream.New(jetstream.Config{Conn: impostor})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := log.Begin(ctx, event.Mark{}); err == nil {
		t.Error("a follower began a log")
	}
	if stranger.IsConnected() {
		t.Error("the stranger got in")
	}
}

func TestWithoutTheAPIServerOldConnectionsLiveOnAndNewOnesWait(t *testing.T) {
	ns := namespace(t)
	p := start(t, ns)
	writer, conn := open(t, p, connect.Writer, tokenFile(t, ns, "writer"))
	await(t, "the writer is connected", conn.IsConnected)
	if _, err := writer.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	token := tokenFile(t, ns, "reader")
	cut.Store(true)
	t.Cleanup(func() { cut.Store(false) })
	_, reader := open(t, p, connect.Follower, token)
	await(t, "the follower is refused for now", func() bool { return p.log.Says("the token could not be checked") })
	if _, err := writer.Append(t.Context(), logtest.Fact("a", 1), 0); err != nil || reader.IsConnected() {
		t.Errorf("the writer that was in gets %v, the new follower is in: %v", err, reader.IsConnected())
	}
	cut.Store(false)
	await(t, "the follower is in once the API server is back", reader.IsConnected)
}

func TestAStoreThatIsTakenAwayIsReplacedAndTheProgramLives(t *testing.T) {
	ns := namespace(t)
	p := start(t, ns)
	writer, conn := open(t, p, connect.Writer, tokenFile(t, ns, "writer"))
	await(t, "the writer is connected", conn.IsConnected)
	first, err := writer.Begin(t.Context(), event.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(p.store); err != nil {
		t.Fatal(err)
	}
	await(t, "it has said that the store is gone", func() bool { return p.log.Says(embedded.ErrStoreGone.Error()) })
	await(t, "it is ready again", func() bool {
		code, _ := get(t, p.health+"/readyz")
		return code == http.StatusOK && conn.IsConnected()
	})
	if second, err := writer.Begin(t.Context(), first); err != nil || second.Epoch == first.Epoch {
		t.Errorf("on the new store the log begins at %v, %v; before it was %v", second, err, first)
	}
	if _, text := get(t, p.metrics+"/metrics"); !strings.Contains(text, "switchyard_eventbus_store_healed_total 1\n") {
		t.Error("the metrics do not tell that the store was opened again")
	}
}

func TestADamagedStoreIsMovedAsideAndCounted(t *testing.T) {
	ns := namespace(t)
	store := filepath.Join(t.TempDir(), "store")
	p := startOn(t, ns, store)
	writer, conn := open(t, p, connect.Writer, tokenFile(t, ns, "writer"))
	await(t, "the writer is connected", conn.IsConnected)
	if _, err := writer.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	p.end()
	if err := os.RemoveAll(filepath.Join(store, "jetstream")); err != nil {
		t.Fatal(err)
	}
	p = startOn(t, ns, store)
	if code, _ := get(t, p.health+"/readyz"); code != http.StatusOK || !p.log.Says("moved aside") {
		t.Errorf("ready: %d; the log tells of the damage: %v", code, p.log.Says("moved aside"))
	}
	_, text := get(t, p.metrics+"/metrics")
	for _, want := range []string{
		`stores_moved_aside_total{damage="missing"} 1`, `stores_moved_aside_total{damage="altered"} 0`,
		`last_store_moved_aside_timestamp_seconds{damage="missing"} `,
	} {
		if !strings.Contains(text, "switchyard_eventbus_"+want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
}

func TestAPortInUseIsReported(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, flag := range []string{"--listen", "--health", "--metrics"} {
		args := []string{"--store", t.TempDir(), "--listen", "127.0.0.1:0", "--health", "127.0.0.1:0", "--metrics", "127.0.0.1:0"}
		settings, err := server.ParseSettings(append(args, flag, taken.Addr().String()), unset, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		s, err := server.Start(server.Config{Settings: settings, Reviews: world.Shared(t).Kube.AuthenticationV1().TokenReviews(), Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			s.Close()
			t.Errorf("%s on a port that is taken: no error", flag)
		}
	}
}

// unset is an environment without variables.
func unset(string) string { return "" }

// A new installation refuses clients without TLS, and one of an earlier chart accepts them until the
// flag is false.
func TestAnEarlierInstallationAcceptsPlainClients(t *testing.T) {
	for _, c := range []struct {
		defaults string
		args     []string
		want     bool
	}{
		{"", nil, false}, {"2", nil, false}, {"1", nil, true},
		{"2", []string{"--accept-plain"}, true}, {"1", []string{"--accept-plain=false"}, false},
	} {
		got, err := server.ParseSettings(append([]string{"--store=/data", "--tls-dir=/tls"}, c.args...), func(string) string { return c.defaults }, io.Discard)
		if err != nil || got.AcceptPlain != c.want {
			t.Errorf("defaults %q, %q: %t, %v", c.defaults, c.args, got.AcceptPlain, err)
		}
	}
	if _, err := server.ParseSettings([]string{"--store=/data"}, func(string) string { return "9" }, io.Discard); err == nil {
		t.Error("defaults of a later release are read")
	}
}

func TestSettings(t *testing.T) {
	got, err := server.ParseSettings([]string{"--store=/data"}, unset, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	want := server.Settings{
		AcceptPlain: true, StoreDir: "/data", Listen: ":4222", Health: ":8081", Metrics: ":9090", Audience: "eventbus.signadot.svc",
		Writers: []string{"signadot/signadot-controller-manager"}, Followers: []string{"signadot/routeserver"}, MaxStore: 700 << 20,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("defaults are %v, want %v", got, want)
	}
	for _, args := range [][]string{
		{}, {"--store"}, {"--store=/data", "more"}, {"--store=/data", "--writer-service-account=manager"},
		{"--store=/data", "--follower-service-account=a/b/c"}, {"--store=/data", "--max-store=much"}, {"--store=/data", "--log-level=loud"},
		{"--store=/data", "--accept-plain=false"},
	} {
		if _, err := server.ParseSettings(args, unset, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

package server_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routesv1 "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tests/conformance/served"
)

func TestOneFactReachesEveryPort(t *testing.T) {
	log := memory.New()
	parts := make(chan string, 1)
	m := run(t, server.Config{Log: log, Parts: []server.Part{func(ctx context.Context, v *view.View) error {
		got, err := v.WaitWhole(ctx)
		if err != nil {
			return nil
		}
		for r := range got.All() {
			parts <- r.Sandbox
		}
		<-ctx.Done()
		return nil
	}}})
	state(t, log, rule()...)
	servesTheRule(t, m)
	if got := <-parts; got != "sb1" {
		t.Errorf("the other part saw %q", got)
	}
	for _, want := range []string{"switchyard_view_rules 1", "switchyard_view_whole 1", `switchyard_routeserver_connections_closed_total{listener="grpc"} 0`, "switchyard_routes_watchers 0"} {
		if status, body := get(t, "http://"+m.MetricsAddress()+"/metrics"); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("metrics: %d, without %q", status, want)
		}
	}
}

// follows returns the configuration of a route server that follows a bus, from flags as in
// the cluster.
func follows(t *testing.T, bus *embedded.Server, tokenFile string) server.Config {
	t.Helper()
	settings, err := server.ParseSettings([]string{
		"-eventbus-url", "nats://" + bus.Addr().String(), "-eventbus-token-file", tokenFile,
		"-grpc-address", "127.0.0.1:0", "-rest-address", "127.0.0.1:0", "-metrics-address", "127.0.0.1:0",
	}, func(string) string { return "" }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	cfg, hangUp, err := settings.Open(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hangUp)
	return cfg
}

// The program as it runs in the cluster, except for who checks tokens: settings
// from flags, a bus behind a port, a token file.
func TestFollowsABusAndOutlivesIt(t *testing.T) {
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("follow"), 0o600); err != nil {
		t.Fatal(err)
	}
	bus, err := embedded.Start(embedded.Config{
		StoreDir: filepath.Join(dir, "store"), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(_ context.Context, token string) (connect.Role, error) {
			if token != "follow" {
				return 0, errors.New("who is that?")
			}
			return connect.Follower, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	cfg := follows(t, bus, token)
	m := run(t, cfg)

	writer, err := bus.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	log, err := jetstream.New(jetstream.Config{Conn: writer})
	if err != nil {
		t.Fatal(err)
	}
	state(t, log, rule()...)
	servesTheRule(t, m)
	bus.Close()
	servesTheRule(t, m)
}

func TestAPartThatFailsEndsTheServer(t *testing.T) {
	broken := errors.New("broken")
	m, err := server.New(local(server.Config{Log: memory.New(), Parts: []server.Part{
		func(context.Context, *view.View) error { return broken },
	}}))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Run ended with %v", err)
	}
}

func TestAnAddressThatIsTakenIsAnErrorAtOnce(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg := local(server.Config{Log: memory.New()})
	cfg.RESTAddress = taken.Addr().String()
	if _, err := server.New(cfg); err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("got %v", err)
	}
}

func TestABadConfigIsRefused(t *testing.T) {
	for name, cfg := range map[string]server.Config{"no log": {}, "fewer than no connections": {Log: memory.New(), MaxConnections: -1}} {
		if _, err := server.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestSettings(t *testing.T) {
	env := map[string]string{"EVENTBUS_URL": "nats://bus:4222", "POD_NAME": "routeserver-1"}
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want func(server.Settings) bool
		err  string
	}{
		"the defaults": {want: func(s server.Settings) bool {
			return s.Bus.URL == "nats://eventbus.signadot.svc:4222" && s.Bus.TokenFile == "/var/run/secrets/tokens/eventbus" && s.Bus.Role == connect.Follower &&
				s.GRPCAddress == ":7777" && s.RESTAddress == ":7778" && s.XDSAddress == ":7779" && s.MetricsAddress == ":9090" && s.LogLevel == slog.LevelInfo
		}},
		"the environment": {env: env, want: func(s server.Settings) bool {
			return s.Bus.URL == "nats://bus:4222" && s.Bus.Name == "routeserver-1"
		}},
		"flags come before the environment": {env: env, args: []string{"-eventbus-url=nats://other:1", "-log-level=debug"}, want: func(s server.Settings) bool {
			return s.Bus.URL == "nats://other:1" && s.LogLevel == slog.LevelDebug
		}},
		"credentials replace the default token": {args: []string{"-eventbus-credentials-file=x"}, want: func(s server.Settings) bool {
			return s.Bus.CredentialsFile == "x" && s.Bus.TokenFile == ""
		}},
		"so does a certificate of one's own": {args: []string{"-eventbus-cert-file=x", "-eventbus-key-file=y"}, want: func(s server.Settings) bool {
			return s.Bus.CertFile == "x" && s.Bus.KeyFile == "y" && s.Bus.TokenFile == ""
		}},
		"a new installation refuses sidecars without TLS": {args: []string{"-tls-dir=/tls"}, want: func(s server.Settings) bool { return !s.AcceptPlain }},
		"an installation of an earlier chart accepts them": {args: []string{"-tls-dir=/tls"}, env: map[string]string{"SWITCHYARD_DEFAULTS": "1"},
			want: func(s server.Settings) bool { return s.AcceptPlain }},
		"until a flag refuses them": {args: []string{"-tls-dir=/tls", "-accept-plain=false"}, env: map[string]string{"SWITCHYARD_DEFAULTS": "1"},
			want: func(s server.Settings) bool { return !s.AcceptPlain }},
		"without a certificate there is plain alone": {want: func(s server.Settings) bool { return s.AcceptPlain }},
		"peers, and which one this is": {env: map[string]string{"POD_IPS": "10.0.0.1,fd00::1"}, args: []string{"-peers=routeserver-peers.signadot.svc:7777"}, want: func(s server.Settings) bool {
			return s.Peers == "routeserver-peers.signadot.svc:7777" && slices.Equal(s.Own, []string{"10.0.0.1", "fd00::1"}) && s.Name == "routeserver"
		}},
		"accounts of the operator": {want: func(s server.Settings) bool {
			return slices.Equal(s.OwnAccounts, []string{"signadot/signadot-controller-manager", "signadot/routeserver"}) && s.TokenFile == "/var/run/secrets/routeserver/token"
		}},
		"what strangers are answered": {args: []string{"-anonymous=namespace"}, want: func(s server.Settings) bool {
			return s.Anonymous == door.Namespace
		}},
		"strangers who are answered something else": {args: []string{"-anonymous=pod"}, err: `"pod" is none of cluster, namespace, none`},
		"an account that is none":                   {args: []string{"-own-service-accounts=a/b,c"}, err: `"c" is not like namespace/name`},
		"peers of nobody":                           {args: []string{"-peers=routeserver-peers.signadot.svc:7777"}, err: "POD_IPS"},
		"credentials and a token":                   {args: []string{"-eventbus-credentials-file=x", "-eventbus-token-file=y"}, err: "one identity"},
		"an argument":                               {args: []string{"serve"}, err: `unexpected argument "serve"`},
		"a URL that is none":                        {args: []string{"-eventbus-url=bus"}, err: "not like nats://host:4222"},
		"a level that is none":                      {args: []string{"-log-level=loud"}, err: "loud"},
		"a question for the usage":                  {args: []string{"-help"}, err: flag.ErrHelp.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := server.ParseSettings(c.args, func(k string) string { return c.env[k] }, io.Discard)
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want one with %q", err, c.err)
				}
			case err != nil:
				t.Error(err)
			case !c.want(got):
				t.Errorf("got %+v", got)
			}
		})
	}
}

func local(cfg server.Config) server.Config {
	cfg.GRPCAddress, cfg.RESTAddress, cfg.MetricsAddress = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	return cfg
}

func run(t *testing.T, cfg server.Config) *server.Main {
	t.Helper()
	m, _ := served.Run(t, local(cfg))
	return m
}

// servesTheRule waits until both APIs give the rule.
func servesTheRule(t *testing.T, m *server.Main) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := m.View().WaitWhole(ctx); err != nil {
		t.Fatal("the table never is whole")
	}
	if status, body := get(t, "http://"+m.RESTAddress()+"/api/v1/workloads/routing-rules"); status != http.StatusOK || !strings.Contains(body, `"routingKey":"k1"`) {
		t.Errorf("REST: %d %s", status, body)
	}
	conn, err := grpc.NewClient("passthrough:"+m.GRPCAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := routesv1.NewRoutesClient(conn).GetWorkloadRoutingRules(ctx, &routesv1.WorkloadRoutingRulesRequest{})
	if err != nil || len(got.GetRoutingRules()) != 1 {
		t.Errorf("gRPC: %v, %v", got, err)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func state(t *testing.T, log eventbus.Log, facts ...event.Fact) {
	t.Helper()
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		if _, err := log.Append(t.Context(), f, 0); err != nil {
			t.Fatal(err)
		}
	}
}

func fact(key event.Key, data proto.Message) event.Fact {
	return event.Fact{Key: key, Time: time.Unix(1, 0), Data: data}
}

// rule returns the facts of one rule, for key k1 and sandbox sb1.
func rule() []event.Fact {
	return []event.Fact{
		fact(event.RoutingKey("k1"), &factv1.RoutingDeclared{RoutingKey: "k1", Members: []*factv1.Member{
			{Kind: "ForkedWorkload", Namespace: "ns", Name: "w1", Sandbox: "sb1"},
		}}),
		fact(event.Workload("ForkedWorkload", "ns", "w1"), &factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "ns", Name: "w1", Uid: "u"},
			Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "ns", Name: "customer"},
		}),
		fact(event.Log, &factv1.Complete{Reason: "first"}),
	}
}

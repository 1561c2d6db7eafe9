package proxy_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"

	"switchyard.dev/tests/background"
	"switchyard.dev/tests/sweep/workflows/ledger"
	"switchyard.dev/tools/apps"
	"switchyard.dev/tools/samples"
	"switchyard.dev/tunnels/relay"
	"switchyard.dev/tunnels/workstation/loopback"
	"switchyard.dev/tunnels/workstation/reconnect"
)

// stock also runs clients that have to be compiled or fetched first.
var stock = flag.Bool("stock", false, "run psql and grpcurl too, which are compiled or fetched the first time")

func needsStock(t *testing.T) {
	t.Helper()
	if !*stock {
		t.Skip("clients that are compiled or fetched first are not run here: make clients-tunnels")
	}
}

// service represents a Service of the cluster: an address that tunnels may reach, and behind it
// one of this machine's. It returns its port.
func (s *site) service(t *testing.T, behind string) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(s.backend.String(), "0"))
	s.Must(err)
	t.Cleanup(func() { _ = l.Close() })
	go background.Accept(l, func(c net.Conn) {
		if there, err := net.Dial("tcp", behind); err == nil {
			relay.Pipe(relay.Of(c), relay.Of(there))
		}
	})
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// brought makes a workstation serve a port of a workload at an address of its own, and returns
// the address at the proxy that the manager receives.
func (s *site) brought(t *testing.T, port int32, local string) string {
	t.Helper()
	x := s.sandbox("stock", "ada", port)
	w := s.workstation(t, "ada")
	go w.Follow(t.Context(), asks{{Tunnel: reconnect.Tunnel{Namespace: x.Namespace, Name: x.Name}, Locals: map[int32]string{port: local}, Connected: true}})
	return place(t, s.manage().tunnel(x, connected), port)
}

// TestStockPsql has psql ask a PostgreSQL server, through the tunnel both ways.
func TestStockPsql(t *testing.T) {
	needsStock(t)
	system, err := samples.System(t.Context(), "/mnt")
	if err != nil {
		t.Fatal(err)
	}
	server, err := ledger.Start(t.Context(), system, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	at := net.JoinHostPort("127.0.0.1", server.Env()["PGPORT"])
	s := newSite(t)
	s.lists("ada")
	port := s.service(t, at)
	s.names.known = map[string][]string{"db.shop": {s.backend.String()}}
	w := s.workstation(t, "ada")
	mapped := func(host string) string {
		m, err := loopback.ParseMapping(fmt.Sprintf("tcp://%s:%d@localhost:5432", host, port))
		s.Must(err)
		return s.way(t, func(ctx context.Context, l net.Listener) error {
			return loopback.ServeMapping(ctx, l, m, loopback.Web{Open: w.Open})
		})
	}
	for what, through := range map[string]string{"into the cluster": mapped("db.shop"), "to the workstation": s.brought(t, 5432, at)} {
		asks := func(query string) string {
			t.Helper()
			text, err := server.Ask(map[string]string{"PGPORT": portOf(through), "PGCONNECT_TIMEOUT": "30"}, query)
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			return strings.TrimSpace(text)
		}
		if v := asks("SHOW server_version"); !strings.HasPrefix(v, "15.") {
			t.Errorf("%s: the server's version is %q", what, v)
		}
		if rows := strings.Count(asks("SELECT repeat('x', 100) FROM generate_series(1, 50000)"), "x"); rows != 100*50000 {
			t.Errorf("%s: of five million letters come %d", what, rows)
		}
		if n := asks("SELECT length('" + strings.Repeat("y", 100_000) + "')"); n != "100000" {
			t.Errorf("%s: of 100,000 letters go %s", what, n)
		}
		if text, err := server.Ask(map[string]string{"PGPORT": portOf(through), "PGCONNECT_TIMEOUT": "30"}, "SELECT 1/0"); err == nil || !strings.Contains(err.Error(), "division by zero") {
			t.Errorf("%s: an error of the server is %q, %v", what, text, err)
		}
	}
	if text, err := server.Ask(map[string]string{"PGPORT": portOf(mapped("nothing.shop")), "PGCONNECT_TIMEOUT": "30"}, "SELECT 1"); err == nil || !strings.Contains(err.Error(), "closed the connection") {
		t.Errorf("a name that is not there: %q, %v", text, err)
	}
	s.Eventually("all are recorded", func() error {
		// psql makes one connection for each question: four each way.
		if first, last := s.recorded(); len(first) != 8 || len(last) != 8 {
			return fmt.Errorf("%d first records, %d last ones", len(first), len(last))
		}
		return nil
	})
}

// greeter is a server of gRPC with reflection that records the routing key of requests.
func greeter(t *testing.T, at string) (address string, key func() string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(at, "0"))
	if err != nil {
		t.Fatal(err)
	}
	keys := make(chan string, 1)
	server := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		select {
		case keys <- strings.Join(md.Get("baggage"), " "):
		default:
		}
		return next(ctx, r)
	}))
	healthv1.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return l.Addr().String(), func() string {
		select {
		case k := <-keys:
			return k
		default:
			return "no request"
		}
	}
}

// TestStockGrpcurl lists the services of a server with grpcurl, and calls it, through the tunnel
// in both directions.
func TestStockGrpcurl(t *testing.T) {
	needsStock(t)
	folder, err := apps.Clients(t.Context(), "../..")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t)
	s.lists("ada")
	inside, key := greeter(t, s.backend.String())
	local, localKey := greeter(t, "127.0.0.1")
	port := portOf(inside)
	s.names.known = map[string][]string{"greeter.shop": {s.backend.String()}}
	w := s.workstation(t, "ada")
	web := loopback.Web{Open: w.Open, Keyed: func(h http.Header) { h.Set("baggage", "sd-routing-key=mine") }}
	proxy := s.way(t, func(ctx context.Context, l net.Listener) error { return loopback.ServeProxy(ctx, l, web) })
	m, err := loopback.ParseMapping("grpc://greeter.shop:" + port + "@localhost:9000")
	s.Must(err)
	mapped := s.way(t, func(ctx context.Context, l net.Listener) error { return loopback.ServeMapping(ctx, l, m, web) })
	for what, c := range map[string]struct {
		env, at string
		key     func() string
		want    string
	}{
		"by CONNECT":         {"HTTPS_PROXY=http://" + proxy, "greeter.shop:" + port, key, ""},
		"by a mapped port":   {"HTTPS_PROXY=", mapped, key, "sd-routing-key=mine"},
		"to the workstation": {"HTTPS_PROXY=", s.brought(t, 9000, local), localKey, ""},
	} {
		grpcurl := func(args ...string) string {
			cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "grpcurl"), append([]string{"-plaintext", "-max-time", "30"}, args...)...)
			cmd.Env = append(cmd.Environ(), "NO_PROXY=", "no_proxy=", c.env)
			out, err := cmd.CombinedOutput()
			if err != nil {
				return err.Error() + ": " + string(out)
			}
			return string(out)
		}
		if text := grpcurl(c.at, "list"); !strings.Contains(text, "grpc.health.v1.Health\n") || !strings.Contains(text, "grpc.reflection.v1.ServerReflection") {
			t.Errorf("%s: it lists %s", what, text)
		}
		if text := grpcurl(c.at, "grpc.health.v1.Health/Check"); !strings.Contains(text, `"status": "SERVING"`) {
			t.Errorf("%s: it answers %s", what, text)
		}
		if k := c.key(); k != c.want {
			t.Errorf("%s: the server received the key %q, not %q", what, k, c.want)
		}
		if text := grpcurl(c.at, "describe", "grpc.health.v1.HealthCheckResponse"); !strings.Contains(text, "NOT_SERVING") {
			t.Errorf("%s: it describes %s", what, text)
		}
	}
}

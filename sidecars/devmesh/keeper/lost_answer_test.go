package keeper

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

// Envoy accepts routes, and its stream to the relay ends before its answer: connections are
// renewed, among other things. Its list of versions when it comes back is the answer; there
// will be no other, because it is not sent the routes again.
func TestAnAcceptanceThatIsLostWithItsStreamIsTakenFromTheNextOne(t *testing.T) {
	baseline, err := translate.Baseline(customer)
	if err != nil {
		t.Fatal(err)
	}
	routes := baseline[0]
	disk := store{path: filepath.Join(t.TempDir(), "routes.pb")}
	r := newRelay(customer, disk, slog.New(slog.DiscardHandler))
	server, err := serve.New(serve.Config{Sessions: r})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(serve.ServerOptions()...)
	server.Register(g)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	conn := xdstest.Dial(t, l.Addr().String())

	r.offer(routes)
	envoy := xdstest.Open(t, conn, "")
	envoy.Subscribe(routes.Name)
	sent := envoy.Next().Resources[0].Version
	envoy.Close()

	xdstest.Open(t, conn, "").Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: translate.RouteType, ResourceNamesSubscribe: []string{routes.Name},
		InitialResourceVersions: map[string]string{routes.Name: sent},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if r.changed.Until(ctx, func() bool { return r.verdictOn(routes.Version) == verdict{settled: true} }) != nil {
		t.Fatalf("the relay still waits for an answer to %s, which Envoy says it has", sent)
	}
	if got := r.has(); got != routes.Version {
		t.Errorf("the sidecar claims version %q, want %q", got, routes.Version)
	}
	if kept, err := disk.load(routes.Name); err != nil || kept[0].Version != routes.Version {
		t.Errorf("on disk is %v (%v), want version %q", kept, err, routes.Version)
	}
}

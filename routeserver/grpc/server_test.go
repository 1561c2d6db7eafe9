package routesgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routesv1 "switchyard.dev/protos/gen/routes"
	routesgrpc "switchyard.dev/routeserver/grpc"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/background"
)

func TestAColdTableIsUnavailableAndNotEmpty(t *testing.T) {
	b := newBoard()
	b.apply(declare("k1", "w1", "sb1"), observe("w1", 8080))
	client, _ := serve(t, routesgrpc.Config{Tables: b})
	if _, err := client.GetWorkloadRoutingRules(t.Context(), nil); status.Code(err) != codes.Unavailable {
		t.Errorf("Get: %v", err)
	}
	stream, err := client.WatchWorkloadRoutingRules(t.Context(), &routesv1.WorkloadRoutingRulesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if op, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("Watch: %v, %v", op, err)
	}
}

func TestAWatchSendsRulesThenSyncedThenChanges(t *testing.T) {
	b := newBoard()
	b.apply(declare("k1", "w1", "sb1"), observe("w1", 8080), observe("w2", 9090), &factv1.Complete{})
	client, _ := serve(t, routesgrpc.Config{Tables: b})
	next := watch(t, client, &routesv1.WorkloadRoutingRulesRequest{})
	expect(t, next, "ADD k1 w1 sb1 [8080]", "SYNCED")
	b.apply(declare("k2", "w2", "sb2"))
	expect(t, next, "ADD k2 w2 sb2 [9090]")
	b.apply(observe("w1", 8081))
	expect(t, next, "REPLACE k1 w1 sb1 [8081]")
	b.apply(declare("k1", "w1", "sb3"))
	expect(t, next, "REMOVE k1 w1 sb1 [8081]", "ADD k1 w1 sb3 [8081]")
	b.apply(&factv1.RoutingWithdrawn{RoutingKey: "k2"})
	expect(t, next, "REMOVE k2 w2 sb2 [9090]")
	b.apply(observe("w3", 1), declare("k3", "w1", "sb1"))
	expect(t, next, "ADD k3 w1 sb1 [8081]")
}

func TestAnEmptySetIsSyncedToo(t *testing.T) {
	b := newBoard()
	b.apply(&factv1.Complete{})
	client, _ := serve(t, routesgrpc.Config{Tables: b})
	expect(t, watch(t, client, &routesv1.WorkloadRoutingRulesRequest{}), "SYNCED")
	got, err := client.GetWorkloadRoutingRules(t.Context(), &routesv1.WorkloadRoutingRulesRequest{})
	if err != nil || len(got.GetRoutingRules()) != 0 {
		t.Errorf("Get: %v, %v", got, err)
	}
}

func TestARuleThatLeavesTheFilterIsRemoved(t *testing.T) {
	b := newBoard()
	b.apply(declare("k1", "w1", "sb1"), observe("w1", 8080), &factv1.Complete{})
	client, _ := serve(t, routesgrpc.Config{Tables: b})
	of := func(sandbox string) func() string {
		return watch(t, client, &routesv1.WorkloadRoutingRulesRequest{DestinationSandbox: &routesv1.DestinationSandbox{Name: sandbox}})
	}
	one, two := of("sb1"), of("sb2")
	expect(t, one, "ADD k1 w1 sb1 [8080]", "SYNCED")
	expect(t, two, "SYNCED")
	b.apply(declare("k1", "w1", "sb2"))
	expect(t, one, "REMOVE k1 w1 sb1 [8080]")
	expect(t, two, "ADD k1 w1 sb2 [8080]")
}

// A watcher that does not read holds its own stream only, and is told what
// differs once it reads again, not what happened meanwhile.
func TestAStoppedWatcherBlocksNoOtherAndCatchesUp(t *testing.T) {
	b := newBoard()
	b.apply(observe("w1", 8080), &factv1.Complete{})
	client, _ := serve(t, routesgrpc.Config{Tables: b})
	stopped := watch(t, client, &routesv1.WorkloadRoutingRulesRequest{})
	expect(t, stopped, "SYNCED")
	reading := watch(t, client, &routesv1.WorkloadRoutingRulesRequest{})
	expect(t, reading, "SYNCED")
	const keys, rounds = 200, 30
	for round := range rounds {
		for i := range keys {
			b.apply(declare(fmt.Sprintf("k%d", i), "w1", fmt.Sprintf("sb%d", round)))
		}
	}
	last := declare("last", "w1", "sb")
	b.apply(last)
	for reading() != "ADD last w1 sb [8080]" {
	}
	ops := 1
	for ; stopped() != "ADD last w1 sb [8080]"; ops++ {
	}
	if all := keys + (rounds-1)*keys*2; ops >= all {
		t.Errorf("the stopped watcher was told %d ops, as many as there were changes (%d)", ops, all)
	}
}

func TestStoppingEndsWatchesWithUnavailable(t *testing.T) {
	b := newBoard()
	b.apply(&factv1.Complete{})
	client, stop := serve(t, routesgrpc.Config{Tables: b})
	stream, err := client.WatchWorkloadRoutingRules(t.Context(), &routesv1.WorkloadRoutingRulesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	stop()
	op, err := stream.Recv()
	if said := status.Convert(err); said.Code() != codes.Unavailable || !strings.Contains(said.Message(), "is stopping") {
		t.Errorf("got %v, %v", op, err)
	}
}

func TestHealthFollowsTheTable(t *testing.T) {
	b := newBoard()
	conn, _ := dial(t, routesgrpc.Config{Tables: b})
	stream, err := healthv1.NewHealthClient(conn).Watch(t.Context(), &healthv1.HealthCheckRequest{Service: "routes.Routes"})
	if err != nil {
		t.Fatal(err)
	}
	next := func() healthv1.HealthCheckResponse_ServingStatus {
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return got.GetStatus()
	}
	if got := next(); got != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("cold: %v", got)
	}
	b.apply(&factv1.Complete{})
	if got := next(); got != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("whole: %v", got)
	}
}

func TestReflectionNamesTheService(t *testing.T) {
	conn, _ := dial(t, routesgrpc.Config{Tables: newBoard()})
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "routes.Routes"}}
	if err := stream.Send(ask); err != nil {
		t.Fatal(err)
	}
	if got, err := stream.Recv(); err != nil || len(got.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestClusterServices(t *testing.T) {
	listed := []*routesv1.ClusterService{{ServiceIp: "10.0.0.1", Hostname: "a.ns.svc"}}
	for name, c := range map[string]struct {
		services routesgrpc.Services
		want     codes.Code
	}{
		"without a cluster":        {nil, codes.Unimplemented},
		"while they are not known": {services{err: errors.New("no access")}, codes.Unavailable},
		"listed":                   {services{list: listed}, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := serve(t, routesgrpc.Config{Tables: newBoard(), Services: c.services})
			got, err := client.GetClusterServices(t.Context(), &routesv1.GetClusterServicesRequest{})
			if status.Code(err) != c.want {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if diff := cmp.Diff(listed, got.GetServices(), protocmp.Transform()); c.want == codes.OK && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestABadConfigIsRefused(t *testing.T) {
	if _, err := routesgrpc.New(routesgrpc.Config{}); err == nil {
		t.Error("accepted without tables")
	}
	if _, err := routesgrpc.New(routesgrpc.Config{Tables: newBoard(), StopWithin: -1}); err == nil {
		t.Error("accepted a negative StopWithin")
	}
	registry := prometheus.NewRegistry()
	for i, wantErr := range []bool{false, true} {
		if _, err := routesgrpc.New(routesgrpc.Config{Tables: newBoard(), Metrics: registry}); (err != nil) != wantErr {
			t.Errorf("server %d on one registry: %v", i+1, err)
		}
	}
}

type services struct {
	list []*routesv1.ClusterService
	err  error
}

func (s services) List(context.Context) ([]*routesv1.ClusterService, error) { return s.list, s.err }

func serve(t *testing.T, cfg routesgrpc.Config) (routesv1.RoutesClient, func()) {
	conn, stop := dial(t, cfg)
	return routesv1.NewRoutesClient(conn), stop
}

// dial runs a server and returns a connection to it, and what stops it.
func dial(t *testing.T, cfg routesgrpc.Config) (*grpc.ClientConn, func()) {
	t.Helper()
	server, err := routesgrpc.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := background.Run(t, func(ctx context.Context) error { return server.Serve(ctx, listener) })
	conn, err := grpc.NewClient("passthrough:"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn, stop
}

// watch opens a watch and returns what waits for its next op, in short.
func watch(t *testing.T, client routesv1.RoutesClient, req *routesv1.WorkloadRoutingRulesRequest) func() string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	stream, err := client.WatchWorkloadRoutingRules(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	return func() string {
		t.Helper()
		op, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if op.GetRoute() == nil {
			return op.GetOp().String()
		}
		var ports []uint32
		for _, m := range op.GetRoute().GetMappings() {
			ports = append(ports, m.GetWorkloadPort())
		}
		r := op.GetRoute()
		return fmt.Sprintf("%v %s %s %s %v", op.GetOp(), r.GetRoutingKey(), r.GetBaseline().GetName(), r.GetDestinationSandbox().GetName(), ports)
	}
}

func expect(t *testing.T, next func() string, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := next(); got != w {
			t.Fatalf("got %q, want %q", got, w)
		}
	}
}

// board is a table that a test changes.
type board struct {
	mu    sync.Mutex
	table table.Table
	newer chan struct{}
}

func newBoard() *board { return &board{newer: make(chan struct{})} }

func (b *board) Current() (table.Table, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.table, b.newer
}

func (b *board) apply(data ...proto.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seq := b.table.Pos().Seq
	for _, d := range data {
		seq++
		b.table = b.table.Apply(event.Recorded{Pos: event.Pos{Epoch: "e", Seq: seq}, Fact: event.Fact{Data: d}})
	}
	close(b.newer)
	b.newer = make(chan struct{})
}

func declare(routingKey, member, sandbox string) *factv1.RoutingDeclared {
	return &factv1.RoutingDeclared{RoutingKey: routingKey, Members: []*factv1.Member{
		{Kind: "ForkedWorkload", Namespace: "ns", Name: member, Sandbox: sandbox},
	}}
}

func observe(member string, workloadPort uint32) *factv1.WorkloadObserved {
	return &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "ns", Name: member, Uid: "uid"},
		Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "ns", Name: member},
		Services: []*factv1.ServicePair{{From: member, To: "sb-" + member, Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: workloadPort}}}},
	}
}

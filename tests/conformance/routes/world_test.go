package routes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	pb "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/server"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// world is a log and those who write to it.
type world struct {
	t   *testing.T
	log *memory.Log
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, log: memory.New()}
	if _, err := w.log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// state records facts as the newest of their keys.
func (w *world) state(data ...proto.Message) {
	w.t.Helper()
	for _, d := range data {
		w.record(keyOf(d), d)
	}
}

func (w *world) record(key event.Key, data proto.Message) {
	w.t.Helper()
	fact := event.Fact{Key: key, Time: time.Unix(1, 0), Data: data}
	newest, _, err := w.log.Newest(context.Background(), key)
	if err == nil {
		_, err = w.log.Append(context.Background(), fact, newest.Pos.Seq)
	}
	if err != nil {
		w.t.Errorf("state %s: %v", key, err)
	}
}

func keyOf(d proto.Message) event.Key {
	switch d := d.(type) {
	case interface{ GetRoutingKey() string }:
		return event.RoutingKey(d.GetRoutingKey())
	case interface{ GetWorkload() *factv1.ObjectRef }:
		return event.Workload(d.GetWorkload().GetKind(), d.GetWorkload().GetNamespace(), d.GetWorkload().GetName())
	default:
		return event.Log
	}
}

// settle waits until a server has folded all that was stated.
func (w *world) settle(m *server.Main) {
	w.t.Helper()
	tip, err := w.log.Tip(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the server folds the whole log", func() bool {
		now, _ := m.View().Current()
		return now.Pos() == tip
	})
}

func declare(routingKey string, members ...*factv1.Member) *factv1.RoutingDeclared {
	return &factv1.RoutingDeclared{RoutingKey: routingKey, Members: members}
}

func member(namespace, name, sandbox string) *factv1.Member {
	return &factv1.Member{Kind: "ForkedWorkload", Namespace: namespace, Name: name, Sandbox: sandbox}
}

// observe gives a forked workload with one Service for each port.
func observe(namespace, name, kind, baseline string, ports ...uint32) *factv1.WorkloadObserved {
	o := &factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: namespace, Name: name, Uid: "uid-" + name},
		Created:  timestamppb.New(time.Unix(1, 0)),
		Baseline: &factv1.ObjectRef{Kind: kind, Namespace: namespace, Name: baseline},
		Ready:    true,
	}
	for i, port := range ports {
		o.Services = append(o.Services, &factv1.ServicePair{
			From: fmt.Sprintf("%s-%d", baseline, i), To: fmt.Sprintf("%s-%d", name, i), ClusterIp: "10.0.0.1",
			Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: port}},
		})
	}
	return o
}

// churn gives a random change to a small world, in which everything collides
// with everything.
func churn(rng *rand.Rand) proto.Message {
	pick := func(values ...string) string { return values[rng.IntN(len(values))] }
	key, namespace, name := pick("k1", "k2", "k3"), pick("shop", "other"), pick("w1", "w2", "w3")
	switch rng.IntN(10) {
	case 0:
		return &factv1.RoutingWithdrawn{RoutingKey: key}
	case 1:
		return &factv1.WorkloadWithdrawn{Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: namespace, Name: name}}
	case 2, 3, 4, 5:
		members := make([]*factv1.Member, 1+rng.IntN(3))
		for i := range members {
			members[i] = member(pick("shop", "other"), pick("w1", "w2", "w3"), pick("sb1", "sb2"))
		}
		return declare(key, members...)
	default:
		ports := []uint32{8080, 9090}[:rng.IntN(3)]
		return observe(namespace, name, pick("Deployment", "ArgoRollout"), pick("customer", "driver"), ports...)
	}
}

// serve runs a route server on an address until the test ends or stop is called.
func serve(t *testing.T, log eventbus.Reader, address string) (m *server.Main, stop func()) {
	t.Helper()
	return serveWith(t, server.Config{Log: log}, address)
}

// serveWith is serve for a server that has more than a log.
func serveWith(t *testing.T, config server.Config, address string) (m *server.Main, stop func()) {
	t.Helper()
	config.GRPCAddress, config.RESTAddress, config.MetricsAddress = address, anyPort, anyPort
	var err error
	eventually(t, "the address is free", func() bool {
		m, err = server.New(config)
		return err == nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("the server ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("the server does not stop")
		}
	}
	t.Cleanup(stop)
	return m, stop
}

const anyPort = "127.0.0.1:0"

// dial gives a connection that connects again soon after each loss.
func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, a string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", a)
		}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond}, MinConnectTimeout: time.Second}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

// start runs a watched client until the test ends or the func is called.
func start(t *testing.T, w *watched) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// rulesOf asks for the rules that a request matches.
func rulesOf(t *testing.T, conn grpc.ClientConnInterface, request *pb.WorkloadRoutingRulesRequest) map[identity]*pb.WorkloadRoutingRule {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := pb.NewRoutesClient(conn).GetWorkloadRoutingRules(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	out := map[identity]*pb.WorkloadRoutingRule{}
	for _, r := range got.GetRoutingRules() {
		out[identityOf(r)] = r
	}
	return out
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

package routes

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/memory"
	pb "switchyard.dev/protos/gen/routes"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/conformance/served"
	"switchyard.dev/tools/wait"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// What tests state, and how they wait for what follows.
var (
	declare, member, observe = served.Declare, served.Member, served.Observe
	churn, eventually        = served.Churn, wait.Holds
)

func begin(t *testing.T) *served.Log {
	t.Helper()
	return served.Begin(t, memory.New())
}

// serve runs a route server on an address until the test ends or stop is called.
func serve(t *testing.T, log eventbus.Reader, address string) (m *server.Main, stop func()) {
	t.Helper()
	return served.Run(t, server.Config{Log: log, GRPCAddress: address})
}

const anyPort = served.AnyPort

// serving runs a route server on a log with facts, and returns when it has folded them.
func serving(t *testing.T, facts ...proto.Message) (*served.Log, *server.Main) {
	t.Helper()
	w := begin(t)
	w.State(facts...)
	m, _ := serve(t, w.Log, anyPort)
	w.Settle(m)
	return w, m
}

// dial returns a connection that connects again soon after each loss.
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
	return background.Run(t, func(ctx context.Context) error {
		w.run(ctx)
		return nil
	})
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

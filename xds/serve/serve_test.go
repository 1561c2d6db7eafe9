package serve_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/tools/wait"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

var (
	customer = table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"}
	driver   = table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "driver"}
)

func fork(w table.Workload, key string) xdstest.Fork {
	return xdstest.Fork{
		Baseline: w, Key: key, Sandbox: "sb-" + key, Port: 8081,
		Destination: netip.MustParseAddrPort("10.0.0.1:80"),
	}
}

// identify reads tokens of the form pod@workload.
func identify(_ context.Context, token string) (serve.Peer, error) {
	pod, workload, ok := strings.Cut(token, "@")
	if !ok {
		return serve.Peer{}, status.Error(codes.Unauthenticated, "unknown token")
	}
	w := table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: workload}
	return serve.Peer{Workload: w, Namespace: "hotrod", Pod: pod, UID: "uid-" + pod}, nil
}

// start runs a server on a board and returns a connection to it.
func start(t *testing.T, board *xdstest.Board, config serve.Config) (*serve.Server, *grpc.ClientConn) {
	t.Helper()
	sessions, err := serve.FromView(serve.ViewConfig{View: board.View, Identify: identify})
	if err != nil {
		t.Fatal(err)
	}
	config.Sessions = sessions
	server, err := serve.New(config)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(serve.ServerOptions()...)
	server.Register(g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return server, xdstest.Dial(t, l.Addr().String())
}

func keys(t *testing.T, r *discoveryv3.DeltaDiscoveryResponse) []string {
	t.Helper()
	if len(r.Resources) != 1 {
		t.Fatalf("got %d resources", len(r.Resources))
	}
	config := &routev3.RouteConfiguration{}
	if err := r.Resources[0].Resource.UnmarshalTo(config); err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for key := range config.VirtualHosts[0].Matcher.GetMatcherTree().GetExactMatchMap().GetMap() {
		found = append(found, key)
	}
	return found
}

// eventually waits for a condition.
var eventually = wait.Holds

func TestASidecarGetsTheRoutesOfItsOwnWorkload(t *testing.T) {
	board := xdstest.NewBoard(t)
	server, conn := start(t, board, serve.Config{})
	board.Declare(fork(customer, "k1"))
	board.Declare(fork(driver, "k2"))
	board.Complete()

	client := xdstest.Open(t, conn, "pod@customer")
	client.Subscribe(translate.RouteName(customer))
	r := client.Next()
	if diff := cmp.Diff([]string{"8081/k1"}, keys(t, r)); diff != "" {
		t.Error(diff)
	}
	client.Ack(r)
	want := []serve.Ack{{
		Peer:   serve.Peer{Workload: customer, Namespace: "hotrod", Pod: "pod", UID: "uid-pod"},
		Status: serve.Status{Type: translate.RouteType, Name: translate.RouteName(customer), Sent: r.Resources[0].Version, Acked: r.Resources[0].Version},
		Due:    r.Resources[0].Version,
	}}
	shown, _ := board.View.Current()
	want[0].Reached = shown.Pos()
	eventually(t, "the acknowledgement is known", func() bool { return cmp.Equal(want, server.Acks()) })

	// Another workload's change is nothing to it; its own is the next it hears.
	board.Declare(fork(driver, "k3"))
	board.Withdraw("k1")
	if got := keys(t, client.Next()); len(got) != 0 {
		t.Errorf("after the withdrawal the map has %v", got)
	}
	client.Close()
	eventually(t, "nothing is kept of a closed stream", func() bool { return len(server.Acks()) == 0 })
}

func TestNothingIsSentFromATableThatIsNotWhole(t *testing.T) {
	board := xdstest.NewBoard(t)
	_, conn := start(t, board, serve.Config{})
	board.Declare(fork(customer, "k1"))
	client := xdstest.Open(t, conn, "pod@customer")
	client.Subscribe(translate.RouteName(customer))
	board.Declare(fork(customer, "k2"))
	board.Complete()
	// The first response there is comes from the whole table.
	if got := keys(t, client.Next()); len(got) != 2 {
		t.Errorf("got %v, want both rules at once", got)
	}
}

func TestAWorkloadWithoutRulesHasARouteConfiguration(t *testing.T) {
	board := xdstest.NewBoard(t)
	_, conn := start(t, board, serve.Config{})
	board.Complete()
	client := xdstest.Open(t, conn, "pod@customer")
	client.Subscribe(translate.RouteName(customer))
	if got := keys(t, client.Next()); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestForbiddenRequestsEndTheStream(t *testing.T) {
	board := xdstest.NewBoard(t)
	board.Complete()
	cases := map[string]struct {
		token   string
		request *discoveryv3.DeltaDiscoveryRequest
		want    codes.Code
	}{
		"show no token that is known": {"nobody", nil, codes.Unauthenticated},
		"have another's routes": {"pod@customer", &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: translate.RouteType, ResourceNamesSubscribe: []string{translate.RouteName(driver)},
		}, codes.PermissionDenied},
		"have a part of another's routes": {"pod@customer", &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: translate.PartType, ResourceNamesSubscribe: []string{translate.HeadName(customer), translate.PartName(driver, 1)},
		}, codes.PermissionDenied},
		"have a head as something else": {"pod@customer", &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: translate.RouteType, ResourceNamesSubscribe: []string{translate.HeadName(customer)},
		}, codes.PermissionDenied},
		"have another's routes by saying that it is another": {"pod@customer", &discoveryv3.DeltaDiscoveryRequest{
			Node:    &corev3.Node{Id: "driver", Cluster: "hotrod/driver"},
			TypeUrl: translate.RouteType, ResourceNamesSubscribe: []string{translate.RouteName(driver)},
		}, codes.PermissionDenied},
		"have everything": {"pod@customer", &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.RouteType}, codes.InvalidArgument},
		"ask for other types": {"pod@customer", &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster", ResourceNamesSubscribe: []string{"a"},
		}, codes.InvalidArgument},
		"say nothing": {"pod@customer", nil, codes.DeadlineExceeded},
		"send more than there is room for": {"pod@customer", &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: translate.RouteType, ResourceNamesSubscribe: []string{strings.Repeat("x", 2<<20)},
		}, codes.ResourceExhausted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server, conn := start(t, board, serve.Config{FirstRequest: 200 * time.Millisecond})
			client := xdstest.Open(t, conn, c.token)
			if c.request != nil {
				client.Send(c.request)
			}
			if err := client.Ended(); status.Code(err) != c.want {
				t.Errorf("got %v, want %v", err, c.want)
			}
			eventually(t, "nothing is kept", func() bool { return len(server.Acks()) == 0 })
		})
	}
}

func TestOneIdentityHasAtMostAFewStreams(t *testing.T) {
	board := xdstest.NewBoard(t)
	board.Complete()
	_, conn := start(t, board, serve.Config{StreamsPerPeer: 2})
	name := translate.RouteName(customer)
	var open []*xdstest.Client
	for range 2 {
		client := xdstest.Open(t, conn, "pod@customer")
		client.Subscribe(name)
		client.Next()
		open = append(open, client)
	}
	if err := xdstest.Open(t, conn, "pod@customer").Ended(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a third stream: %v", err)
	}
	other := xdstest.Open(t, conn, "other@customer")
	other.Subscribe(name)
	other.Next()
	open[0].Close()
	eventually(t, "the place is free again", func() bool {
		again := xdstest.Open(t, conn, "pod@customer")
		defer again.Close()
		again.Subscribe(name)
		return again.Served()
	})
}

func TestARefusedResourceIsSentOnceAndReported(t *testing.T) {
	board := xdstest.NewBoard(t)
	server, conn := start(t, board, serve.Config{})
	board.Declare(fork(customer, "k1"))
	board.Complete()
	client := xdstest.Open(t, conn, "pod@customer")
	client.Subscribe(translate.RouteName(customer))
	r := client.Next()
	client.Nack(r, "no such cluster")
	eventually(t, "the refusal is known", func() bool {
		acks := server.Acks()
		return len(acks) == 1 && acks[0].Error == "no such cluster" && acks[0].Rejected == r.Resources[0].Version && acks[0].Acked == ""
	})
	// The next that comes is other content, not the same again.
	board.Declare(fork(customer, "k2"))
	if next := client.Next(); next.Resources[0].Version == r.Resources[0].Version {
		t.Error("the refused version came again")
	}
}

func TestAClientThatComesBackIsSentOnlyWhatChanged(t *testing.T) {
	board := xdstest.NewBoard(t)
	_, conn := start(t, board, serve.Config{})
	board.Declare(fork(customer, "k1"))
	board.Complete()
	name := translate.RouteName(customer)
	client := xdstest.Open(t, conn, "pod@customer")
	client.Subscribe(name)
	had := client.Next().Resources[0].Version
	client.Close()

	again := xdstest.Open(t, conn, "pod@customer")
	again.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: translate.RouteType, ResourceNamesSubscribe: []string{name},
		InitialResourceVersions: map[string]string{name: had},
	})
	board.Declare(fork(customer, "k2"))
	if got := keys(t, again.Next()); len(got) != 2 {
		t.Errorf("the first response has %v: it is not the change", got)
	}
}

func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	board := xdstest.NewBoard(t)
	server, conn := start(t, board, serve.Config{Write: 100 * time.Millisecond})
	// More than the 64 KiB that a connection takes unread.
	for i := range 400 {
		board.Declare(fork(customer, "key-of-a-sandbox-"+strings.Repeat("x", 200)+time.Duration(i).String()))
	}
	board.Complete()
	client := xdstest.Open(t, conn, "pod@customer")
	client.Subscribe(translate.RouteName(customer))
	eventually(t, "the first response is under way", func() bool {
		acks := server.Acks()
		return len(acks) == 1 && acks[0].Sent != ""
	})
	// It acknowledges a response that it has not read, so that more is sent.
	client.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.RouteType, ResponseNonce: "1"})
	board.Declare(fork(customer, "k2"))
	eventually(t, "the stream is gone", func() bool { return len(server.Acks()) == 0 })
}

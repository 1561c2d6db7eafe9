package peers_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/peers"
	"switchyard.dev/tests/port"
)

// answering is a route server of which only the answer about sidecars matters.
type answering struct {
	routingv1.UnimplementedRoutingServer
	pod   string
	asked chan *routingv1.SidecarsRequest
	hold  chan struct{} // closed when it may answer
}

func (a *answering) Sidecars(ctx context.Context, req *routingv1.SidecarsRequest) (*routingv1.SidecarsResponse, error) {
	a.asked <- req
	select {
	case <-a.hold:
		return &routingv1.SidecarsResponse{Sidecars: []*routingv1.Sidecar{{Pod: a.pod}}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func listen(t *testing.T, ip, port string, pod string, holds bool) *answering {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, port))
	if err != nil {
		t.Fatal(err)
	}
	a := &answering{pod: pod, asked: make(chan *routingv1.SidecarsRequest, 10), hold: make(chan struct{})}
	if !holds {
		close(a.hold)
	}
	g := grpc.NewServer()
	routingv1.RegisterRoutingServer(g, a)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return a
}

func TestEachOtherIsAskedAndTheSilentAreNamed(t *testing.T) {
	port := strconv.Itoa(port.Of(t, "127.0.0.10", "127.0.0.11", "127.0.0.12", "127.0.0.13"))
	found, failed := []string{"127.0.0.10", "::ffff:127.0.0.11", "127.0.0.12", "127.0.0.13", "127.0.0.12"}, error(nil)
	p, err := peers.New(peers.Config{
		Service: net.JoinHostPort("peers", port), Own: []string{"fd00::1", "127.0.0.11"}, Within: 500 * time.Millisecond,
		Lookup: func(_ context.Context, host string) ([]string, error) {
			if host != "peers" {
				t.Errorf("%q is looked up", host)
			}
			return found, failed
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	quick := listen(t, "127.0.0.10", port, "quick", false)
	listen(t, "127.0.0.12", port, "slow", true)
	// Nobody listens on 127.0.0.13, and 127.0.0.11 is this one.
	ask := func() (pods, silent []string) {
		t.Helper()
		sidecars, silent := p.Sidecars(t.Context(), &routingv1.Filter{Name: "customer"})
		for _, c := range sidecars {
			pods = append(pods, c.GetPod())
		}
		slices.Sort(pods)
		return pods, silent
	}
	pods, silent := ask()
	if diff := cmp.Diff([]string{"quick"}, pods); diff != "" {
		t.Errorf("who answered (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"127.0.0.12:" + port, "127.0.0.13:" + port}, silent); diff != "" {
		t.Errorf("who is silent (-want +got):\n%s", diff)
	}
	if req := <-quick.asked; !req.GetLocal() || req.GetFilter().GetName() != "customer" {
		t.Errorf("it was asked %v: it would ask the others in turn", req)
	}
	// One that comes back is heard at once.
	listen(t, "127.0.0.13", port, "back", false)
	found = []string{"127.0.0.10", "127.0.0.13"}
	if pods, silent = ask(); !slices.Equal(pods, []string{"back", "quick"}) || len(silent) > 0 {
		t.Errorf("got %v, silent %v", pods, silent)
	}
	failed = errors.New("no such host")
	if pods, silent = ask(); len(pods) > 0 || !slices.Equal(silent, []string{"peers:" + port}) {
		t.Errorf("when they cannot be found: %v, silent %v", pods, silent)
	}
}

func TestAServiceNeedsAPort(t *testing.T) {
	if _, err := peers.New(peers.Config{Service: "routeserver-peers"}); err == nil {
		t.Error("it is taken without a port")
	}
}

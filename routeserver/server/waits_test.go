package server_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/callers/tokens"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/routeserver/server"
)

// client returns a client of the routing API at 127.0.0.n.
func client(t *testing.T, address string, n byte, opts ...grpc.DialOption) routingv1.RoutingClient {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, n)}}
	conn, err := grpc.NewClient("passthrough:"+address, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, a string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", a) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return routingv1.NewRoutingClient(conn)
}

// hold has n waits under way that have no end, tries again and again, ever more seldom,
// and returns how many were refused at first.
func hold(ctx context.Context, t *testing.T, all *sync.WaitGroup, c routingv1.RoutingClient, n int) (refused func() int) {
	t.Helper()
	var mu sync.Mutex
	count := 0
	for range n {
		all.Go(func() {
			pause := 200 * time.Millisecond
			for first := true; ctx.Err() == nil; first = false {
				_, err := c.Wait(ctx, &routingv1.WaitRequest{RoutingKey: "nobody's", TimeoutSeconds: 300})
				if first && status.Code(err) == codes.ResourceExhausted {
					mu.Lock()
					count++
					mu.Unlock()
				}
				select {
				case <-time.After(pause):
					pause = min(2*pause, 5*time.Second)
				case <-ctx.Done():
				}
			}
		})
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// knowsTheManager has a route server take whoever shows the token "manager" for the manager.
func knowsTheManager(c *server.Config) {
	c.Door = door.New(door.Config{Own: []string{"signadot/manager"}, Verify: func(_ context.Context, token string, _ tokens.Admit) (tokens.Identity, error) {
		if token != "manager" {
			return tokens.Identity{}, tokens.ErrUnknown
		}
		return tokens.Identity{Namespace: "signadot", ServiceAccount: "manager", PodName: "m"}, nil
	}})
}

// Those who wait must not keep others from it: not the manager, without which no sandbox
// becomes Ready, nor other people.
func TestWaitersBlockNoOtherCaller(t *testing.T) {
	w := newSite(t, knowsTheManager)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	refused := hold(ctx, t, &all, client(t, w.main.GRPCAddress(), 2), 128)
	eventually(t, "of 128 waits on one connection all but 16 are refused", func() bool { return refused() == 128-16 })
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if got, err := client(t, w.main.GRPCAddress(), 3).Wait(within, &routingv1.WaitRequest{TimeoutSeconds: 5}); err != nil || !got.GetConverged() {
		t.Errorf("another caller: %v, %v", got, err)
	}
	// Now from so many addresses that there is no place for strangers.
	for n := byte(10); n < 30; n++ {
		hold(ctx, t, &all, client(t, w.main.GRPCAddress(), n), 16)
	}
	other := client(t, w.main.GRPCAddress(), 4)
	eventually(t, "strangers take all that is theirs", func() bool {
		_, err := other.Wait(ctx, &routingv1.WaitRequest{TimeoutSeconds: 1})
		return status.Code(err) == codes.ResourceExhausted
	})
	manager := client(t, w.main.GRPCAddress(), 2, door.Show(w.token("manager")))
	for range 20 {
		if got, err := manager.Wait(ctx, &routingv1.WaitRequest{TimeoutSeconds: 5}); err != nil || !got.GetConverged() {
			t.Fatalf("the manager: %v, %v", got, err)
		}
	}
}

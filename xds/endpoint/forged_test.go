package endpoint_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
	"switchyard.dev/xds/endpoint"
	"switchyard.dev/xds/identify"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

// Forged tokens that only the API server can distinguish from real ones are reviewed, but few
// at a time: an unknown token of a sidecar gets its turn.
func TestForgedTokensFromOneAddressKeepNoSidecarOut(t *testing.T) {
	const perConnection = 16
	c, board := newCluster(t), xdstest.NewBoard(t)
	board.Declare(xdstest.Fork{
		Baseline: customer, Key: "k1", Sandbox: "sb", Port: 8080, Destination: netip.MustParseAddrPort("10.0.0.1:80"),
	})
	board.Complete()
	slow := c.As("")
	slow.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
				time.Sleep(200 * time.Millisecond) // An API server that takes its time over tokens.
			}
			return next.RoundTrip(r)
		})
	})
	client, err := kubernetes.NewForConfig(slow)
	if err != nil {
		t.Fatal(err)
	}
	e, err := endpoint.New(endpoint.Config{View: board.View, Client: client, Address: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, e.Run)
	ctx, stop := context.WithCancel(t.Context())
	token := c.pod("customer-5f6d-a", identify.Audience, c.deployed("customer"))
	var attack errgroup.Group
	attack.Go(func() error {
		for i := 0; ctx.Err() == nil; i += perConnection {
			attacker := xdstest.Dial(t, e.Address(), from("127.0.0.2"))
			for j := range perConnection {
				xdstest.Open(t, attacker, fmt.Sprintf("%s%08d", token[:len(token)-8], i+j))
			}
			time.Sleep(50 * time.Millisecond) // 320 a second come, and 40 are checked
		}
		return nil
	})
	defer func() { stop(); _ = attack.Wait() }() // before the test's own context ends, and with it what is being opened
	time.Sleep(time.Second)                      // They are on their way.
	// On a slow machine its turn may come after the check's patience: it asks again then, as
	// sidecars do.
	wait.Eventually(t, 30*time.Second, "the sidecar has its routes", func() error {
		sidecar := xdstest.Open(t, xdstest.Dial(t, e.Address()), token)
		defer sidecar.Close()
		sidecar.Subscribe(translate.RouteName(customer))
		r, err := sidecar.Receive()
		if err == nil && len(r.Resources) != 1 {
			t.Errorf("got %v", r)
		}
		return err
	})
}

// from dials from an address of this machine.
func from(address string) grpc.DialOption {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", to) })
}

package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	xproxy "golang.org/x/net/proxy"

	"switchyard.dev/eventbus/trust"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/proxy"
	station "switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/loopback"
	"switchyard.dev/tunnels/workstation/reconnect"
)

// asks is a Wanted with one answer: workloads of the user's own sandboxes.
type asks []station.Workload

// Watch implements workstation.Wanted.
func (a asks) Watch(ctx context.Context, tell func([]station.Workload)) error {
	own := slices.Clone(a)
	for i := range own {
		own[i].Own = true
	}
	tell(own)
	<-ctx.Done()
	return ctx.Err()
}

// The program of workstations and the one of the cluster, without test code in between: requests
// pass in both directions, and refusals are reported.
func TestAWorkstationAndAProxy(t *testing.T) {
	s := newSite(t)
	x := s.sandbox("both", "ada", 8080)
	s.lists("ada")
	back := s.listen(s.backend.String())
	s.names.known = map[string][]string{"cart.shop": {s.backend.String()}, "meta.shop": {"169.254.169.254"}}
	local := s.listen("127.0.0.1")
	w := s.workstation(t, "ada")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go w.Follow(ctx, asks{{Tunnel: reconnect.Tunnel{Namespace: x.Namespace, Name: x.Name}, Locals: map[int32]string{8080: fmt.Sprintf("127.0.0.1:%d", local.port)}, Connected: true}})
	tunnel := s.manage().tunnel(x, connected)
	if text := talk(t, reach(t, tunnel, 8080)); text != "in the cluster\na line\n" { // The same server as in the cluster.
		t.Errorf("the local process answers %q", text)
	}
	if local.count() != 1 || tunnel.User != s.user("ada") {
		t.Errorf("%d connections came; the manager received %v", local.count(), tunnel)
	}
	l, err := loopback.Listen("localhost:0")
	s.Must(err)
	go func() { _ = loopback.ServeSOCKS(ctx, l, w.Open) }()
	dialer, err := xproxy.SOCKS5("tcp", l.Addr().String(), nil, nil)
	s.Must(err)
	c, err := dialer.Dial("tcp", fmt.Sprintf("cart.shop:%d", back.port))
	s.Must(err)
	if text := talk(t, c); text != "in the cluster\na line\n" {
		t.Errorf("the cluster answers %q", text)
	}
	for address, says := range map[string]string{"meta.shop:80": "not allowed", "nothing.shop:80": "host unreachable"} {
		if _, err := dialer.Dial("tcp", address); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", address, err)
		}
	}
	status, _ := w.Status()
	if len(status.Workloads) != 1 || !status.Workloads[0].Open || status.Proxy != "proxy-0" {
		t.Errorf("the workstation reports %+v", status)
	}
	s.Eventually("both connections are recorded", func() error {
		first, last := s.recorded()
		if len(first) < 2 || len(last) < 2 {
			return fmt.Errorf("%d and %d records", len(first), len(last))
		}
		return nil
	})
}

// A user who connects a second time, and ends that, has his requests where they were before, and not
// earlier: the second one keeps them even while no session is seen to serve them.
func TestATunnelTakenByASecondConnectionComesBack(t *testing.T) {
	s := newSite(t)
	x := s.sandbox("back", "ada", 8080)
	tunnel := reconnect.Tunnel{Namespace: x.Namespace, Name: x.Name}
	cfg := s.workstationConfig("ada")
	cfg.Policy = reconnect.DefaultPolicy()
	cfg.Policy.TakeBack = time.Millisecond
	first := s.run(t, cfg)
	second, end := s.begin(t, s.workstationConfig("ada"))
	brings := func(somebody bool) asks {
		return asks{{Tunnel: tunnel, Locals: map[int32]string{8080: "127.0.0.1:1"}, Connected: somebody}}
	}
	seen, look := context.WithCancel(t.Context())
	go first.Follow(seen, brings(true))
	open := func(w *station.Workstation) error {
		if status, _ := w.Status(); len(status.Workloads) != 1 || !status.Workloads[0].Open {
			return fmt.Errorf("%+v", status)
		}
		return nil
	}
	s.Eventually("the first has it", func() error { return open(first) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go second.Follow(ctx, brings(true))
	s.Eventually("the second has it", func() error { return open(second) })
	notified := func(says string) {
		s.Eventually("the first is notified", func() error {
			status, _ := first.Status()
			if m := status.Workloads[0].Message; !strings.Contains(m, says) {
				return errors.New(m)
			}
			return nil
		})
	}
	notified("taken over by another session of yours, and comes back")
	look()
	go first.Follow(t.Context(), brings(false)) // no session is seen to serve it
	notified("is held by ")
	s.Must(open(second))
	end()
	s.Eventually("the first has it again", func() error { return open(first) })
}

// A session that reconnects does not become the last one of its user.
func TestAReconnectionMovesNoTunnel(t *testing.T) {
	s := newSite(t)
	x := s.sandbox("age", "ada", 8080)
	latest := s.connect("ada", "latest", 1)
	if got := latest.declare(x); !got[0].GetOpen() {
		t.Fatalf("the declaration is answered %v", got)
	}
	back, err := s.helloAfter(time.Minute, s.token("ada"), "earlier", 7)
	s.Must(err)
	if got := back.declare(x); got[0].GetRefused().GetReason() != tunnelv1.Reason_REASON_TAKEN {
		t.Errorf("the earlier session is answered %v", got)
	}
	if got := latest.declare(x); !got[0].GetOpen() {
		t.Errorf("the later session is answered %v", got)
	}
}

func TestAWorkstationWithoutATokenIsRefused(t *testing.T) {
	s := newSite(t)
	cfg := s.workstationConfig("ada")
	cfg.Token = func(context.Context, bool) (string, error) { return "nobody", nil }
	w, err := station.New(cfg)
	s.Must(err)
	err = w.Run(t.Context())
	var refused *carrier.RefusedError
	if !errors.As(err, &refused) || refused.Refused.GetReason() != tunnelv1.Reason_REASON_UNAUTHENTICATED {
		t.Errorf("it ended with %v", err)
	}
}

// workstationConfig returns the configuration of a user's workstation.
func (s *site) workstationConfig(account string) station.Config {
	roots := trust.NewRoots("a test")
	s.Must(roots.Set(s.bundle))
	return station.Config{Road: station.Address(s.main.Addresses()["carrier"]), Name: proxy.Name, Roots: roots,
		Token: func(context.Context, bool) (string, error) { return s.token(account), nil }}
}

// workstation runs a user's workstation.
func (s *site) workstation(t *testing.T, account string) *station.Workstation {
	return s.run(t, s.workstationConfig(account))
}

// run runs a workstation until the test ends.
func (s *site) run(t *testing.T, cfg station.Config) *station.Workstation {
	w, _ := s.begin(t, cfg)
	return w
}

// begin runs a workstation until end is called, or the test ends.
func (s *site) begin(t *testing.T, cfg station.Config) (w *station.Workstation, end func()) {
	w, err := station.New(cfg)
	s.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the workstation ended with %v", err)
		}
	})
	t.Cleanup(end)
	s.Eventually("the workstation is connected", func() error {
		if now, _ := w.Status(); !now.Connected {
			return errors.New(now.Trouble)
		}
		return nil
	})
	return w, end
}

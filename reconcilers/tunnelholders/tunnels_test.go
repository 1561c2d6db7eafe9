package tunnelholders_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/tunnelholders"
	"switchyard.dev/reconcilers/tunnelholders/holders"
)

func TestTunnelHolderIsKnownWhileItReports(t *testing.T) {
	t.Parallel()
	w, begun := newWorld(t), time.Now()
	p := w.proxy("tunnel-proxy-1", "10.0.0.1", nil)
	w.eventually("the proxy has told that it holds nothing", func() bool { return !w.tunnels.Awaited("tunnel-proxy-1") })
	if _, ok := w.tunnels.Look(workload); ok {
		t.Fatal("somebody holds what nobody does")
	}
	p.now(func() { p.tunnels = []*tunnelv1.Tunnel{held("ann", 1, begun)} })
	w.until("it is held", func(h holders.Holder, ok bool) bool {
		return heldAt("tunnel-proxy-1", true)(h, ok) && h.IP == "10.0.0.1" && h.Tunnel.GetPorts()[0].GetProxy() == 31000
	})
	p.now(func() { p.tunnels = []*tunnelv1.Tunnel{held("ann", 1, begun)}; p.tunnels[0].Connected = false })
	w.until("its workstation is gone", heldAt("tunnel-proxy-1", false))
	p.now(func() { p.tunnels = nil })
	w.until("it is held no longer", func(_ holders.Holder, ok bool) bool { return !ok })
	if !slices.Equal(p.shown, []string{"Bearer the-token"}) {
		t.Errorf("the proxy was shown %q", p.shown)
	}
}

func TestTheProxyThatHasLostATunnelIsTold(t *testing.T) {
	t.Parallel()
	w, begun := newWorld(t), time.Now()
	a := w.proxy("tunnel-proxy-a", "10.0.0.1", nil, held("ann", 1, begun))
	w.until("ann has it", heldAt("tunnel-proxy-a", true))
	b := w.proxy("tunnel-proxy-b", "10.0.0.2", nil, held("ann", 2, begun.Add(-time.Minute)))
	w.until("ann has come to another proxy", heldAt("tunnel-proxy-b", true))
	w.eventually("the first is told", func() bool {
		return slices.Equal(a.lost(), []string{"ann to ann@example.com, through pod tunnel-proxy-b"})
	})
	w.eventually("and that ann holds it elsewhere", func() bool { return slices.Equal(a.elsewhere(), []string{"ns/w u: ann@example.com"}) })
	taking := held("bob", 1, begun.Add(time.Second))
	taking.Take = true
	a.now(func() { a.tunnels = []*tunnelv1.Tunnel{taking} })
	w.until("bob takes it", heldAt("tunnel-proxy-a", true))
	w.eventually("now the second is told", func() bool {
		return len(a.lost()) == 0 && slices.Equal(b.lost(), []string{"ann to bob@example.com, through pod tunnel-proxy-a"})
	})
	if got, want := <-w.takeovers, (tunnelholders.Takeover{Workload: workload, From: "ann@example.com", By: "bob@example.com"}); got != want {
		t.Errorf("%+v is reported, not %+v", got, want)
	}
}

func TestADeletedProxyIsNoticed(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	t.Run("its process ends, and comes again", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		p := w.proxy("tunnel-proxy-1", "10.0.0.1", nil, held("ann", 1, begun))
		w.until("it is held", heldAt("tunnel-proxy-1", true))
		p.stop()
		w.until("it is gone", heldAt("tunnel-proxy-1", false))
		p.serve(nil, "10.0.0.1")
		w.until("it is back", heldAt("tunnel-proxy-1", true))
		for _, says := range []string{"does not answer on its control port", "answers again"} {
			if strings.Count(w.logged.String(), says) != 1 {
				t.Errorf("%q is not logged once:\n%s", says, w.logged.String())
			}
		}
	})
	t.Run("it says nothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		p := w.proxy("tunnel-proxy-1", "10.0.0.1", nil, held("ann", 1, begun))
		w.until("it is held", heldAt("tunnel-proxy-1", true))
		p.now(func() { p.silent = true })
		w.until("it is gone", heldAt("tunnel-proxy-1", false))
		p.now(func() { p.silent = false })
		w.until("it is back", heldAt("tunnel-proxy-1", true))
	})
	t.Run("it cannot be reached again", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		p := w.proxy("tunnel-proxy-1", "10.0.0.1", nil, held("ann", 1, begun))
		w.until("it is held", heldAt("tunnel-proxy-1", true))
		w.mu.Lock()
		w.at["10.0.0.1"] = nowhere
		w.mu.Unlock()
		p.stop()
		w.until("it is gone", heldAt("tunnel-proxy-1", false))
		if strings.Contains(w.logged.String(), "sent no message") {
			t.Errorf("it is waited for as one that is silent: %s", w.logged.String())
		}
	})
	t.Run("its pod ends", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		p := w.proxy("tunnel-proxy-1", "10.0.0.1", nil, held("ann", 1, begun))
		w.until("it is held", heldAt("tunnel-proxy-1", true))
		p.pod.Status.Phase = corev1.PodFailed
		if err := w.client.Status().Update(t.Context(), p.pod); err != nil {
			t.Fatal(err)
		}
		w.tunnels.Wake()
		w.until("nobody holds it", func(_ holders.Holder, ok bool) bool { return !ok })
		if w.tunnels.Awaited("tunnel-proxy-1") {
			t.Error("a pod that has ended is waited for")
		}
		w.eventually("it is asked no longer", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.ended == 1 })
	})
}

func TestAStreamThatBreaksAndComesAgainIsNoLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.proxy("tunnel-proxy-1", "10.0.0.1", nil, held("ann", 1, time.Now()))
	w.until("it is held", heldAt("tunnel-proxy-1", true))
	p.now(func() { p.hangsUp = true })
	w.eventually("there is another stream", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.streams == 2 })
	w.eventually("all reports are processed", w.drained)
	if h, ok := w.tunnels.Look(workload); !ok || !h.Connected() {
		t.Errorf("it is %+v, %t", h, ok)
	}
}

func TestUnverifiedProxyHoldsNoTunnel(t *testing.T) {
	t.Parallel()
	w, theirs := newWorld(t), trusttest.New(t, "theirs")
	leaf := theirs.Leaf(t, host)
	p := w.proxy("tunnel-proxy-1", "10.0.0.1", &leaf, held("ann", 1, time.Now()))
	w.eventually("it is given up", func() bool { return strings.Contains(w.logged.String(), "does not answer") })
	if h, ok := w.tunnels.Look(workload); ok || p.streams > 0 || len(p.shown) > 0 {
		t.Errorf("it is %+v, %t; there were %d streams, and it was shown %q", h, ok, p.streams, p.shown)
	}
	if !strings.Contains(w.logged.String(), "not trusted") {
		t.Errorf("why is not logged: %s", w.logged.String())
	}
}

// Pods that are not tunnel proxies of the operator get neither a request nor the token.
func TestOtherPodsAreNotAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var others []*proxy
	for i, of := range []struct{ namespace, app string }{{"shop", "tunnel-proxy"}, {"operators", "tunnel-api"}} {
		p, ip := &proxy{w: w, tunnels: []*tunnelv1.Tunnel{held("eve", 9, time.Now())}, changed: make(chan struct{})}, fmt.Sprint("10.0.1.", i)
		p.serve(nil, ip)
		p.runs(fmt.Sprint("other-", i), of.namespace, ip, map[string]string{"app": of.app})
		others = append(others, p)
	}
	w.proxy("tunnel-proxy-1", "10.0.0.1", nil, held("ann", 1, time.Now()))
	w.until("ann has it", heldAt("tunnel-proxy-1", true))
	w.eventually("all reports are processed", w.drained)
	for _, p := range others {
		p.mu.Lock()
		if p.streams > 0 || len(p.shown) > 0 {
			t.Errorf("a pod of %s is asked %d times, and shown %q", p.pod.Namespace, p.streams, p.shown)
		}
		p.mu.Unlock()
	}
	if h, ok := w.tunnels.Look(workload); !heldAt("tunnel-proxy-1", true)(h, ok) {
		t.Errorf("it is held by %+v", h)
	}
}

// Before it is known which proxies there are, each is waited for: nothing is taken from where it is.
func TestAProxyIsAwaitedBeforeTheFirstLook(t *testing.T) {
	unknown, err := tunnelholders.New(tunnelholders.Config{Client: fake.NewClientBuilder().Build(), Namespace: "n", TokenFile: "f", Roots: trust.NewRoots("none"), Again: make(publish.Again)})
	if err != nil {
		t.Fatal(err)
	}
	if !unknown.Awaited("tunnel-proxy-1") {
		t.Error("a proxy is given up before anybody has looked whether it is there")
	}
}

func TestAConfigWithoutTrustIsRefused(t *testing.T) {
	if _, err := tunnelholders.New(tunnelholders.Config{Namespace: "n", TokenFile: "f"}); err == nil {
		t.Error("it is taken")
	}
}

package podaddr_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/routeserver/podaddr"
	"switchyard.dev/tests/world"
)

func TestMain(m *testing.M) { world.Main(m) }

// cluster is two namespaces of a test's own, and a Finder that asks the API server.
type cluster struct {
	*world.World
	a, b string
	*podaddr.Finder
	// searches and reads count what the Finder asks.
	searches, reads atomic.Int64
}

func newCluster(t *testing.T, keep time.Duration) *cluster {
	t.Helper()
	w := &cluster{World: world.Shared(t)}
	w.a, w.b = w.NewNamespace("shop"), w.NewNamespace("shop")
	counted := w.As("")
	counted.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/api/v1/pods" {
				w.searches.Add(1)
			} else {
				w.reads.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	var err error
	w.Finder, err = podaddr.New(podaddr.Config{Pods: kubernetes.NewForConfigOrDie(counted).CoreV1(), Keep: keep})
	w.Must(err)
	return w
}

// running has a pod run at addresses.
func (w *cluster) running(namespace, name string, addresses ...string) *corev1.Pod {
	w.Helper()
	return w.pod(namespace, name, corev1.PodRunning, false, addresses...)
}

func (w *cluster) pod(namespace, name string, phase corev1.PodPhase, hostNetwork bool, addresses ...string) *corev1.Pod {
	w.Helper()
	status := corev1.PodStatus{Phase: phase, PodIP: addresses[0], HostIP: "10.0.9.9", HostIPs: []corev1.HostIP{{IP: "10.0.9.9"}}}
	for _, address := range addresses {
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: address})
	}
	return w.RunPod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{HostNetwork: hostNetwork, Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}, status)
}

// is checks in which namespace an address is; an answer that is no namespace is a part of
// what is said instead.
func (w *cluster) is(address, want string) {
	w.Helper()
	got, err := w.Namespace(w.Context(), netip.MustParseAddr(address))
	if none := (*podaddr.None)(nil); errors.As(err, &none) {
		if !strings.Contains(none.Error(), want) {
			w.Errorf("of %s it is said: %v; want %s", address, none, want)
		}
		return
	}
	if err != nil || got != want {
		w.Errorf("%s is in %q (%v), want %q", address, got, err, want)
	}
}

func TestThePodThatRunsAtAnAddressIsFound(t *testing.T) {
	w := newCluster(t, 0)
	w.running(w.a, "one", "10.1.0.1", "fd00:1::1")
	w.pod(w.b, "begins", corev1.PodPending, false, "10.1.0.2")
	w.pod(w.a, "ended", corev1.PodSucceeded, false, "10.1.0.3")
	w.running(w.b, "next", "10.1.0.3")
	w.pod(w.a, "failed", corev1.PodFailed, false, "10.1.0.4")
	w.running(w.a, "left", "10.1.0.5")
	w.running(w.a, "right", "10.1.0.5")
	w.pod(w.a, "agent", corev1.PodRunning, true, "10.1.0.6")
	w.running(w.a, "six", "fd00:1::6")
	for address, want := range map[string]string{
		"10.1.0.1": w.a, "::ffff:10.1.0.1": w.a, "10.1.0.2": w.b, "10.1.0.3": w.b, "fd00:1::6": w.a,
		"10.1.0.4": "no running pod", "10.1.0.99": "no running pod", "fd00:1::1": "no running pod",
		"10.1.0.5": "several", "10.1.0.6": "address of a node", "10.0.9.9": "no running pod",
		"127.0.0.1": "port-forward", "::1": "port-forward", "0.0.0.0": "no address", "fe80::1%eth0": "no address",
	} {
		t.Run(address, func(t *testing.T) {
			t.Parallel()
			w := &cluster{World: w.In(t), Finder: w.Finder}
			w.is(address, want)
		})
	}
}

// An address goes from a pod of one namespace to one of another.
func TestAnAddressThatIsUsedAgainIsTheNextPods(t *testing.T) {
	const keep = 3 * time.Second
	w := newCluster(t, keep)
	before := w.running(w.a, "before", "10.2.0.1")
	found := time.Now()
	w.is("10.2.0.1", w.a)
	w.Remove(before)
	w.running(w.b, "after", "10.2.0.1")
	if time.Since(found) < keep { // not on a machine that is very busy
		w.is("10.2.0.1", w.a)
	}
	time.Sleep(keep)
	w.is("10.2.0.1", w.b)
}

// A pod has the name of the one before it, in the place of which it runs, but not its address.
func TestAPodIsNotTakenForTheOneThatHadItsName(t *testing.T) {
	const keep = time.Second
	w := newCluster(t, keep)
	w.Remove(w.running(w.a, "db-0", "10.3.0.1"))
	w.running(w.a, "db-0", "10.3.0.2")
	before := w.running(w.b, "db-0", "10.3.0.1")
	w.is("10.3.0.1", w.b)
	w.Remove(before)
	w.running(w.b, "db-0", "10.3.0.3")
	time.Sleep(keep)
	w.is("10.3.0.1", "no running pod")
}

// One that is being deleted, and stays for a while, has lost its address to the next.
func TestThePodThatIsBeingDeletedIsNotTakenForTheNext(t *testing.T) {
	const keep = time.Second
	w := newCluster(t, keep)
	before := w.running(w.a, "lingers", "10.8.0.1")
	before.Finalizers = []string{"example.com/lingers"}
	w.Must(w.Client.Update(t.Context(), before))
	w.is("10.8.0.1", w.a)
	w.Remove(before)
	w.running(w.b, "after", "10.8.0.1")
	time.Sleep(keep)
	w.is("10.8.0.1", "several")
}

// Whoever calls from an address that no pod has waits until that is known.
func TestFewCallsOfOneAnonymousCallerWait(t *testing.T) {
	w := newCluster(t, 0)
	var all sync.WaitGroup
	var refused atomic.Int64
	for range 1000 {
		all.Go(func() {
			var many *callers.TooMany
			if _, err := w.Namespace(t.Context(), netip.MustParseAddr("10.8.0.99")); errors.As(err, &many) {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	if refused.Load() < 700 {
		t.Errorf("%d of 1,000 calls did not wait", refused.Load())
	}
}

func TestAPodThatEndsHasNoAddress(t *testing.T) {
	const keep = time.Second
	w := newCluster(t, keep)
	p := w.running(w.a, "job", "10.4.0.1")
	w.is("10.4.0.1", w.a)
	p.Status.Phase = corev1.PodSucceeded
	w.Must(w.Client.Status().Update(t.Context(), p))
	time.Sleep(keep)
	w.is("10.4.0.1", "no running pod")
}

// The API server is told a pod's address after the pod has begun.
func TestAPodMayCallBeforeTheAPIServerKnowsItsAddress(t *testing.T) {
	w := newCluster(t, 0)
	var all sync.WaitGroup
	all.Go(func() { w.is("10.5.0.1", w.a) })
	time.Sleep(100 * time.Millisecond)
	w.running(w.a, "early", "10.5.0.1")
	all.Wait()
}

func TestAPodIsSearchedOnceAndThenReadAgain(t *testing.T) {
	const keep = 3 * time.Second
	w := newCluster(t, keep)
	w.running(w.a, "one", "10.6.0.1")
	w.is("10.6.0.1", w.a)
	searches, reads := w.searches.Load(), w.reads.Load()
	for range 2 {
		time.Sleep(keep)
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() { w.is("10.6.0.1", w.a) })
		}
		all.Wait()
	}
	if searches, reads := w.searches.Load()-searches, w.reads.Load()-reads; searches != 0 || reads != 2 {
		t.Errorf("twice asked again, the API server searched %d times and read %d times, want 0 and 2", searches, reads)
	}
}

// Whoever has an IPv6 network has more addresses than anybody remembers.
func TestAnonymousCallersAtManyAddressesBlockNoPod(t *testing.T) {
	w := newCluster(t, time.Second)
	w.running(w.a, "known", "10.7.0.1")
	w.running(w.a, "new", "10.7.0.2")
	w.is("10.7.0.1", w.a)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var unasked atomic.Int64
	began := time.Now()
	for n := range 300 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				address := netip.MustParseAddr(fmt.Sprintf("fd00:7::%x:%x", n+1, i%0xffff))
				if _, err := w.Namespace(ctx, address); errors.Is(err, podaddr.ErrUnasked) {
					unasked.Add(1)
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	time.Sleep(1500 * time.Millisecond)
	w.is("10.7.0.1", w.a)
	asked := time.Now()
	w.is("10.7.0.2", w.a)
	t.Logf("a pod that calls for the first time waits %s", time.Since(asked))
	time.Sleep(time.Until(began.Add(8 * time.Second)))
	w.running(w.a, "newer", "10.7.0.3")
	asked = time.Now()
	w.is("10.7.0.3", w.a)
	t.Logf("and %s once the stranger has had his burst", time.Since(asked))
	stop()
	all.Wait()
	// The burst and the rate since, each question with its looks, and those of three pods.
	took := time.Since(began)
	if got := w.searches.Load(); got > 3*(128+5*int64(took.Seconds()+1))+3 {
		t.Errorf("one stranger had the API server search %d times in %s", got, took)
	}
	if unasked.Load() == 0 {
		t.Error("no stranger was turned away")
	}
}

func TestNamespacesAreUnknownWithoutAPIServer(t *testing.T) {
	away := world.Shared(t).As("")
	away.Host = "https://127.0.0.1:1"
	f, err := podaddr.New(podaddr.Config{Pods: kubernetes.NewForConfigOrDie(away).CoreV1()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Namespace(t.Context(), netip.MustParseAddr("10.8.0.1")); !errors.Is(err, podaddr.ErrUnasked) {
		t.Errorf("got %v", err)
	}
}

// Whoever may not search pods says so: the chart's role is missing.
func TestMissingRightsAreReported(t *testing.T) {
	as := world.Shared(t).As("system:serviceaccount:signadot:routeserver")
	f, err := podaddr.New(podaddr.Config{Pods: kubernetes.NewForConfigOrDie(as).CoreV1()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Namespace(t.Context(), netip.MustParseAddr("10.9.0.1"))
	if !errors.Is(err, podaddr.ErrUnasked) || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("got %v", err)
	}
}

package api_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tools/wait"
)

var customer = table.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}

// proxies are sidecars of the customer that are connected here, by pod, with the
// place that each has acknowledged.
type proxies struct {
	mu      sync.Mutex
	reached map[string]event.Pos
	news    chan struct{}
	looks   int
}

func (p *proxies) Sidecars() (out []receipts.Sidecar) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks++
	for pod, pos := range p.reached {
		out = append(out, receipts.Sidecar{Namespace: "shop", Pod: pod, Baseline: customer, Reached: pos})
	}
	return out
}

func (p *proxies) Acknowledged() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.news == nil {
		p.news = make(chan struct{})
	}
	return p.news
}

func (p *proxies) acknowledge(pod string, pos event.Pos) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reached == nil {
		p.reached = map[string]event.Pos{}
	}
	p.reached[pod] = pos
	if p.news != nil {
		close(p.news)
		p.news = nil
	}
}

// wait asks for the receipt of k1 with these pods.
func (r *rig) wait(seconds int32, pods ...string) *routingv1.WaitResponse {
	r.t.Helper()
	got, err := r.client.Wait(within(r.t), &routingv1.WaitRequest{RoutingKey: "k1", TimeoutSeconds: seconds, Pods: pods})
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

func TestAWaitNamesPodsWithoutAConnectedSidecar(t *testing.T) {
	here := &proxies{}
	r := newRig(t, api.Config{Sidecars: here}, observe(), declare("k1", "sb"))
	here.acknowledge("a", r.tip())
	if got := r.wait(1); !got.GetConverged() || got.GetSidecars() != 1 {
		t.Errorf("of those that are connected: %v", got)
	}
	got := r.wait(1, "shop/a", "shop/b", "other/a", "shop/b")
	if diff := cmp.Diff([]string{"shop/b", "other/a"}, got.GetMissing()); diff != "" || got.GetConverged() {
		t.Errorf("converged %v; missing (-want +got):\n%s", got.GetConverged(), diff)
	}
	answer := make(chan *routingv1.WaitResponse, 1)
	go func() { answer <- r.wait(60, "shop/a", "shop/b") }()
	here.acknowledge("b", event.Pos{Epoch: r.tip().Epoch, Seq: r.tip().Seq - 1})
	if got := r.wait(1, "shop/b"); got.GetConverged() || len(got.GetMissing()) > 0 || len(got.GetLagging()) != 1 || got.GetLagging()[0].GetPod() != "b" {
		t.Errorf("one that is connected and behind is not missing but lags: %v", got)
	}
	here.acknowledge("b", r.tip())
	if got := <-answer; !got.GetConverged() || got.GetSidecars() != 2 {
		t.Errorf("once it has it: %v", got)
	}
}

// behindService is observe with a Service of the baseline.
func behindService() *factv1.WorkloadObserved {
	o := observe()
	o.Services = []*factv1.ServicePair{{From: "customer", To: "fork", ClusterIp: "10.0.0.9", Ports: []*factv1.PortPair{{Port: 80, WorkloadPort: 8080}}}}
	return o
}

// A baseline with one sidecar, which has never connected, routes no request of the key: an empty
// list of sidecars is no proof that they have the route.
func TestAWaitNeedsASidecarOfEachBaselineThatHasServices(t *testing.T) {
	here := &proxies{}
	r := newRig(t, api.Config{Sidecars: here}, behindService(), declare("k1", "sb"))
	names := func(got *routingv1.WaitResponse) (names []string) {
		for _, w := range got.GetUnconnected() {
			names = append(names, w.GetKind()+" "+w.GetNamespace()+"/"+w.GetName())
		}
		return names
	}
	customers := []string{"Deployment shop/customer"}
	if got := r.wait(1); got.GetConverged() || !slices.Equal(names(got), customers) {
		t.Errorf("without a sidecar: %v", got)
	}
	if got, err := r.client.Wait(within(t), &routingv1.WaitRequest{RoutingKey: "k1", ConnectedOnly: true}); err != nil || !got.GetConverged() || !slices.Equal(names(got), customers) {
		t.Errorf("of connected sidecars alone: %v, %v", got, err)
	}
	if got, err := r.client.Wait(within(t), &routingv1.WaitRequest{}); err != nil || !got.GetConverged() || names(got) != nil {
		t.Errorf("without a key: %v, %v", got, err)
	}
	answer := make(chan *routingv1.WaitResponse, 1)
	go func() { answer <- r.wait(60) }()
	here.acknowledge("a", r.tip())
	if got := <-answer; !got.GetConverged() || got.GetSidecars() != 1 || names(got) != nil {
		t.Errorf("once it is connected: %v", got)
	}
}

func TestAWaitNeedsNoSidecarWhereNoRequestIsRouted(t *testing.T) {
	virtual, virtually := behindService(), declare("k1", "sb")
	virtual.Workload.Kind, virtually.Members[0].Kind = "VirtualWorkload", "VirtualWorkload"
	for name, facts := range map[string][]proto.Message{
		"no Service":            {observe(), declare("k1", "sb")},
		"stays at the baseline": {virtual, virtually},
		"withdrawn":             {behindService(), declare("k1", "sb"), &factv1.RoutingWithdrawn{RoutingKey: "k1"}},
	} {
		r := newRig(t, api.Config{Sidecars: &proxies{}}, facts...)
		if got := r.wait(1); !got.GetConverged() || len(got.GetUnconnected()) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestPodsOfAWaitAreNamedInFull(t *testing.T) {
	r := newRig(t, api.Config{}, observe(), declare("k1", "sb"))
	for _, pod := range []string{"", "a", "/a", "shop/", "shop/a/b"} {
		_, err := r.client.Wait(within(t), &routingv1.WaitRequest{RoutingKey: "k1", Pods: []string{"shop/a", pod}})
		r.isError("pod "+pod, err, codes.InvalidArgument, failure.ReasonInvalid)
	}
	_, err := r.client.Wait(within(t), &routingv1.WaitRequest{RoutingKey: "k1", Pods: make([]string, 10_001)})
	r.isError("too many pods", err, codes.InvalidArgument, failure.ReasonInvalid)
}

// others are route servers whose sidecar of the customer has reached a place. They
// take their time to say so, until they are let.
type others struct {
	mu            sync.Mutex
	reached       event.Pos
	let           chan struct{}
	calls         int
	running, most int
	filters       []*routingv1.Filter
}

func (o *others) Sidecars(ctx context.Context, f *routingv1.Filter) ([]*routingv1.Sidecar, []string) {
	o.mu.Lock()
	o.calls++
	o.running++
	o.most = max(o.most, o.running)
	o.filters = append(o.filters, f)
	reached := o.reached
	o.mu.Unlock()
	select {
	case <-o.let:
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running--
	return []*routingv1.Sidecar{{
		Namespace: "shop", Pod: "there", RouteServer: "other",
		Baseline: &routingv1.Workload{Kind: customer.Kind, Namespace: customer.Namespace, Name: customer.Name},
		Reached:  &routingv1.Position{Epoch: reached.Epoch, Sequence: reached.Seq},
	}}, nil
}

func (o *others) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls
}

func TestManyWaitsAtOnceAskTheOthersOnce(t *testing.T) {
	const waits = 50
	there := &others{let: make(chan struct{})}
	// One caller has an eighth of them.
	r := newRig(t, api.Config{Peers: there, MaxWaits: 8 * waits}, observe(), declare("k1", "sb"))
	there.reached = r.tip()
	answers := make(chan *routingv1.WaitResponse, waits)
	for range waits {
		go func() { answers <- r.wait(60) }()
	}
	wait.Holds(t, "somebody asks", func() bool { return there.count() > 0 })
	close(there.let)
	for range waits {
		if got := <-answers; !got.GetConverged() || got.GetSidecars() != 1 {
			t.Fatalf("got %v", got)
		}
	}
	there.mu.Lock()
	defer there.mu.Unlock()
	if there.most != 1 {
		t.Errorf("%d questions were under way at once", there.most)
	}
	for _, f := range there.filters {
		if f.GetKind() != "Deployment" || f.GetNamespace() != "shop" || f.GetName() != "customer" {
			t.Errorf("it is asked for more than the baseline: %v", f)
		}
	}
}

func TestTheOthersAreNotAskedWhileASidecarHereIsBehind(t *testing.T) {
	here, there := &proxies{}, &others{let: make(chan struct{})}
	close(there.let)
	r := newRig(t, api.Config{Sidecars: here, Peers: there}, observe(), declare("k1", "sb"))
	there.reached = r.tip()
	here.acknowledge("a", event.Pos{Epoch: r.tip().Epoch, Seq: 1})
	got := r.wait(1)
	if got.GetConverged() || len(got.GetLagging()) != 1 || got.GetSidecars() != 2 {
		t.Errorf("at the end everybody is looked at: %v", got)
	}
	if n := there.count(); n != 1 {
		t.Errorf("the others were asked %d times, though only the last answer needs them", n)
	}
	here.acknowledge("a", r.tip())
	if got := r.wait(10); !got.GetConverged() || got.GetSidecars() != 2 {
		t.Errorf("once it has it: %v", got)
	}
	there.mu.Lock()
	there.reached.Seq--
	there.mu.Unlock()
	if got := r.wait(1); got.GetConverged() || len(got.GetLagging()) != 1 || got.GetLagging()[0].GetPod() != "there" {
		t.Errorf("now one elsewhere is behind: %v", got)
	}
}

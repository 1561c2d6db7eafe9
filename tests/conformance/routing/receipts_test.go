package routing

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/peers"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/port"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

// replica is one of several route servers, with xDS.
type replica struct {
	*asked
	xds *grpc.ClientConn
}

// identify reads tokens of the form pod@workload.
func identify(_ context.Context, token string) (serve.Peer, error) {
	pod, workload, ok := strings.Cut(token, "@")
	if !ok {
		return serve.Peer{}, status.Error(codes.Unauthenticated, "unknown token")
	}
	w := table.Workload{Kind: "Deployment", Namespace: "shop", Name: workload}
	return serve.Peer{Workload: w, Namespace: "shop", Pod: pod, UID: "uid-" + pod}, nil
}

// dns is what stands for a headless Service.
type dns struct{ addresses atomic.Pointer[[]string] }

func (d *dns) lookup(context.Context, string) ([]string, error) {
	if all := d.addresses.Load(); all != nil {
		return *all, nil
	}
	return nil, errors.New("no such host")
}

// newReplica runs a route server on an address of its own and a port that all
// share.
func newReplica(t *testing.T, w *world, names *dns, ip, port string) *replica {
	t.Helper()
	others, err := peers.New(peers.Config{Service: net.JoinHostPort("routeserver-peers", port), Own: []string{ip}, Lookup: names.lookup})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = others.Close() })
	listener, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	var sidecars sidecar.Connected
	a := runServer(t, server.Config{
		Log: w.reader, GRPCAddress: net.JoinHostPort(ip, port), Name: "at-" + ip,
		Sidecars: &sidecars, Peers: others, Parts: []server.Part{sidecars.Serve(listener, identify)},
	})
	w.settle(a)
	return &replica{asked: a, xds: xdstest.Dial(t, listener.Addr().String())}
}

// sidecar connects a sidecar of a workload, which has taken the routes there are.
func (r *replica) sidecar(pod, workload string) *xdstest.Client {
	r.t.Helper()
	c := xdstest.Open(r.t, r.xds, pod+"@"+workload)
	c.Subscribe(translate.RouteName(table.Workload{Kind: "Deployment", Namespace: "shop", Name: workload}))
	c.Ack(c.Next())
	return c
}

// waits asks for a receipt; seconds are what it may take when not all have
// acknowledged.
func (r *replica) waits(key string, pos event.Pos, seconds int32) *routingv1.WaitResponse {
	r.t.Helper()
	got, err := r.client.Wait(within(r.t), &routingv1.WaitRequest{
		RoutingKey: key, Position: &routingv1.Position{Epoch: pos.Epoch, Sequence: pos.Seq}, TimeoutSeconds: seconds,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// lags checks who is missing, as pod@route server.
func lags(t *testing.T, what string, got *routingv1.WaitResponse, sidecars int32, want ...string) {
	t.Helper()
	var lagging []string
	for _, c := range got.GetLagging() {
		lagging = append(lagging, c.GetPod()+"@"+c.GetRouteServer())
	}
	if diff := cmp.Diff(want, lagging); diff != "" || got.GetConverged() != (len(want) == 0) || got.GetSidecars() != sidecars || len(got.GetSilent()) > 0 {
		t.Errorf("%s: converged %v, %d sidecars, silent %v; lagging (-want +got):\n%s", what, got.GetConverged(), got.GetSidecars(), got.GetSilent(), diff)
	}
}

func TestAReceiptIsFromEverySidecarOfAllRouteServers(t *testing.T) {
	w, names := newWorld(t), &dns{}
	w.State(&factv1.Complete{}, observe("shop", "w1", "Deployment", "customer", 8080), observe("shop", "w2", "Deployment", "driver", 8080))
	ips := []string{"127.0.0.2", "127.0.0.3"}
	port := strconv.Itoa(port.Of(t, ips...))
	names.addresses.Store(&ips)
	a, b := newReplica(t, w, names, ips[0], port), newReplica(t, w, names, ips[1], port)
	a1, b1, d1 := a.sidecar("a1", "customer"), b.sidecar("b1", "customer"), b.sidecar("d1", "driver")
	lags(t, "at first", a.waits("", w.End(), 10), 3)

	// A rule: the sidecars of its baseline have to take it, wherever they are.
	at := w.State(declare("k1", member("shop", "w1", "sb1")))
	forA, forB := a1.Next(), b1.Next()
	lags(t, "nobody has taken the rule", a.waits("k1", at, 1), 2, "a1@at-127.0.0.2", "b1@at-127.0.0.3")
	a1.Ack(forA)
	lags(t, "one has", b.waits("k1", at, 1), 2, "b1@at-127.0.0.3")
	b1.Ack(forB)
	lags(t, "both have", a.waits("k1", at, 10), 2)
	lags(t, "all have", a.waits("", at, 10), 3)

	// Its removal has to be taken too, though no rule is there to say by whom.
	at = w.State(&factv1.RoutingWithdrawn{RoutingKey: "k1"})
	forA, forB = a1.Next(), b1.Next()
	a1.Ack(forA)
	lags(t, "one goes on with a rule that is withdrawn", a.waits("k1", at, 1), 2, "b1@at-127.0.0.3")
	b1.Nack(forB, "I will not")
	got := a.waits("k1", at, 1)
	lags(t, "it refuses to let go", got, 2, "b1@at-127.0.0.3")
	if got.GetLagging()[0].GetRejected() != "I will not" {
		t.Errorf("it does not say why: %v", got.GetLagging()[0])
	}

	// What concerns others is nothing to wait for.
	at = w.State(declare("k2", member("shop", "w2", "sb2")))
	lags(t, "the key of another baseline", a.waits("k2", at, 1), 1, "d1@at-127.0.0.3")
	d1.Ack(d1.Next())
	lags(t, "its sidecar has it", a.waits("k2", at, 10), 1)

	// A sidecar that moves to another route server is one sidecar.
	b1.Close()
	eventually(t, "b1 is gone", func() bool { return a.waits("", at, 1).GetSidecars() == 2 })
	d1again := a.sidecar("d1", "driver")
	lags(t, "d1 has two streams", a.waits("", at, 10), 2)
	d1again.Close()

	// One that does not answer may have sidecars that nobody hears of.
	b.stop()
	silent := a.waits("k2", at, 1)
	if silent.GetConverged() || len(silent.GetSilent()) != 1 || silent.GetSilent()[0] != net.JoinHostPort(ips[1], port) {
		t.Errorf("with a route server gone: %v", silent)
	}
	// Once it is no more, it is not asked.
	names.addresses.Store(&[]string{ips[0]})
	lags(t, "alone", a.waits("", at, 10), 1)
	names.addresses.Store(nil)
	if got := a.waits("", at, 1); got.GetConverged() || len(got.GetSilent()) != 1 || got.GetSilent()[0] != "routeserver-peers:"+port {
		t.Errorf("when the others cannot be found: %v", got)
	}
}

func TestSidecarsAreListedByBaseline(t *testing.T) {
	w, names := newWorld(t), &dns{}
	w.State(&factv1.Complete{},
		observe("shop", "w1", "Deployment", "customer", 8080), observe("shop", "w2", "Deployment", "driver", 8080), declare("k1", member("shop", "w1", "sb1")))
	ips := []string{"127.0.0.4", "127.0.0.5"}
	port := strconv.Itoa(port.Of(t, ips...))
	names.addresses.Store(&ips)
	a, b := newReplica(t, w, names, ips[0], port), newReplica(t, w, names, ips[1], port)
	a.sidecar("c1", "customer")
	b.sidecar("c2", "customer")
	b.sidecar("d1", "driver")
	list := func(req *routingv1.SidecarsRequest) []string {
		t.Helper()
		got, err := a.client.Sidecars(within(t), req)
		if err != nil || len(got.GetSilent()) > 0 {
			t.Fatalf("%v, silent %v", err, got.GetSilent())
		}
		var pods []string
		for _, c := range got.GetSidecars() {
			pods = append(pods, c.GetPod())
		}
		return pods
	}
	eventually(t, "all have acknowledged", func() bool { return a.waits("", w.End(), 1).GetConverged() })
	for name, c := range map[string]struct {
		req  *routingv1.SidecarsRequest
		want []string
	}{
		"all":             {&routingv1.SidecarsRequest{}, []string{"c1", "c2", "d1"}},
		"here":            {&routingv1.SidecarsRequest{Local: true}, []string{"c1"}},
		"of a workload":   {&routingv1.SidecarsRequest{Filter: &routingv1.Filter{Name: "driver"}}, []string{"d1"}},
		"with a key":      {&routingv1.SidecarsRequest{Filter: &routingv1.Filter{RoutingKey: "k1"}}, []string{"c1", "c2"}},
		"with a sandbox":  {&routingv1.SidecarsRequest{Filter: &routingv1.Filter{Sandbox: "sb1"}}, []string{"c1", "c2"}},
		"of nothing here": {&routingv1.SidecarsRequest{Filter: &routingv1.Filter{RoutingKey: "k9"}}, nil},
	} {
		if diff := cmp.Diff(c.want, list(c.req)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

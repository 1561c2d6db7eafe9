package receipt_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/receipt"
	"switchyard.dev/routeserver/api/receipts"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/conformance/served"
)

const patience = 15 * time.Second

var customer = table.Workload{Kind: "Deployment", Namespace: "shop", Name: "customer"}

// world is a routing API on a log in memory, with the proxies of one baseline, and
// what asks it for receipts.
type world struct {
	t        *testing.T
	log      *memory.Log
	proxies  *proxies
	again    publish.Again
	receipts *receipt.Receipts
	address  string
	stopAPI  func()
}

// newWorld runs the API, unless address is given, which may have no listener.
func newWorld(t *testing.T, config receipt.Config) *world {
	t.Helper()
	w := &world{t: t, log: memory.New(), proxies: &proxies{}, again: make(publish.Again)}
	if _, err := w.log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	w.state(&factv1.Complete{})
	w.serve(served.AnyPort)
	config.Address, config.Again = w.address, w.again
	var err error
	if w.receipts, err = receipt.New(config); err != nil {
		t.Fatal(err)
	}
	background.Run(w.t, w.receipts.Run)
	return w
}

// serve runs a route server at an address.
func (w *world) serve(address string) {
	w.t.Helper()
	var main *server.Main
	main, w.stopAPI = served.Run(w.t, server.Config{Log: w.log, GRPCAddress: address, Sidecars: w.proxies})
	w.address = main.GRPCAddress()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if _, err := main.View().WaitWhole(ctx); err != nil {
		w.t.Fatal(err)
	}
}

// state records a fact as the newest of its key.
func (w *world) state(data proto.Message) event.Pos {
	w.t.Helper()
	return served.State(w.t, w.log, data)
}

func (w *world) tip() event.Pos {
	w.t.Helper()
	tip, err := w.log.Tip(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	return tip
}

// route puts facts on the log that route requests with a key for the customer to a fork, and returns
// their position.
func (w *world) route(key string) event.Pos {
	w.t.Helper()
	w.state(&factv1.WorkloadObserved{
		Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "shop", Name: "fork", Uid: "u"},
		Created:  timestamppb.New(time.Unix(1, 0)), Ready: true,
		Baseline: &factv1.ObjectRef{Kind: customer.Kind, Namespace: customer.Namespace, Name: customer.Name},
	})
	return w.state(&factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{
		{Kind: "ForkedWorkload", Namespace: "shop", Name: "fork", Sandbox: "sb"},
	}})
}

// woken waits until an object is requeued, and returns its name.
func (w *world) woken() string {
	w.t.Helper()
	select {
	case e := <-w.again:
		return e.Object.GetName()
	case <-time.After(patience):
		w.t.Fatal("nobody is to be looked at again")
		return ""
	}
}

// until looks, as a reconciler does, until the answer is as it should be.
func (w *world) until(name string, ask receipt.Ask, what string, is func(receipt.Answer) bool) receipt.Answer {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		a := w.receipts.Look(w.t.Context(), name, ask)
		if is(a) {
			return a
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: never; the answer is %+v", what, a)
		}
		w.woken()
	}
}

func had(a receipt.Answer) bool { return a.Had }

// proxies are those of the customer that are connected, by pod.
type proxies struct {
	mu   sync.Mutex
	have map[string]receipts.Sidecar
	news chan struct{}
}

func (p *proxies) Sidecars() (out []receipts.Sidecar) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.have {
		out = append(out, c)
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

// acknowledge records that the proxy of a pod has acknowledged a position; rejected is its message if
// it rejected a later one.
func (p *proxies) acknowledge(pod string, pos event.Pos, rejected string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.have == nil {
		p.have = map[string]receipts.Sidecar{}
	}
	p.have[pod] = receipts.Sidecar{Namespace: "shop", Pod: pod, Baseline: customer, Reached: pos, Rejected: rejected}
	if p.news != nil {
		close(p.news)
		p.news = nil
	}
}

package serve

import (
	"context"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
)

// gone is the call of a client that has left.
type gone struct {
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer
	ctx context.Context
}

func (g gone) Context() context.Context { return g.ctx }

// fixed are resources that do not change.
type fixed []translate.Resource

func (f fixed) Resources() ([]translate.Resource, <-chan struct{}) { return f, nil }

// Its turn may be long in coming, and many clients leave at once: none of them may
// keep a processor busy until then.
func TestAStreamWhoseClientLeftWhileItWaitedForItsTurnEnds(t *testing.T) {
	routes, err := translate.Baseline(table.Workload{Kind: "Deployment", Namespace: "hotrod", Name: "customer"})
	if err != nil {
		t.Fatal(err)
	}
	anything := func(string, string) error { return nil }
	ctx, leave := context.WithCancel(t.Context())
	leave()
	server, err := New(Config{Sessions: &viewSessions{}, Writers: 1})
	if err != nil {
		t.Fatal(err)
	}
	server.writers <- struct{}{} // another's turn
	s := newStream(server, gone{ctx: ctx}, Session{Source: fixed(routes), Allows: anything}, &entry{})
	if _, err := s.state.Receive(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: translate.RouteType, ResourceNamesSubscribe: []string{routes[0].Name},
	}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.bring() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it still tries")
	}
}

package routes

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"

	"switchyard.dev/eventbus"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	pb "switchyard.dev/protos/gen/routes"
)

func baseline(kind, namespace, name string) *pb.WorkloadRoutingRulesRequest {
	return &pb.WorkloadRoutingRulesRequest{BaselineWorkload: &pb.BaselineWorkload{Kind: kind, Namespace: namespace, Name: name}}
}

func sandbox(name string) *pb.WorkloadRoutingRulesRequest {
	return &pb.WorkloadRoutingRulesRequest{DestinationSandbox: &pb.DestinationSandbox{Name: name}}
}

// requests are filters as clients use them.
func requests() []*pb.WorkloadRoutingRulesRequest {
	fork := baseline("Deployment", "other", "driver")
	fork.DestinationSandbox = &pb.DestinationSandbox{Name: "sb1"}
	return []*pb.WorkloadRoutingRulesRequest{
		{}, baseline("", "", ""), baseline("Deployment", "shop", "customer"), baseline("", "shop", ""), baseline("ArgoRollout", "", ""),
		{RoutingKey: "k2"}, sandbox("sb1"), sandbox("sb2"), fork,
	}
}

func TestWatchersUnderChurnHaveTheRulesThatAFreshRequestGives(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.State(&factv1.Complete{Reason: "first"})
	m, _ := serve(t, w.Log, anyPort)
	conn := dial(t, m.GRPCAddress())

	churning, stopChurn := context.WithCancel(t.Context())
	defer stopChurn()
	var writers sync.WaitGroup
	writers.Go(func() {
		rng := rand.New(rand.NewPCG(1, 2))
		for i := 0; i < 20_000 && churning.Err() == nil; i++ {
			w.State(churn(rng))
		}
	})
	var clients []*watched
	for range 8 { // generations of clients, so that snapshots are taken during churn
		for _, r := range requests() {
			c := newWatched(conn, r)
			start(t, c)
			clients = append(clients, c)
		}
		eventually(t, "a generation is synced", func() bool { return synced(clients) })
	}
	stopChurn()
	writers.Wait()
	w.State(declare("k1", member("shop", "w1", "sb1")), observe("shop", "w1", "Deployment", "customer", 8080))
	w.Settle(m)
	for _, c := range clients {
		converges(t, conn, c)
	}
	if got := rulesOf(t, conn, nil); len(got) == 0 {
		t.Error("there was nothing to compare")
	}
}

func synced(clients []*watched) bool {
	for _, c := range clients {
		if c.state().synced == 0 {
			return false
		}
	}
	return true
}

// converges waits until a client has exactly the rules that a fresh request
// gives, by identity and in its index by sandbox, and holds it to the protocol.
func converges(t *testing.T, conn grpc.ClientConnInterface, c *watched) {
	t.Helper()
	want := rulesOf(t, conn, c.request)
	routesTo := map[identity][]string{}
	for id, r := range want {
		routesTo[id] = []string{r.GetDestinationSandbox().GetName()}
	}
	var got state
	var diff string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		got = c.state()
		if diff = cmp.Diff(want, got.rules, protocmp.Transform()) + cmp.Diff(routesTo, got.routesTo); diff == "" {
			break
		}
	}
	if diff != "" {
		t.Errorf("watch of %v (-want +got):\n%s", c.request, diff)
	}
	for _, v := range got.violations {
		t.Errorf("watch of %v: %s", c.request, v)
	}
}

func TestAWatchOfNothingIsSyncedAndStaysOpen(t *testing.T) {
	t.Parallel()
	w, m := serving(t, &factv1.Complete{})
	c := newWatched(dial(t, m.GRPCAddress()), baseline("Deployment", "shop", "customer"))
	start(t, c)
	eventually(t, "SYNCED", func() bool { return c.state().synced == 1 })
	w.State(declare("k1", member("shop", "w1", "sb1")), observe("shop", "w1", "Deployment", "customer", 8080))
	eventually(t, "a rule on the same stream", func() bool { return len(c.state().rules) == 1 })
	if got := c.state(); got.opened != 1 || len(got.violations) > 0 {
		t.Errorf("%d streams, violations %v", got.opened, got.violations)
	}
}

// A route group that matches another sandbox: clients of every edition must
// know one destination afterwards, and each fork whether it is meant.
func TestARuleThatMovesToAnotherSandboxIsKnownAtOnePlace(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.State(observe("shop", "w1", "Deployment", "customer", 8080), observe("shop", "w2", "Deployment", "customer", 8080),
		declare("group", member("shop", "w1", "sb1")), &factv1.Complete{})
	m, _ := serve(t, w.Log, anyPort)
	conn := dial(t, m.GRPCAddress())
	all, one, two := newWatched(conn, nil), newWatched(conn, sandbox("sb1")), newWatched(conn, sandbox("sb2"))
	clients := []*watched{all, one, two}
	for _, c := range clients {
		start(t, c)
	}
	eventually(t, "SYNCED", func() bool { return synced(clients) })
	for _, to := range []string{"w2", "w1", "w2"} {
		w.State(declare("group", member("shop", to, "sb"+to[1:])))
		w.Settle(m)
		for _, c := range clients {
			converges(t, conn, c)
		}
	}
	if len(one.state().rules) != 0 || len(two.state().rules) != 1 {
		t.Errorf("sb1 has %d rules, sb2 %d; want 0 and 1", len(one.state().rules), len(two.state().rules))
	}
}

func TestAWorkloadWithoutAServiceHasARule(t *testing.T) {
	t.Parallel()
	_, m := serving(t, observe("shop", "w1", "Deployment", "driver"), declare("k1", member("shop", "w1", "sb1")), &factv1.Complete{})
	got := rulesOf(t, dial(t, m.GRPCAddress()), baseline("Deployment", "shop", "driver"))
	if r := got[identity{"Deployment", "shop", "driver", "k1"}]; r == nil || len(r.GetMappings()) != 0 {
		t.Errorf("got %v", got)
	}
}

// gate is a log that cannot be followed until it is opened.
type gate struct {
	eventbus.Reader
	open chan struct{}
}

func (g gate) Follow(ctx context.Context) (eventbus.Follower, error) {
	select {
	case <-g.open:
		return g.Reader.Follow(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A server that was restarted knows nothing for a while. Its clients must keep
// what they have and, once it knows, see what changed meanwhile.
func TestClientsOutliveARestartWithoutForgettingARule(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.State(observe("shop", "w1", "Deployment", "customer", 8080), &factv1.Complete{})
	for _, key := range []string{"k1", "k2", "k3"} {
		w.State(declare(key, member("shop", "w1", "sb1")))
	}
	m, stop := serve(t, w.Log, anyPort)
	address := m.GRPCAddress()
	conn := dial(t, address)
	var clients []*watched
	for _, r := range []*pb.WorkloadRoutingRulesRequest{nil, baseline("Deployment", "shop", "customer"), sandbox("sb1")} {
		c := newWatched(conn, r)
		start(t, c)
		clients = append(clients, c)
	}
	eventually(t, "SYNCED", func() bool { return synced(clients) })

	stop()
	cold := gate{w.Log, make(chan struct{})}
	m, _ = serve(t, cold, address)
	asked := func() {
		for _, c := range clients {
			before := c.state().opened
			eventually(t, "each client asks the cold server again and again", func() bool { return c.state().opened > before+3 })
		}
	}
	asked() // The server that stops may have answered once more.
	var snapshots []int
	for _, c := range clients {
		snapshots = append(snapshots, c.state().synced)
	}
	asked()
	for i, c := range clients {
		if got := c.state(); len(got.rules) != 3 || got.synced != snapshots[i] {
			t.Errorf("a cold server left %d rules, after %d snapshots where there were %d", len(got.rules), got.synced, snapshots[i])
		}
	}
	w.State(declare("k4", member("shop", "w1", "sb1")))
	close(cold.open)
	w.Settle(m)
	for i, c := range clients {
		eventually(t, "a snapshot of the new server", func() bool { return c.state().synced > snapshots[i] })
		converges(t, conn, c)
		if got := c.state().smallestSnapshot; got < 3 {
			t.Errorf("a snapshot of %d rules, when there were never fewer than 3", got)
		}
	}
}

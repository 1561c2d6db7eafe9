package routes

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	pb "switchyard.dev/protos/gen/routes"
)

// Clients look rules up under the names that they asked with, byte for byte.
func TestNamesComeBackAsTheyWereAsked(t *testing.T) {
	t.Parallel()
	w := begin(t)
	const odd = "Ä-straße.ｗide"
	w.State(observe("shop", "w1", "Deployment", "Customer", 8080), observe("shop", "w2", "Deployment", "customer", 8080), observe("shop", "w3", "ArgoRollout", odd),
		declare("Key.With-Signs_~!", member("shop", "w1", "Sb.One"), member("shop", "w2", "sb.one"), member("shop", "w3", "sb")), &factv1.Complete{})
	m, _ := serve(t, w.Log, anyPort)
	w.Settle(m)
	conn := dial(t, m.GRPCAddress())
	for _, f := range []filters{
		{"Deployment", "shop", "Customer", "Key.With-Signs_~!", "Sb.One"}, {"Deployment", "shop", "customer", "Key.With-Signs_~!", "sb.one"},
		{"ArgoRollout", "shop", odd, "Key.With-Signs_~!", "sb"},
	} {
		want := identity{f[0], f[1], f[2], f[3]}
		for how, got := range map[string]map[identity]*pb.WorkloadRoutingRule{
			"gRPC": rulesOf(t, conn, f.request()), "a watch": snapshotOf(t, conn, f.request()),
			"REST": overREST(t, m.RESTAddress(), "/api/v1/workloads/routing-rules", f),
		} {
			if r := got[want]; len(got) != 1 || r.GetDestinationSandbox().GetName() != f[4] {
				t.Errorf("%s with %q gives %v", how, f, got)
			}
		}
	}
	for _, f := range []filters{{"deployment"}, {"", "Shop"}, {"", "", "CUSTOMER"}, {"", "", "", "key.with-signs_~!"}, {"", "", "", "", "SB"}} {
		if got := rulesOf(t, conn, f.request()); len(got) != 0 {
			t.Errorf("%q gives %v", f, got)
		}
	}
}

// A key that is empty would be that of every message that carries none. Our log
// takes no such fact; nor is one published that comes all the same.
func TestNothingIsPublishedForAnEmptyRoutingKey(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.State(observe("shop", "w1", "Deployment", "customer", 8080), declare("k1", member("shop", "w1", "sb1")), &factv1.Complete{})
	m, _ := serve(t, keyless{w.Log}, anyPort)
	w.Settle(m)
	conn := dial(t, m.GRPCAddress())
	if got := rulesOf(t, conn, nil); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if got := snapshotOf(t, conn, nil); len(got) != 0 {
		t.Errorf("a watch gives %v", got)
	}
}

// keyless is a log whose declarations have lost their routing keys.
type keyless struct{ eventbus.Reader }

func (k keyless) Follow(ctx context.Context) (eventbus.Follower, error) {
	f, err := k.Reader.Follow(ctx)
	return keylessFollower{f}, err
}

type keylessFollower struct{ eventbus.Follower }

func (k keylessFollower) Next(ctx context.Context) ([]event.Recorded, error) {
	facts, err := k.Follower.Next(ctx)
	for i := range facts {
		if d, ok := facts[i].Fact.Data.(*factv1.RoutingDeclared); ok {
			facts[i].Fact.Data = declare("", d.GetMembers()...)
		}
	}
	return facts, err
}

// Clients write host:port, so a host must never be a bare IPv6 address, also
// where the cluster has no others; and those that take the first destination
// must not be sent to and fro: an order once told does not change by itself.
func TestDestinationsAreNamesInAnOrderThatStays(t *testing.T) {
	t.Parallel()
	w := begin(t)
	six := observe("shop", "w1", "Deployment", "customer", 9090, 8080, 8080, 8080)
	for i, s := range six.GetServices() {
		s.ClusterIp = []string{"fd00::1", "fd00::2", "", "fd00::4"}[i]
	}
	w.State(six, declare("k1", member("shop", "w1", "sb1")), &factv1.Complete{})
	m, _ := serve(t, w.Log, anyPort)
	w.Settle(m)
	conn := dial(t, m.GRPCAddress())
	c := newWatched(conn, nil)
	start(t, c)
	eventually(t, "SYNCED", func() bool { return synced([]*watched{c}) })
	first := rulesOf(t, conn, nil)
	for range 3 {
		six = proto.Clone(six).(*factv1.WorkloadObserved)
		slices.Reverse(six.Services)
		w.State(six)
		w.Settle(m)
		if diff := cmp.Diff(first, rulesOf(t, conn, nil), protocmp.Transform()); diff != "" {
			t.Fatalf("another order (-first +now):\n%s", diff)
		}
	}
	w.State(declare("k2", member("shop", "w1", "sb1")))
	w.Settle(m)
	converges(t, conn, c)
	for _, r := range first {
		if !addressable(r) || len(r.GetMappings()) != 2 || len(r.GetMappings()[0].GetDestinations()) != 3 {
			t.Errorf("got %v", r)
		}
	}
}

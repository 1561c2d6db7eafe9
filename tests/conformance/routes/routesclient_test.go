package routes

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/protos/routesclient"
)

// newClient returns the module's own client of a route server.
func newClient(t *testing.T, address string) *routesclient.Client {
	t.Helper()
	client, err := routesclient.Dial(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// forked are the facts of a fork of customer in namespace shop, under key k1.
func forked() []proto.Message {
	return []proto.Message{
		declare("k1", member("shop", "sb1-customer", "sb1")), observe("shop", "sb1-customer", "Deployment", "customer", 8080), &factv1.Complete{Reason: "first"},
	}
}

func TestTheClientListsTheSameRulesOverGRPCAndHTTP(t *testing.T) {
	t.Parallel()
	_, m := serving(t, forked()...)
	client := newClient(t, m.GRPCAddress())
	for _, filter := range []routesclient.Filter{
		{}, {RoutingKey: "k1"}, {RoutingKey: "k2"}, {Sandbox: "sb1"}, {Baseline: routesclient.Baseline{Kind: "Deployment", Name: "customer"}},
	} {
		overGRPC, err := client.Rules(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		overHTTP, err := routesclient.HTTP{URL: "http://" + m.RESTAddress()}.Rules(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		if want := filter.RoutingKey != "k2"; want != (len(overGRPC) == 1) {
			t.Errorf("%+v: %d rules", filter, len(overGRPC))
		}
		if diff := cmp.Diff(overGRPC, overHTTP, protocmp.Transform()); diff != "" {
			t.Errorf("%+v (-gRPC +HTTP):\n%s", filter, diff)
		}
	}
}

// Sandboxes are declared and withdrawn, and the server restarts.
func TestTheClientKeepsItsRulesCurrent(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.State(forked()...)
	m, stop := serve(t, w.Log, anyPort)
	customer := routesclient.Baseline{Kind: "Deployment", Namespace: "shop", Name: "customer"}
	watched := newClient(t, m.GRPCAddress()).Watch(t.Context(), routesclient.Filter{Baseline: customer})
	<-watched.Synced()
	for _, c := range []struct {
		sandbox, key string
		want         bool
	}{{"", "", true}, {"", "k1", false}, {"", "k2", true}, {"sb1", "k1", true}, {"sb1", "", false}, {"sb1", "k2", false}, {"sb2", "k1", false}} {
		if got := watched.Processes(customer, c.sandbox, c.key); got != c.want {
			t.Errorf("consumer of sandbox %q, message with key %q: %t", c.sandbox, c.key, got)
		}
	}
	w.State(declare("k2", member("shop", "sb1-customer", "sb2")))
	eventually(t, "the rule of k2 is added", func() bool { return watched.Rule(customer, "k2").GetDestinationSandbox().GetName() == "sb2" })
	w.State(declare("k3", member("shop", "sb1-customer", "sb3")))
	eventually(t, "the rule of k3 is added", func() bool { return watched.Rule(customer, "k3") != nil })
	w.State(&factv1.RoutingWithdrawn{RoutingKey: "k3"})
	eventually(t, "the rule of k3 is removed", func() bool { return watched.Rule(customer, "k3") == nil })
	stop()
	w.State(&factv1.RoutingWithdrawn{RoutingKey: "k1"})
	if watched.Rule(customer, "k1") == nil {
		t.Error("the rules are not kept while the server is unavailable")
	}
	serve(t, w.Log, m.GRPCAddress())
	eventually(t, "the rule of k1 is removed", func() bool { return watched.Rule(customer, "k1") == nil })
	if watched.Rule(customer, "k2") == nil {
		t.Error("the rule of k2 is lost")
	}
}

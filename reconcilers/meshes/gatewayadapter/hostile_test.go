package gatewayadapter_test

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/tests/world"
)

// TestAnotherControllerIsNotFought lets another client revert each repair at once. Repairs become rare,
// the status reports it, and the route is restored after the client stops.
func TestAnotherControllerIsNotFought(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	c.httpRoute("shop", "customer")
	fork := c.sandbox("k1")
	r := c.derives("k1", "it leads to the fork", leadsTo(fork))
	c.says("k1", "that it is derived", isDerived)
	events, err := c.routes.Watch(t.Context(), &gatewayv1.HTTPRouteList{}, client.InNamespace(c.ns), client.MatchingLabels{gatewayapi.LabelRoutingKey: "k1"})
	c.Must(err)
	c.writes.Store(0)
	began, his := time.Now(), 0
	undo := func(r *gatewayv1.HTTPRoute) {
		if !leadsTo(fork)(r) {
			return
		}
		r.Spec.Rules[0].BackendRefs[0].Name = "customer"
		if err := c.routes.Update(t.Context(), r); client.IgnoreNotFound(err) == nil {
			his++
		}
	}
	undo(r)
	for end := time.After(4 * time.Second); time.Since(began) < 4*time.Second; {
		select {
		case e := <-events.ResultChan():
			if now, is := e.Object.(*gatewayv1.HTTPRoute); is {
				undo(now)
			}
		case <-end:
		}
	}
	events.Stop()
	ours := c.writes.Load()
	t.Logf("he has written %d times, we %d times", his, ours)
	if ours < 9 || ours > 20 {
		t.Errorf("we have written %d times in 4 s", ours)
	}
	c.says("k1", "that something changes it", func(r gatewayadapter.Report) bool {
		return len(r.Matches) == 1 && (r.Matches[0].Status == meshes.StatusFailed && strings.Contains(r.Matches[0].Message, "Something changes HTTPRoute") || isDerived(r))
	})
	c.derives("k1", "it is repaired", leadsTo(fork))
	c.says("k1", "that it is derived", isDerived)
}

// TestTwoKeysThatAskForOneName has two routing keys that differ in capital letters alone, chosen so
// that the hashes in the names of their routes are equal.
func TestTwoKeysThatAskForOneName(t *testing.T) {
	first, second := twins(t)
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	c.httpRoute("shop", "customer")
	c.sandbox(second)
	c.derives(second, "it has the name", nil)
	fork := c.sandbox(first)
	c.derives(first, "of two keys the first has it", leadsTo(fork))
	c.says(second, "who has the name", func(r gatewayadapter.Report) bool {
		return r.Lost != nil && r.Lost.Reason == gatewayapi.ReasonNameTaken && strings.Contains(r.Lost.Message, first) && strings.Contains(r.Lost.Message, "Use another key")
	})
	c.says(first, "that it is derived", isDerived)
	before := c.writes.Load()
	c.httpRoute("aside", "nobody") // Everything is derived again.
	c.says(second, "who has the name", func(r gatewayadapter.Report) bool {
		return r.Lost != nil && r.Lost.Reason == gatewayapi.ReasonNameTaken
	})
	c.says(first, "that it is derived", isDerived)
	if n := c.writes.Load() - before; n > 0 {
		t.Errorf("they were written %d times more", n)
	}
	c.withdraw(first)
	c.derives(second, "the name is free", nil)
	c.withdraw(second)
	c.none(second)
	c.none(first)
}

// twins returns two routing keys, sorted, for which routes derived from route shop have one name.
func twins(t *testing.T) (first, second string) {
	t.Helper()
	const letters = "abcdefghijklmnopqrst"
	seen := map[string]string{}
	for bits := range 1 << len(letters) {
		key := []byte(letters)
		for i := range key {
			if bits>>i&1 == 1 {
				key[i] -= 'a' - 'A'
			}
		}
		name := crdv1.ObjectName(crdv1.MaxObjectName-len("-00"), "shop", string(key))
		if other, has := seen[name]; has {
			return min(other, string(key)), max(other, string(key))
		}
		seen[name] = string(key)
	}
	t.Fatal("there are none")
	return "", ""
}

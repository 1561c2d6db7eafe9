package routingconfig_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/receipt"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingconfig"
)

// The API server would reject a status that grows with the members at some size, and no problem could
// be reported.
func TestAStatusHasABoundHoweverManyMembers(t *testing.T) {
	const many = 4000
	c := config("c", "k", 0)
	in := routingconfig.Input{Routing: routing.Of(&c, nil, nil), SameKey: []crdv1.RoutingConfig{c}}
	for i := range many {
		var w crdv1.Member = virtual(fmt.Sprint("v", i), fmt.Sprint("base", i))
		if i%2 == 0 {
			f := fork(fmt.Sprint("f", i), true)
			f.Spec.Baseline.Name = fmt.Sprint("base", i)
			w = f
		}
		*w.StatusConditions() = nil
		told(w, "True", baseline.ReasonNoPods, fmt.Sprintf("ns/base%d has no pods; its pod template asks for a DevMesh Sidecar.", i))
		add(w)(&in)
	}
	d := routingconfig.Decide(in)
	after := routingconfig.Conclude(in, d, routingconfig.Published{}, routingconfig.Receipt{Answer: receipt.Answer{Had: true}}, now)
	if n := len(after.Status.ProcessedWorkloads); n != 500 {
		t.Errorf("processedWorkloads has %d entries", n)
	}
	if n := len(after.Status.RouteServer.Routes); n != 500 {
		t.Errorf("routes has %d entries", n)
	}
	found := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionWorkloadsFound).Message
	for _, says := range []string{"reachable under the key: 4000", "processedWorkloads leaves out 3500 more", "routes leaves out 1500 more"} {
		if !strings.Contains(found, says) {
			t.Errorf("%q does not say %q", found, says)
		}
	}
	for _, c := range after.Status.Conditions {
		if len(c.Message) > 1000 {
			t.Errorf("the message of %s has %d bytes", c.Type, len(c.Message))
		}
	}
	if text, err := json.Marshal(after.Status); err != nil || len(text) > 400<<10 {
		t.Errorf("the status takes %d bytes, %v", len(text), err)
	}
}

func TestATooLargeDeclarationNamesTheRemedy(t *testing.T) {
	refused := routingconfig.Published{Err: errors.New("it takes 70000 bytes, more than 65536"), Refused: true}
	yes := true
	for _, tt := range []struct{ kind, says string }{
		{"", "in spec.sandboxedWorkloads."},
		{crdv1.KindSandbox, "in the spec of SignadotSandbox a."},
		{crdv1.KindRouteGroup, "in spec.sandboxNames of SignadotRouteGroup a."},
	} {
		c := config("c", "k", 0)
		if tt.kind != "" {
			c.OwnerReferences = []metav1.OwnerReference{{Kind: tt.kind, Name: "a", UID: "a", Controller: &yes}}
		}
		in := routingconfig.Input{Routing: routing.Of(&c, nil, nil)}
		add(fork("f", true))(&in)
		after := routingconfig.Conclude(in, routingconfig.Decide(in), refused, routingconfig.Receipt{}, now)
		ready := crdv1.FindCondition(after.Status.Conditions, crdv1.ConditionReady)
		for _, says := range []string{"70000 bytes", "of 1 workloads", `routing key "k"`, "fewer members", tt.says} {
			if ready.Reason != "FactRefused" || !strings.Contains(ready.Message, says) {
				t.Errorf("%+v does not say %q", ready, says)
			}
		}
	}
}

package middleware

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// A group that has lost the claim of its key takes over nothing.
func TestGroupsThatHoldTheirKeys(t *testing.T) {
	group := func(name, key, status, reason string) crdv1.SignadotRouteGroup {
		g := crdv1.SignadotRouteGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
		g.Spec.RoutingKey, g.Spec.TrafficManagerMatches = key, []crdv1.MiddlewareMatch{{}}
		if status != "" {
			g.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionAccepted, Status: status, Reason: reason}}
		}
		return g
	}
	all := []crdv1.SignadotRouteGroup{
		group("warned", "w", "True", "AcceptedWithWarning"), group("holder", "k", "True", "Accepted"), group("late", "k", "False", "RoutingKeyTaken"),
		group("new", "n", "", ""), group("misnamed", "m", "False", "InvalidSpec"), group("same", "id", "True", "Accepted"),
	}
	s := &crdv1.SignadotSandbox{Spec: crdv1.SignadotSandboxSpec{ID: "id"}}
	if got := lists.Map(Own(all, s), func(g *crdv1.SignadotRouteGroup) string { return g.Name }); !slices.Equal(got, []string{"holder", "misnamed", "warned"}) {
		t.Errorf("they are %v", got)
	}
	if holder, late := &all[1], &all[2]; !Changed(holder, late) || !Changed(late, holder) || Changed(holder, &all[0]) {
		t.Error("the loss of a key is not noticed, or something else is")
	}
}

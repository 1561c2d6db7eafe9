package middleware

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/routing"
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

// The first fork with an override has it, and each member with trafficwatch that; a group takes its key from those of the sandbox.
func TestTheTrafficCapturesOfASandbox(t *testing.T) {
	fork := func(name string) *crdv1.ForkedWorkload {
		return &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	}
	all := func(names ...string) []crdv1.MiddlewareMatch {
		return lists.Map(names, func(name string) crdv1.MiddlewareMatch {
			return crdv1.MiddlewareMatch{Instance: crdv1.MiddlewareInstance{Middleware: name}}
		})
	}
	s, g := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, &crdv1.SignadotRouteGroup{ObjectMeta: metav1.ObjectMeta{Name: "g"}}
	s.Spec.RequestMiddlewares = all(routing.Override, routing.TrafficWatch, routing.Override)
	g.Spec.RoutingKey, g.Spec.TrafficManagerMatches = "release", all(routing.TrafficWatch)
	v := &crdv1.VirtualWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "v"}, Spec: crdv1.VirtualWorkloadSpec{Baseline: crdv1.ObjectRef{Kind: "Deployment", Name: "b"}}}
	asked := Asked{Sandbox: s, Groups: []*crdv1.SignadotRouteGroup{g}, Members: []crdv1.Member{fork("a"), fork("b"), v}}
	var got []string
	for _, of := range asked.scopes() {
		for _, at := range asked.attachments(of) {
			if c := at.capture("s"); at.instance != nil {
				got = append(got, fmt.Sprintf("%s %s only %v but %v, of group %q", at.middleware, c.Spec.Workload, c.Spec.RoutingKeys, c.Spec.ExceptRoutingKeys, c.Labels[crdv1.LabelRouteGroup]))
			}
		}
	}
	want := []string{
		`trafficwatch a only [] but [release], of group ""`, `override a only [] but [release], of group ""`,
		`trafficwatch b only [] but [release], of group ""`, `trafficwatch v only [] but [release], of group ""`,
		`trafficwatch a only [release] but [], of group "g"`, `trafficwatch b only [release] but [], of group "g"`, `trafficwatch v only [release] but [], of group "g"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("they are %q", got)
	}
}

func TestRefusalsOfGroupsAreConditionsOfTheSandbox(t *testing.T) {
	s := &crdv1.SignadotSandbox{}
	s.Status.Conditions = []crdv1.StatusCondition{{Type: crdv1.ConditionReady}, {Type: ConditionOf("was")}, {Type: ConditionOf("is")}}
	conditions := condition.Set{}
	Attached{Groups: map[string]*apply.Refusal{"is": {Reason: apply.ReasonQuota, Message: "over"}}}.WriteGroups(s, conditions)
	left := lists.Map(s.Status.Conditions, func(c crdv1.StatusCondition) string { return c.Type })
	if !slices.Equal(left, []string{crdv1.ConditionReady, ConditionOf("is")}) || len(conditions) != 1 || conditions[ConditionOf("is")].Reason != apply.ReasonQuota {
		t.Errorf("left are %v, and added %v", left, conditions)
	}
}

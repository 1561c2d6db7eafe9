package manager_test

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/tests/world"
)

// networkPolicy creates a NetworkPolicy for pods with a label.
func (c *cluster) networkPolicy(ns, name, labels string) *networkingv1.NetworkPolicy {
	c.Helper()
	p := &networkingv1.NetworkPolicy{}
	c.Make(p, `{metadata: {name: `+name+`, namespace: `+ns+`}, spec: {podSelector: {matchLabels: {`+labels+`}}}}`)
	return p
}

// cart creates a baseline with a label that no Service selects.
func (c *cluster) cart(ns string) {
	c.Helper()
	world.Edit(c.World, c.baseline(ns, "cart", withSidecar), func(d *appsv1.Deployment) { d.Spec.Template.Labels["team"] = "shop" })
}

// withoutPolicies waits until an object reports no policy that does not apply.
func (c *cluster) withoutPolicies(o interface {
	client.Object
	crdv1.Conditioned
}) {
	c.Helper()
	c.Eventually("no policy is reported", func() error {
		if err := c.Look(o); err != nil {
			return err
		}
		if left := crdv1.FindCondition(*o.StatusConditions(), crdv1.ConditionPoliciesApply); left != nil {
			return errors.New(left.Message)
		}
		return nil
	})
}

func TestForksThatPoliciesDoNotSelectAreReported(t *testing.T) {
	const ns = "fw-policies-reported"
	c := shared(t, ns)
	c.cart(ns)
	s, w, fork := c.ready("policies-reported", "policies-reported", ns, "cart")
	c.withoutPolicies(s)

	c.quiet() // So that only the policy starts another sync.
	usual := c.networkPolicy(ns, "cart-only", "app: cart")
	for _, o := range []client.Object{w, s} {
		c.Says(c.Condition(o, crdv1.ConditionPoliciesApply, "False", forkedworkload.ReasonPolicyNotApplied),
			"NetworkPolicy "+ns+"/cart-only", "a fork cannot keep label app", crdv1.LabelForkedWorkload)
		c.Condition(o, crdv1.ConditionReady, "True", "Ready")
	}
	c.quiet()
	c.remove(usual)
	c.withoutPolicies(w)
	c.withoutPolicies(s)

	c.quiet()
	c.networkPolicy(ns, "shop-only", "team: shop")
	c.Says(c.Condition(s, crdv1.ConditionPoliciesApply, "False", forkedworkload.ReasonPolicyNotApplied),
		"NetworkPolicy "+ns+"/shop-only", "Add ^team$ to spec.customization.preservedLabels")
	world.Edit(c.World, s, func(s *crdv1.SignadotSandbox) { s.Spec.Customization.PreservedLabels = []string{"^team$"} })
	c.withoutPolicies(s)
	if c.Get(fork); fork.Spec.Template.Labels["team"] != "shop" {
		t.Errorf("no policy is reported, and the fork has labels %v", fork.Spec.Template.Labels)
	}
}

func TestForksThatPoliciesDoNotSelectAreRefusedByAValue(t *testing.T) {
	const ns = "fw-policies-refused"
	c := newCluster(t, ns)
	stop := c.manage(manager.Config{Policies: policies.Settings{Workloads: policies.Refuse}})
	c.cart(ns)
	s, _, fork := c.ready("policies-refused", "policies-refused", ns, "cart")

	c.quiet()
	c.networkPolicy(ns, "shop-only", "team: shop")
	c.Says(c.Condition(s, crdv1.ConditionReady, "False", forkedworkload.ReasonPolicyNotApplied), "NetworkPolicy "+ns+"/shop-only")
	c.Gone(fork)
	all := c.forks(ns)
	if len(all) != 1 {
		t.Fatalf("there are %d ForkedWorkloads", len(all))
	}
	w := &all[0]
	c.Condition(w, crdv1.ConditionAccepted, "False", forkedworkload.ReasonPolicyNotApplied)

	// The installation keeps the label for all forks.
	stop()
	c.manage(manager.Config{Policies: policies.Settings{Workloads: policies.Refuse, PreservedLabels: []string{"^team$"}}})
	c.Condition(w, crdv1.ConditionAccepted, "True", "Accepted")
	c.withoutPolicies(w)
	c.Eventually("the fork is created again, with the label", func() error {
		if err := c.Look(fork); err != nil {
			return err
		}
		if fork.Spec.Template.Labels["team"] != "shop" {
			return fmt.Errorf("it has labels %v", fork.Spec.Template.Labels)
		}
		return nil
	})
	c.Available(fork)
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
}

package manager_test

import (
	"cmp"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/gatewayapiroute"
	"switchyard.dev/reconcilers/istioroute"
	"switchyard.dev/tests/world"
)

// TestAnUnsupportedKindIsReported creates objects as the published agent, kubectl and
// GitOps tools do, and reads their status as `kubectl wait` does. The published rule is
// that the operator fills in every condition type, as Unknown where it does not know, so
// that a missing type means an operator that does not know the type.
func TestAnUnsupportedKindIsReported(t *testing.T) {
	const ns = "unsupported"
	c := start(t, ns)
	for _, tt := range []struct {
		object         crdv1.Conditioned
		spec, says, at string
		// reason is that of every condition; empty for NotSupportedYet.
		reason string
		// changed makes another generation; nil where a change of the spec is one.
		change func(o crdv1.Conditioned)
		// observed is status.observedGeneration.
		observed func(o crdv1.Conditioned) int64
	}{
		{
			object: &crdv1.Job{}, at: "metadata: {name: nightly}", says: "Nothing acts on Job nightly: this installation does not run jobs.",
			spec:     `{runnerGroup: {namespace: ci, name: runners}, content: {command: [make, test]}, canceled: false}`,
			change:   func(o crdv1.Conditioned) { o.(*crdv1.Job).Spec.Canceled = true },
			observed: func(o crdv1.Conditioned) int64 { return o.(*crdv1.Job).Status.ObservedGeneration },
		},
		{
			object: &crdv1.JobRunnerGroup{}, at: "metadata: {namespace: " + ns + ", name: runners}", says: "JobRunnerGroup unsupported/runners: this installation does not start job runners.",
			spec:     `{image: "ubuntu:24.04"}`,
			change:   func(o crdv1.Conditioned) { o.(*crdv1.JobRunnerGroup).Spec.Image = "ubuntu:26.04" },
			observed: func(o crdv1.Conditioned) int64 { return o.(*crdv1.JobRunnerGroup).Status.ObservedGeneration },
		},
		{
			object: &crdv1.Resource{}, at: "metadata: {name: lone-db}", says: "Resource lone-db: this installation does not run the steps of resource plugins.",
			spec:     `{name: db, pluginName: mariadb, olm: {preStart: [{name: make, type: ExecUnit}]}}`,
			change:   func(o crdv1.Conditioned) { o.(*crdv1.Resource).Spec.PluginName = "postgres" },
			observed: func(o crdv1.Conditioned) int64 { return o.(*crdv1.Resource).Status.ObservedGeneration },
		},
		{
			object: &crdv1.SignadotObjectLifecycleMethods{}, at: "metadata: {name: lone-db}", says: "SignadotObjectLifecycleMethods lone-db: this installation does not run the units of lifecycle methods.",
			spec:   `{ioContextName: io, preStart: [{name: make, type: ExecUnit}]}`,
			change: func(o crdv1.Conditioned) { o.(*crdv1.SignadotObjectLifecycleMethods).Spec.IOContextName = "other" },
			observed: func(o crdv1.Conditioned) int64 {
				return o.(*crdv1.SignadotObjectLifecycleMethods).Status.ObservedGeneration
			},
		},
		{
			object: &crdv1.IstioRoute{}, at: "metadata: {name: customer}", says: "Nothing acts on IstioRoute customer: istio.enabled is false.",
			reason: istioroute.ReasonIstioDisabled,
			spec: `{routingKey: k, managed: {namespace: shop, targetService: customer, mappings: [], baseline: {kind: Deployment, namespace: shop, name: customer, workloadID: u},
  sandboxedWorkload: {kind: ForkedWorkload, namespace: shop, name: fork}}}`,
			change:   func(o crdv1.Conditioned) { o.(*crdv1.IstioRoute).Spec.RoutingKey = "other" },
			observed: func(o crdv1.Conditioned) int64 { return o.(*crdv1.IstioRoute).Status.ObservedGeneration },
		},
		{
			object: &crdv1.GatewayAPIRoute{}, at: "metadata: {name: customer}", says: "Nothing acts on GatewayAPIRoute customer: neither istio.gatewayAPI.enabled nor",
			reason: gatewayapiroute.ReasonGatewayAPIDisabled,
			spec: `{routingKey: k, managed: {namespace: shop, targetService: customer, mappings: [], baseline: {kind: Deployment, namespace: shop, name: customer, workloadID: u},
  sandboxedWorkload: {kind: ForkedWorkload, namespace: shop, name: fork}}}`,
			change:   func(o crdv1.Conditioned) { o.(*crdv1.GatewayAPIRoute).Spec.RoutingKey = "other" },
			observed: func(o crdv1.Conditioned) int64 { return o.(*crdv1.GatewayAPIRoute).Status.ObservedGeneration },
		},
	} {
		t.Run(fmt.Sprintf("%T", tt.object), func(t *testing.T) {
			o, ok := tt.object.(client.Object)
			if !ok {
				t.Fatal("no object")
			}
			c.Make(o, "{"+tt.at+", spec: "+tt.spec+"}")
			for _, generation := range []int64{1, 2} {
				for _, conditionType := range tt.object.ConditionTypes() {
					c.Says(c.Condition(o, conditionType, "Unknown", cmp.Or(tt.reason, baseline.ReasonNotSupportedYet)), tt.says)
				}
				if o.GetGeneration() != generation || tt.observed(tt.object) != generation {
					t.Errorf("generation %d: status.observedGeneration is %d", o.GetGeneration(), tt.observed(tt.object))
				}
				if generation == 1 {
					world.Edit(c.World, o, func(o client.Object) { tt.change(tt.object) })
				}
			}
			if len(o.GetFinalizers()) > 0 {
				t.Errorf("it has finalizers, although nothing is done for it: %v", o.GetFinalizers())
			}
			c.remove(o)
			c.Gone(o)
		})
	}
}

// TestAnObjectThatAnotherProgramActsOnIsLeftToIt provides a Resource as a plugin engine
// of somebody else's does, and changes its spec: the operator says nothing of it then.
func TestAnObjectThatAnotherProgramActsOnIsLeftToIt(t *testing.T) {
	c := start(t, "acted-on")
	r := &crdv1.Resource{}
	c.Make(r, `{metadata: {name: acted-on}, spec: {name: db, pluginName: mariadb, olm: {}}}`)
	c.Condition(r, crdv1.ConditionReady, "Unknown", baseline.ReasonNotSupportedYet)
	c.Eventually("the engine writes the status", func() error {
		if err := c.Look(r); err != nil {
			return err
		}
		r.Status = crdv1.ResourceStatus{Phase: "Ready", ObservedGeneration: r.Generation, Conditions: []crdv1.StatusCondition{{
			Type: crdv1.ConditionReady, Status: "True", Reason: "Ready", LastTransitionTime: metav1.Now(),
		}}}
		return c.Client.Status().Update(c.Context(), r)
	})
	world.Edit(c.World, r, func(r *crdv1.Resource) { r.Spec.PluginName = "postgres" })
	// One that came later has been looked at, so this one has.
	later := &crdv1.Resource{}
	c.Make(later, `{metadata: {name: acted-on-later}, spec: {name: db, pluginName: mariadb, olm: {}}}`)
	c.Condition(later, crdv1.ConditionReady, "Unknown", baseline.ReasonNotSupportedYet)
	c.quiet()
	c.Get(r)
	if len(r.Status.Conditions) != 1 || r.Status.Conditions[0].Status != "True" || r.Status.ObservedGeneration != 1 {
		t.Error(errors.New("the operator has written to its status"), r.Status)
	}
	for _, o := range []client.Object{r, later} {
		c.remove(o)
		c.Gone(o)
	}
}

package manager_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/forkedworkload"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/tests/world"
)

// looks counts how often ForkedWorkloads were reconciled in this process.
func (c *cluster) looks() int {
	c.Helper()
	families, err := metrics.Registry.Gather()
	c.Must(err)
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "controller_runtime_reconcile_total" && l.GetName() == "controller" && l.GetValue() == "forkedworkload" {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return int(sum)
}

func TestAnEventLeadsToThoseAloneWhomItIsAbout(t *testing.T) {
	const ns = "fw-events"
	c := start(t, ns)
	a, other := c.baseline(ns, "a", withSidecar), c.baseline(ns, "without-forks", withSidecar)
	w := c.forkedWorkload(ns, "mine", "a")
	_, made := c.fork(ns)
	c.Available(made)
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	c.quiet()

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"}}
	tests := []struct {
		name  string
		event func()
	}{
		{"an annotation on a Service that a controller keeps its state in", func() {
			world.Edit(c.World, service, func(s *corev1.Service) {
				s.Annotations = map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "now"}
			})
		}},
		{"the status of the baseline, of as many pods", func() {
			edited := a.DeepCopy()
			edited.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}
			if err := c.Client.Status().Patch(c.Context(), edited, client.MergeFrom(a)); err != nil {
				t.Fatal(err)
			}
		}},
		{"a Service that selects another workload", func() {
			c.Make(&corev1.Service{}, `{metadata: {name: more, namespace: `+ns+`}, spec: {selector: {app: without-forks}, ports: [{port: 80}]}}`)
		}},
		{"a Service that selects nobody", func() {
			c.Make(&corev1.Service{}, `{metadata: {name: nobody, namespace: `+ns+`}, spec: {ports: [{port: 80}]}}`)
		}},
		{"another workload and its pods", func() {
			world.Edit(c.World, other, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "other:2" })
			c.pod(other, "without-forks-h-1", corev1.ContainerStatus{Name: "main", Ready: true})
		}},
		{"a pod of the fork that starts as it should", func() {
			c.podAs(made, "starts", func(p *corev1.Pod) { p.Labels = made.Spec.Template.Labels }, corev1.ContainerStatus{Name: "main", Ready: true})
		}},
		{"a budget that selects nobody here", func() {
			c.Make(&policyv1.PodDisruptionBudget{}, `{metadata: {name: nobody, namespace: `+ns+`}, spec: {selector: {matchLabels: {app: nobody}}}}`)
		}},
	}
	for _, tt := range tests {
		before := c.looks()
		tt.event()
		c.quiet()
		if n := c.looks() - before; n != 0 {
			t.Errorf("%s: %d ForkedWorkloads were looked at", tt.name, n)
		}
	}
	before := c.looks()
	world.Edit(c.World, service, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
	c.Eventually("a Service of the baseline leads to the fork", func() error {
		if c.looks() == before {
			return fmt.Errorf("nobody has looked")
		}
		return nil
	})
}

func TestAForkTellsWhyItDoesNotStartAndNotAgainAtEachTurn(t *testing.T) {
	const ns = "fw-trouble"
	c := start(t, ns)
	c.baseline(ns, "a", withSidecar)
	w := c.forkedWorkload(ns, "mine", "a")
	_, made := c.fork(ns)
	c.Condition(w, crdv1.ConditionForkAvailable, "False", forkedworkload.ReasonForkProgressing)
	made.Status = appsv1.DeploymentStatus{ObservedGeneration: made.Generation, Replicas: 1, UpdatedReplicas: 1}
	if err := c.Client.Status().Update(c.Context(), made); err != nil {
		t.Fatal(err)
	}
	waits := func(reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	p := c.podAs(made, "p", func(p *corev1.Pod) { p.Labels = made.Spec.Template.Labels },
		waits("CreateContainerConfigError", `configmap "settings" not found`))
	c.Says(c.Condition(w, crdv1.ConditionReady, "False", forkedworkload.ReasonConfigError), `pod p, container main`, `configmap "settings" not found`)

	now := func(s corev1.ContainerStatus) {
		c.Get(p)
		p.Status.ContainerStatuses = []corev1.ContainerStatus{s}
		if err := c.Client.Status().Update(c.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	now(waits("ErrImagePull", "not found"))
	c.Says(c.Condition(w, crdv1.ConditionReady, "False", forkedworkload.ReasonImagePull), "its image cannot be pulled: not found")
	c.quiet()
	looks, writes := c.looks(), len(c.wrote())
	for range 5 {
		now(waits("ImagePullBackOff", `Back-off pulling image "a:1": ErrImagePull: not found`))
		now(waits("ErrImagePull", "not found"))
	}
	c.quiet()
	if n, wrote := c.looks()-looks, c.wrote()[writes:]; n != 0 || len(wrote) > 0 {
		t.Errorf("while the same is tried again there were %d looks and the writes %v", n, wrote)
	}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, ContainerID: "containerd://c"}}
	now(corev1.ContainerStatus{Name: "main", RestartCount: 7, LastTerminationState: ended, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	c.Says(c.Condition(w, crdv1.ConditionReady, "False", forkedworkload.ReasonCrashLoop), "ends each time it is started, last with exit code 1")
	now(corev1.ContainerStatus{Name: "main", Ready: true})
	c.Available(made)
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
}

func TestAForkThatSomethingNewWouldTakeForItsBaselineIsRefusedThen(t *testing.T) {
	const ns = "fw-labels"
	c := shared(t, ns)
	world.Edit(c.World, c.baseline(ns, "a", withSidecar), func(d *appsv1.Deployment) { d.Spec.Template.Labels["tier"] = "front" })
	w := c.forkedWorkload(ns, "mine", "a")
	world.Edit(c.World, w, func(w *crdv1.ForkedWorkload) {
		w.Spec.PreservedLabels = []string{"^tier$"}
		w.Spec.Patches = []crdv1.Patch{{Merge: &runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"metadata":{"labels":{"team":"red"}}}}}`)}}}
	})
	c.Condition(w, crdv1.ConditionAccepted, "True", "Accepted")
	for name, o := range map[string]client.Object{
		"Service of-team": &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "of-team"}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"team": "red"}, Ports: []corev1.ServicePort{{Port: 80}}}},
		"Service of-a-form": &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "of-a-form"}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"team": "red", inject.RolloutHash: "h"}, Ports: []corev1.ServicePort{{Port: 80}}}},
		"PodDisruptionBudget of-tier": &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "of-tier"}, Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}}},
	} {
		c.quiet() // So that nobody looks for another reason.
		c.Create(o)
		c.Says(c.Condition(w, crdv1.ConditionAccepted, "False", fork.ReasonLabelsMatchBaseline), name)
		c.remove(o)
		c.Condition(w, crdv1.ConditionAccepted, "True", "Accepted")
	}
}

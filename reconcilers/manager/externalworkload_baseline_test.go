package manager_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/world"
)

// What leads to a workstation is of the baseline that the spec names, as long as pods of
// it have the ports, and of no other.
func TestAnExternalWorkloadFollowsItsBaseline(t *testing.T) {
	const ns, name = "xw-followed", "sb-a"
	c := shared(t, ns)
	base := c.baseline(ns, "a", withSidecar)
	old := c.podAs(base, "a-h-1", func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: devmesh.ContainerName, Image: "sidecar"})
	}, corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: true})
	w := c.external(ns, name, owned)
	c.reports(w, "10.1.2.3", true, 0, 0)
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")

	world.Edit(c.World, base, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort = 9090 })
	c.Eventually("it says which requests do not come", func() error {
		if says := c.Condition(w, crdv1.ConditionServicesReady, "True", "ServicesReady"); !contains(says, "which spec.tunnel.baselineToLocals does not list: a 80") {
			return fmt.Errorf("it says %q", says)
		}
		return nil
	})
	c.leads(ns, name, "10.1.2.3", true)
	c.remove(old)
	c.Condition(w, crdv1.ConditionReady, "False", "PortNotFound")

	world.Edit(c.World, base, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort = 8080 })
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	c.leads(ns, name, "10.1.2.3", true)
	world.Edit(c.World, w, func(w *crdv1.SignadotExternalWorkload) { w.Spec.Baseline.Name = "b" })
	c.Condition(w, crdv1.ConditionReady, "False", "BaselineNotFound")
	c.nothingLeads(ns, name)
	if w.Status.Baseline != nil || w.Status.RoutingConfig != nil {
		t.Errorf("the status tells of another baseline: %+v", w.Status)
	}

	world.Edit(c.World, w, func(w *crdv1.SignadotExternalWorkload) { w.Spec.Baseline.Name = "a" })
	c.Condition(w, crdv1.ConditionReady, "True", "Ready")
	c.leads(ns, name, "10.1.2.3", true)
}

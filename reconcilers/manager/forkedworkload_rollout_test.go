package manager_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/tests/world"
)

// leadsTo waits until the log says that these ports of the baseline lead to a fork.
func (c *cluster) leadsTo(ns, name string, want ...uint32) {
	c.Helper()
	c.Eventually(fmt.Sprintf("ports %v lead to %s", want, name), func() error {
		o, ok := c.log.fact(member.Key(crdv1.KindForkedWorkload, ns, name)).(*factv1.WorkloadObserved)
		if !ok {
			return fmt.Errorf("it is not stated")
		}
		var have []uint32
		for _, s := range o.Services {
			for _, p := range s.Ports {
				have = append(have, p.WorkloadPort)
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			return fmt.Errorf("%s", diff)
		}
		return nil
	})
}

// A roll-out that stops half way leaves pods of the former form for as long as it pleases.
func TestAPortThatIsRenamedLeadsToTheForkAsLongAsOldPodsAreThere(t *testing.T) {
	const ns = "fw-renamed"
	c := shared(t, ns)
	base := c.baseline(ns, "a", withSidecar)
	old := c.podAs(base, "a-h-1", func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: devmesh.ContainerName, Image: "sidecar"})
	}, corev1.ContainerStatus{Name: devmesh.ContainerName, Ready: true})
	w := c.forkedWorkload(ns, "mine", "a")
	c.fork(ns)
	c.leadsTo(ns, "mine", 8080)

	world.Edit(c.World, base, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort = 9090 })
	c.leadsTo(ns, "mine", 8080, 9090)
	world.Edit(c.World, base, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Ports[0].Name = "web" })
	c.leadsTo(ns, "mine", 8080)
	c.Eventually("it says that requests fail", func() error {
		if says := c.Condition(w, crdv1.ConditionServicesReady, "True", "PortsWithoutTarget"); !contains(says, "so requests to them fail: a 80") {
			return fmt.Errorf("it says %q", says)
		}
		return nil
	})

	c.remove(old)
	c.leadsTo(ns, "mine")
}

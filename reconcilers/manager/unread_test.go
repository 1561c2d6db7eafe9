package manager_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect/spec"
)

// reading puts our containers into a pod that is about to be made, told which
// ports the sidecar does not read.
func reading(plain, except string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: devmesh.InitContainerName, Image: "init",
			Env: []corev1.EnvVar{{Name: spec.EnvExcept, Value: except}}}}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: devmesh.ContainerName, Image: "sidecar",
			Env: []corev1.EnvVar{{Name: devmesh.EnvPlainPorts, Value: plain}}})
	}
}

// What a sidecar does not read, it sends to the baseline. That the ports are known
// needs what the cache keeps of a pod.
func TestASandboxWhoseRequestsNoSidecarReadsIsNotReady(t *testing.T) {
	const ns = "unread"
	c := shared(t, ns)
	base := c.baseline(ns, "customer", withSidecar)
	plain := c.podAs(base, "plain", reading("22,8080", "15006"), readySidecar)
	s := c.sandbox("unread", forkOf("unread-key", ns, "customer"))
	w, fork := c.fork(ns)
	c.Available(fork)
	const restart = "kubectl rollout restart -n unread deployment/customer"
	c.Says(c.Condition(w, baseline.ConditionSidecarsReady, "False", baseline.ReasonPortsUnread), "8080", restart)
	c.Says(c.Condition(s, crdv1.ConditionReady, "False", routing.ReasonNotReady), "whatever key they carry", "8080", restart)

	excluded := c.podAs(base, "excluded", reading("none", "8080,15006"), readySidecar)
	c.remove(plain)
	c.Says(c.Condition(w, baseline.ConditionSidecarsReady, "False", baseline.ReasonPortsUnread), "8080")

	c.podAs(base, "routed", reading("22,3306", "15006"), readySidecar)
	c.remove(excluded)
	c.Condition(w, baseline.ConditionSidecarsReady, "True", "SidecarsReady")
	c.Condition(s, crdv1.ConditionReady, "True", "Ready")
}

// Package routingtest has test objects for tests of routing and its users.
package routingtest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
)

// Keyed returns a RoutingConfig with key k and one member, and that member. It can serve, and its
// baseline has its sidecars.
func Keyed() (*crdv1.RoutingConfig, *crdv1.ForkedWorkload) {
	c := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "k", UID: "uid", Generation: 3}}
	c.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{{SandboxedWorkloadRef: crdv1.SandboxedWorkloadRef{
		Kind: crdv1.KindForkedWorkload, Namespace: "ns", Name: "f", SandboxName: "sb",
	}}}
	w := &crdv1.ForkedWorkload{
		ObjectMeta: metav1.ObjectMeta{Name: "f", Namespace: "ns", UID: "fork"},
		Spec:       crdv1.ForkedWorkloadSpec{Baseline: crdv1.ObjectRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "base"}},
		Status: crdv1.ForkedWorkloadStatus{
			Baseline: &crdv1.WorkloadBaseline{WorkloadID: "base", Generation: 1},
			RoutingConfig: &crdv1.WorkloadRoutingInfo{DevMeshSidecarPresent: true, Services: []crdv1.ServiceMapping{
				{From: "base", To: "forked", Ports: []crdv1.MappedPort{{Port: 80, TargetPort: 8080}}},
			}},
			Conditions: []crdv1.StatusCondition{
				{Type: baseline.ConditionSidecarsReady, Status: "True", Reason: "SidecarsReady"},
				{Type: crdv1.ConditionForkAvailable, Status: "True", Reason: "ForkAvailable"},
			},
		},
	}
	return c, w
}

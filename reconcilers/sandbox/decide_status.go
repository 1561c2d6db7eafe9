package sandbox

import (
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/routing"
)

// list fills counters and lists of the status, in the order of the spec.
func list(s *crdv1.SignadotSandbox, in Input, d Decision, made Made) {
	st := &s.Status
	*st = crdv1.SignadotSandboxStatus{Conditions: st.Conditions, ObservedGeneration: s.Generation}
	for i, w := range d.Members {
		switch want := w.Object.(type) {
		case *crdv1.ForkedWorkload:
			have, _ := made.Members[i].(*crdv1.ForkedWorkload)
			count(st, have)
			st.ForkedWorkloads = append(st.ForkedWorkloads, crdv1.SandboxForkStatus{
				ForkTarget: want.Spec.Baseline, Routing: routingStatus(made, i),
			})
		case *crdv1.SignadotExternalWorkload:
			x := crdv1.SandboxExternalWorkloadStatus{Name: want.Spec.Name, Routing: routingStatus(made, i)}
			if have, ok := made.Members[i].(*crdv1.SignadotExternalWorkload); ok {
				x.Tunnel = have.Status.Tunnel.DeepCopy()
			}
			st.ExternalWorkloads = append(st.ExternalWorkloads, x)
		case *crdv1.VirtualWorkload:
			st.VirtualWorkloads = append(st.VirtualWorkloads, crdv1.SandboxVirtualWorkloadStatus{
				Baseline: want.Spec.Baseline, Routing: routingStatus(made, i),
			})
		}
	}
	listResources(st, in)
}

// count counts a fork, which may be nil.
func count(st *crdv1.SignadotSandboxStatus, w *crdv1.ForkedWorkload) {
	if w == nil {
		return
	}
	if w.Status.Fork != nil {
		st.CustomizedDeployments++
	}
	if crdv1.IsTrue(w.Status.Conditions, crdv1.ConditionForkAvailable, w.Generation) {
		st.ReadyDeployments++
	}
}

// routingStatus returns how the traffic of a member is routed; nil when unknown.
func routingStatus(made Made, i int) *crdv1.SandboxRoutingStatus {
	m := made.Members[i]
	if m == nil || m.RoutingInfo() == nil {
		return nil
	}
	return &crdv1.SandboxRoutingStatus{
		DevMesh: &crdv1.DevMeshRouting{Enabled: m.RoutingInfo().DevMeshSidecarPresent},
		Istio:   routing.Of(made.Config, nil, nil).IstioServices(m),
	}
}

// listResources lists the resources, and once more in the deprecated form.
func listResources(st *crdv1.SignadotSandboxStatus, in Input) {
	for i, r := range in.Sandbox.Spec.ManagedResources {
		if !acceptResource(in, i).IsTrue() {
			continue
		}
		f := resourceReady(in, r.Name)
		st.ManagedResources = append(st.ManagedResources, crdv1.SandboxResourceStatus{Name: r.Name, Ready: f.IsTrue(), Failed: isFailure(f)})
		if st.ReadyManagedResources == nil {
			st.ReadyManagedResources = map[string]bool{}
		}
		st.ReadyManagedResources[r.Name] = f.IsTrue()
	}
}

package trafficcapture

import (
	"context"
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
)

// workstation returns the external workload of the sandbox with the Service that an override names; nil: there is none.
func (r *Reconciler) workstation(ctx context.Context, s *crdv1.SignadotSandbox, o *crdv1.CaptureOverride) (*crdv1.SignadotExternalWorkload, error) {
	if s == nil || o == nil {
		return nil, nil
	}
	var all crdv1.SignadotExternalWorkloadList
	if err := r.config.Client.List(ctx, &all, client.MatchingFields{apply.IndexOwner: string(s.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the SignadotExternalWorkloads of sandbox %s: %w", s.Name, err)
	}
	host, _, _ := net.SplitHostPort(o.Targets[0].Address) // no Service has an address that is wrong
	for _, x := range lists.Pointers(all.Items) {
		var own corev1.ServiceList
		if err := r.config.Client.List(ctx, &own, client.InNamespace(x.Namespace), client.MatchingFields{apply.IndexOwner: string(x.UID)}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list the Services of SignadotExternalWorkload %s/%s: %w", x.Namespace, x.Name, err)
		}
		if slices.ContainsFunc(own.Items, func(s corev1.Service) bool { return host != "" && s.Spec.ClusterIP == host }) {
			return x, nil
		}
	}
	return nil, nil
}

// overriding returns the condition of an override of these forks, with what answers first: a process of a workstation, or an address.
func (in Input) overriding(forks string) condition.Condition {
	to, x := in.Capture.Spec.Override.Targets[0], in.Workstation
	if x == nil {
		return condition.True("Overriding", fmt.Sprintf("Each request that begins now is sent to %s first: %s.", to.Address, forks))
	}
	process, of := to.Address, "SignadotExternalWorkload "+x.Namespace+"/"+x.Name
	if x.Spec.Tunnel != nil {
		for _, p := range x.Spec.Tunnel.BaselineToLocals {
			if p.BaselinePort == to.Port {
				process = p.LocalAddress
			}
		}
	}
	t := x.Status.Tunnel
	if t == nil || t.Info == nil || t.Health == nil || !t.Health.Connected {
		return condition.True("Overriding", fmt.Sprintf("No workstation with %s is connected, so the fork answers alone: %s. Run switchyard connect --sandbox %s, and see %s.", process, forks, in.Capture.Spec.Sandbox, of))
	}
	return condition.True("Overriding", fmt.Sprintf("Each request that begins now is sent to %s on the workstation of user %.63q, host %.63q, first: %s. %s has its tunnel.",
		process, t.Info.Labels["user"], t.Info.Labels["host"], forks, of))
}

package forkedworkload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/member"
)

// captureChanged filters out updates of a capture that no Service of a fork depends on.
func captureChanged(before, after client.Object) bool {
	b, okB := before.(*crdv1.TrafficCapture)
	a, okA := after.(*crdv1.TrafficCapture)
	return !okA || !okB || captured(a) != captured(b)
}

// captured is what Services of forks depend on.
func captured(t *crdv1.TrafficCapture) string {
	pods := lists.Map(t.Status.Pods, func(p crdv1.CapturedPod) string { return fmt.Sprint(p.Workload, p.Ports) })
	forks := lists.Map(t.Status.Redirected, func(f crdv1.CapturedFork) string { return f.Name })
	return fmt.Sprint(lists.Unique(pods), forks)
}

// desired returns the workload to apply for a clone: with the traffic container that the existing fork has if nothing else
// changes, so that another version of the operator restarts no fork; else with the present one.
func (in Input) desired(clone *fork.Fork) fork.Object {
	with := func(t traffic.Part) fork.Object { return in.keepingNotes(fork.Writable(t.With(clone.Object))) }
	if have := in.ownFork(); have != nil {
		if same := with(traffic.PartOf(have)); apply.InLine(same, have, leftOf(clone)) {
			return same
		}
	}
	return with(in.Traffic.Part(clone.Template.Spec))
}

// redirect changes the Services of a decision for the captures of the fork.
func (d *Decision) redirect(in Input, pod corev1.PodSpec) {
	d.Beside = services.Redirect(d.Services, pod, in.Captures, in.Workload.Name)
	wanted := d.Services
	for _, s := range d.Beside {
		wanted = append(wanted[:len(wanted):len(wanted)], member.Mapping{From: s.Name, Service: s})
	}
	d.Surplus = member.SurplusServices(in.Services, in.Workload.UID, wanted)
}

// beside writes the Services that a decision has beside those of its Mappings, and returns refusals.
func (d Decision) beside(ctx context.Context, w apply.Writer, in Input) (map[string]*apply.Refusal, error) {
	all := lists.Map(d.Beside, func(s *corev1.Service) member.Mapping { return member.Mapping{From: s.Name, Service: s} })
	made, err := member.ApplyServices(ctx, w, in.Workload.UID, all, in.Services, nil)
	return made.ServiceRefusals, err
}

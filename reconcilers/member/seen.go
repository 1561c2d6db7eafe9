package member

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/sidecars/inject"
)

// Seen is the state of the baseline of a member. It must not be modified: it is shared with the cache.
type Seen struct {
	// Baseline is the live workload; nil when there is none.
	Baseline *baseline.Workload
	// Pods are those that the baseline owns.
	Pods []corev1.Pod
	// Reach is where requests to the Services of the baseline arrive.
	Reach baseline.Reach
	// Injected has the current injection settings of pods, where known.
	Injected inject.Settings
}

// Look reads the baseline of a member and its pods, from the cache. It returns the Services; those
// without a selector select the pods in their endpoints (baseline.WithEndpoints).
func (s *Seen) Look(ctx context.Context, c client.Reader, m crdv1.Member, services []corev1.Service) ([]corev1.Service, error) {
	ref, _ := m.BaselineRef()
	var err error
	if s.Baseline, err = baseline.Read(ctx, c, ref); err != nil || s.Baseline == nil {
		return services, err
	}
	pods, others, err := baseline.Pods(ctx, c, s.Baseline)
	if err != nil {
		return services, err
	}
	s.Pods = pods
	if len(pods) == 0 && s.Baseline.Problem == "" {
		if s.Baseline.Problem, err = baseline.RunByRollout(ctx, c, s.Baseline, others); err != nil {
			return services, err
		}
	}
	routed, err := baseline.WithEndpoints(ctx, c, s.Baseline, s.Pods, services)
	if err == nil && s.Known() {
		in := baseline.Surroundings{
			Workload: s.Baseline, Pods: pods, Others: others, Services: services, Routed: routed, Had: s.had(m), Covered: covered(ctx, c, m),
		}
		if s.Reach, err = in.Reach(ctx, c); err == nil {
			routed = in.Kept(s.Reach)
		}
	}
	return routed, err
}

// Known reports whether the baseline exists and its pods are known.
func (s Seen) Known() bool { return s.Baseline != nil && s.Baseline.Problem == "" }

// Forms returns the forms that the pods of a baseline that is known have.
func (s Seen) Forms() baseline.Forms {
	return baseline.Forms{Template: s.Baseline.Template, Pods: s.Pods}
}

// Found returns the condition BaselineFound of a member with an accepted spec.
func (s Seen) Found(m crdv1.Member) condition.Condition {
	ref, _ := m.BaselineRef()
	switch {
	case s.Baseline == nil:
		return condition.False(baseline.ReasonBaselineNotFound, baseline.Describe(ref)+" does not exist: create it, or name another one")
	case s.Baseline.Problem != "":
		return condition.False(baseline.ReasonTemplateUnknown, s.Baseline.Problem)
	}
	return condition.True("BaselineFound", baseline.Describe(ref)+" is there.")
}

// Status returns the baseline for the status of a member; before if the baseline does not exist.
func (s Seen) Status(before *crdv1.WorkloadBaseline) *crdv1.WorkloadBaseline {
	if s.Baseline == nil {
		return before
	}
	return &crdv1.WorkloadBaseline{WorkloadID: string(s.Baseline.UID), Generation: s.Baseline.Generation}
}

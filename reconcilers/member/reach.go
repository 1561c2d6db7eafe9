package member

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
)

// reachAgain is the requeue interval of a member while requests to some Service of its baseline arrive
// elsewhere, since the causes may change without an event of the member.
const reachAgain = 5 * time.Second

// ReachAgain returns the time after which a member is to be reconciled again because of its
// Reach; zero for never.
func (s Seen) ReachAgain() time.Duration {
	if s.Known() && s.Reach.Incomplete() {
		return reachAgain
	}
	return 0
}

// had returns the Services that have selected the baseline, as the status of the member lists
// them; none when the status is about another baseline.
func (s *Seen) had(m crdv1.Member) []string {
	info, observed := m.RoutingInfo(), m.ObservedBaseline()
	if info == nil || observed == nil {
		return nil
	}
	ready := crdv1.FindCondition(*m.StatusConditions(), crdv1.ConditionReady)
	if observed.WorkloadID != string(s.Baseline.UID) && (ready == nil || ready.ObservedGeneration != m.GetGeneration()) {
		return nil
	}
	out := slices.Clone(info.FormerServices)
	for _, service := range info.Services {
		if service.From != "" {
			out = append(out, service.From)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Former returns the Services that have selected the baseline and no longer do; those in the status if
// the baseline is unknown.
func (s Seen) Former(m crdv1.Member) []string {
	if !s.Known() {
		if info := m.RoutingInfo(); info != nil {
			return slices.Clone(info.FormerServices)
		}
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Reach.Had), func(name string) bool {
		return slices.ContainsFunc(s.Reach.Selecting, func(a baseline.Arrival) bool { return a.Service == name })
	})
}

// Sidecars returns the condition SidecarsReady, and whether each pod of the baseline has a ready
// sidecar (baseline.Sidecars). Of a workload that has had a Service it does not report that it
// is a queue consumer.
func (s Seen) Sidecars(services []crdv1.ServiceMapping) (condition.Condition, bool) {
	f, present := baseline.Sidecars(s.Baseline, s.Pods, services, s.Injected)
	switch deleted := s.Reach.Deleted; {
	case f.Reason != baseline.ReasonNoService || len(s.Reach.Had) == 0:
	case len(deleted) > 0:
		f.Message = fmt.Sprintf("Service %s, which selected %s, was deleted, so no request is routed until a Service selects it.",
			condition.List(deleted, mostNamed, ", "), s.Baseline)
	default:
		f.Message = fmt.Sprintf("No Service selects %s any more, so no request is routed until one does.", s.Baseline)
	}
	return f, present
}

// mostNamed is the number of Services that a message names at most.
const mostNamed = 3

// WriteReached puts the condition BaselineReached into all, or removes it from the member.
func (s Seen) WriteReached(m crdv1.Member, all condition.Set) {
	if s.Known() {
		if c, found := s.Reach.Condition(s.Baseline); found {
			all[baseline.ConditionBaselineReached] = c
			return
		}
	}
	condition.Drop(m, baseline.ConditionBaselineReached)
}

// covered returns whether the sandbox of a member has a member for another workload of the
// namespace too.
func covered(ctx context.Context, c client.Reader, m crdv1.Member) func(name string) (bool, error) {
	return func(name string) (bool, error) {
		owner := metav1.GetControllerOfNoCopy(m)
		if name == "" || owner == nil {
			return false, nil
		}
		for _, kind := range crdv1.MemberKinds() {
			others, err := baseline.MembersOf(ctx, c, kind, m.GetNamespace(), name)
			if err != nil {
				return false, err
			}
			for _, other := range others {
				if o := metav1.GetControllerOfNoCopy(other); o != nil && o.UID == owner.UID && other.GetDeletionTimestamp() == nil {
					return true, nil
				}
			}
		}
		return false, nil
	}
}

package member

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/publish"
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
	return lists.Unique(out)
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

// State puts the fact of a member on the log, and reports whether it is there. Without a fact (ok is
// false) it settles the member's key. m has the computed status, which is not written yet: if the log
// does not accept the fact, State sets Ready to False in it. Errors are to be retried.
func State(ctx context.Context, p publish.Publisher, m crdv1.Member, fact event.Fact, ok bool, now time.Time) (stated bool, err error) {
	if !ok {
		p.Settle(Key(m.MemberKind(), m.GetNamespace(), m.GetName()))
		return false, nil
	}
	fact.Time = now
	putting, cancel := context.WithTimeout(ctx, publish.PutTimeout)
	defer cancel()
	_, err = p.Put(putting, fact)
	if err == nil {
		return true, nil
	}
	ready := condition.False(publish.ReasonLogUnavailable, fmt.Sprintf("The routing log cannot be written: %v. Retrying.", err))
	if publish.Refused(err) {
		// Trying again would not help, so it is no error.
		ready = condition.False(publish.ReasonFactRefused, fmt.Sprintf(
			"The routing log refuses the fact about this workload: %s. Choose a baseline with fewer Services.", publish.WhyRefused(err)))
		err = nil
	} else {
		err = fmt.Errorf("state how %s %s/%s is reached: %w", m.MemberKind(), m.GetNamespace(), m.GetName(), err)
	}
	condition.Write(m, condition.Set{crdv1.ConditionReady: ready}, metav1.NewTime(now))
	return false, err
}

// StatusIsCurrent reports whether the status of m, computed for the generation observed, is about the
// baseline in its spec and not an earlier one. Objects in made that m owns record their baseline
// (crdv1.AnnotationBaseline); if none does, a changed spec counts as one with another baseline.
func StatusIsCurrent[O metav1.Object](m crdv1.Member, observed int64, made []O) bool {
	ref, _ := m.BaselineRef()
	ofAnother := false
	for _, o := range made {
		if !apply.IsOwned(o, m.GetUID()) {
			continue
		}
		switch o.GetAnnotations()[crdv1.AnnotationBaseline] {
		case baseline.NameOf(ref):
			return true
		case "":
		default:
			ofAnother = true
		}
	}
	return !ofAnother && observed == m.GetGeneration()
}

// ForkName names the ForkedWorkload of a target of a sandbox. The name for a Deployment has no kind, as in
// releases that forked nothing else.
func ForkName(sandbox string, ref crdv1.ObjectRef) string {
	if ref.Kind == baseline.KindDeployment {
		return crdv1.ObjectName(crdv1.MaxServiceName, sandbox, ref.Name)
	}
	return crdv1.ObjectName(crdv1.MaxServiceName, sandbox, ref.Kind, ref.Name)
}

// Name names a member.
type Name struct{ Kind, Namespace, Name string }

// NameOf returns the name of a member that is there.
func NameOf(m crdv1.Member) Name { return Name{m.MemberKind(), m.GetNamespace(), m.GetName()} }

// String returns the name as messages and IndexNamed have it.
func (n Name) String() string { return n.Kind + " " + n.Namespace + "/" + n.Name }

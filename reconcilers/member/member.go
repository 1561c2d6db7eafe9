// Package member contains code that the controllers of sandboxed workloads share for their facts on the
// routing log, and that the owners of RoutingConfigs use to read members.
//
// Every member with a baseline publishes WorkloadObserved as soon as its Services are known, and
// whenever they change; after its deletion, WorkloadWithdrawn. Members have no finalizer: their objects
// are garbage-collected by owner reference, the controller withdraws a member when it is notified of
// the deletion, and a starting leader withdraws those that were deleted while there was no leader. So a
// namespace can be deleted while the operator is down.
//
//	Get, OwnedBy        members, by name or by owner
//	Observed, Recorded  their facts, and whether the log has them
//	Name                the name of a member
//	Seen                the state of its baseline
//	StatusIsCurrent     whether a status is of the spec's baseline
//	Groups, ConfigsOf, NamedBy  the users of a sandbox, or of a member
//	Write               a member of any kind, written
//	WatchBaselines      which sandboxes a new baseline enqueues
//	Lifecycle           how members begin, are concluded and end
//	State               the fact of a member, put on the log
//	Mapping, Made       the Services that replace a baseline's
//	Needs               dependencies of the controllers of members
package member

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/sidecars/inject"
)

// Get reads one member; nil when there is none, or the kind is none of
// crdv1.MemberKinds.
//
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads;signadotexternalworkloads;virtualworkloads,verbs=get;list;watch
func Get(ctx context.Context, c client.Reader, kind, namespace, name string) (crdv1.Member, error) {
	m, ok := crdv1.NewMember(kind)
	if !ok {
		return nil, nil
	}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", kind, namespace, name, err)
	}
	return m, nil
}

// OwnedBy returns the members with a controller of this UID, in the order of crdv1.MemberKinds,
// unordered within a kind. They are shared with the cache. It uses the index apply.IndexOwner.
func OwnedBy(ctx context.Context, c client.Reader, owner types.UID) ([]crdv1.Member, error) {
	out, err := publish.Members(ctx, c, client.MatchingFields{apply.IndexOwner: string(owner)})
	if err != nil {
		return nil, fmt.Errorf("list the members that %s made: %w", owner, err)
	}
	return out, nil
}

// Key is the key of facts about a member.
func Key(kind, namespace, name string) event.Key { return event.Workload(kind, namespace, name) }

// Recorded reports whether the log has the fact of the member's status, if there is one.
func Recorded(m crdv1.Member) bool {
	c := crdv1.FindCondition(*m.StatusConditions(), crdv1.ConditionReady)
	return c == nil || c.Reason != publish.ReasonLogUnavailable
}

// Observed returns the fact that a member exists, with its identity, creation time and baseline. The
// caller adds the Services, the tunnel and whether it can serve. It returns false for a member without
// a baseline, or until its baseline has been observed.
func Observed(m crdv1.Member) (*factv1.WorkloadObserved, bool) {
	ref, ok := m.BaselineRef()
	seen := m.ObservedBaseline()
	if !ok || seen == nil {
		return nil, false
	}
	fact := &factv1.WorkloadObserved{
		Workload: Ref(m),
		Created:  timestamppb.New(m.GetCreationTimestamp().Time),
		Baseline: &factv1.ObjectRef{Kind: baseline.RoutedKind(ref), Namespace: ref.Namespace, Name: ref.Name, Uid: seen.WorkloadID},
	}
	if info := m.RoutingInfo(); info != nil {
		fact.DevMeshPresent = info.DevMeshSidecarPresent
	}
	return fact, true
}

// Fact returns the fact about a member with this content. An observation marks the Services that the
// member's status lists as former, and names those without a mapping.
func Fact(m crdv1.Member, says proto.Message) event.Fact {
	if observed, ok := says.(*factv1.WorkloadObserved); ok && m.RoutingInfo() != nil {
		for _, name := range m.RoutingInfo().FormerServices {
			i := slices.IndexFunc(observed.GetServices(), func(p *factv1.ServicePair) bool { return p.GetFrom() == name })
			if i < 0 {
				i = len(observed.GetServices())
				observed.Services = append(observed.Services, &factv1.ServicePair{From: name})
			}
			observed.Services[i].Former = true
		}
	}
	return event.Fact{Key: Key(m.MemberKind(), m.GetNamespace(), m.GetName()), Cause: publish.CauseOf(m.MemberKind(), m), Data: says}
}

// Withdrawn returns the fact that a member which is being deleted no longer exists.
func Withdrawn(m crdv1.Member) event.Fact {
	return Fact(m, &factv1.WorkloadWithdrawn{Workload: Ref(m)})
}

// withdrawnByName returns the fact that a member no longer exists of which only the name is known.
func withdrawnByName(kind, namespace, name string) event.Fact {
	return event.Fact{
		Key:   Key(kind, namespace, name),
		Cause: event.Cause{Kind: kind, Namespace: namespace, Name: name},
		Data:  &factv1.WorkloadWithdrawn{Workload: &factv1.ObjectRef{Kind: kind, Namespace: namespace, Name: name}},
	}
}

// Ref names a member, and by its UID this life of it.
func Ref(m crdv1.Member) *factv1.ObjectRef {
	return &factv1.ObjectRef{Kind: m.MemberKind(), Namespace: m.GetNamespace(), Name: m.GetName(), Uid: string(m.GetUID())}
}

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

package sandbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/workflows/spec"
)

// Reasons of conditions of a SignadotSandbox, in addition to those of its parts.
const (
	ReasonResourcesNotReady = "ResourcesNotReady"
	// ReasonResourceFailed: a resource failed for good; clients stop waiting.
	ReasonResourceFailed = crdv1.ReasonResourceFailed
	// ReasonNullsLost: kubectl apply removed null from a patch, which has another meaning without it.
	ReasonNullsLost = "NullsLost"
)

// Decision has the desired parts of a sandbox, and conditions.
type Decision struct {
	// Conditions are those for Accepted and ResourcesReady.
	Conditions condition.Set
	// Members are the members that the spec lists and that can be created, in the order of the spec.
	Members []Wanted
	// LeftOut is the problem with the first member that cannot be created; True if there is none.
	LeftOut condition.Condition
	// Config is the RoutingConfig to apply; nil: there should be none.
	Config *crdv1.RoutingConfig
	// Parts that are no longer wanted.
	SurplusMembers   []crdv1.Member
	SurplusResources []*crdv1.Resource
	SurplusConfigs   []*crdv1.RoutingConfig
}

// Wanted is a member that there should be.
type Wanted struct {
	// Field is its field in the spec.
	Field string
	// Object is the member to apply.
	Object crdv1.Member
	// WaitsFor names the resources that must be ready before the fork starts or is updated;
	// empty when all are, and for members without a fork.
	WaitsFor string
	// Keep: do not apply it now, since its resources are not ready; the existing fork keeps
	// running.
	Keep bool
	// paths are those of its entry.
	paths []string
}

// here returns a message of the member with the paths of the sandbox's own spec.
func (w Wanted) here(message string) string { return strings.NewReplacer(w.paths...).Replace(message) }

// Decide returns the desired parts of a sandbox that is not being deleted, after the Resources that
// Provide returns have been written.
func Decide(in Input) Decision {
	all := entries(in)
	r := resources(in)
	d := Decision{Conditions: condition.Set{
		crdv1.ConditionAccepted:       accept(in, all),
		crdv1.ConditionResourcesReady: r.condition,
	}, LeftOut: leftOut(all)}
	if in.acceptKey().IsTrue() {
		for _, e := range all {
			if e.accepted.IsTrue() {
				d.Members = append(d.Members, wanted(in, e, r.condition.IsTrue()))
			}
		}
		d.Config = configFor(in, d.Members)
		d.SurplusResources = r.unused
	}
	d.surplus(in)
	return d
}

// wanted returns a desired member. Only forks use Resources, and the names of Resources are known before
// they are created, so a fork waits only to start. While Resources are not ready, a new fork is created on
// hold: its key is known then, and its requests fail instead of reaching the baseline. A fork that has
// started is left unchanged, because its new spec would have to wait for resources that it did not need
// until now.
func wanted(in Input, e entry, provided bool) Wanted {
	w := Wanted{Field: e.at, Object: e.object, paths: e.paths}
	f, ok := e.object.(*crdv1.ForkedWorkload)
	if !ok || provided {
		return w
	}
	w.WaitsFor = awaited(in)
	if have := in.member(f); have != nil && !held(have) && started(have) {
		w.Keep = true
		return w
	}
	f.Annotations[crdv1.AnnotationWaitsFor] = w.WaitsFor
	return w
}

// held reports whether a member is on hold until resources are ready.
func held(m crdv1.Member) bool {
	w, ok := m.(*crdv1.ForkedWorkload)
	return ok && w.Annotations[crdv1.AnnotationWaitsFor] != ""
}

// started reports whether the status of a member has a fork.
func started(m crdv1.Member) bool {
	w, ok := m.(*crdv1.ForkedWorkload)
	return ok && w.Status.Fork != nil
}

// surplus returns the members and RoutingConfigs that exist and are not wanted.
func (d *Decision) surplus(in Input) {
	d.SurplusMembers = lists.Filter(in.Members, func(m crdv1.Member) bool {
		return !slices.ContainsFunc(d.Members, func(w Wanted) bool { return member.NameOf(m) == member.NameOf(w.Object) })
	})
	d.SurplusConfigs = lists.Filter(lists.Pointers(in.Configs), func(c *crdv1.RoutingConfig) bool {
		return d.Config == nil || c.Name != d.Config.Name
	})
}

// accept returns the condition Accepted, from the spec alone.
func accept(in Input, all []entry) condition.Condition {
	key := in.routingKey()
	if key == "" {
		return condition.False(baseline.ReasonInvalidSpec, "spec.id is empty: give the sandbox a unique id, which is its routing key")
	}
	if f := in.acceptKey(); !f.IsTrue() {
		return f
	}
	for _, e := range all {
		if !e.accepted.IsTrue() {
			return e.accepted
		}
		if !e.remark.IsTrue() {
			return e.remark
		}
	}
	if f := acceptResources(in); !f.IsTrue() {
		return f
	}
	remarks := []string{"The spec is valid."}
	if len(all) == 0 {
		remarks = append(remarks, nothing)
	}
	if _, _, err := spec.Expires(in.Sandbox); err != nil {
		remarks = append(remarks, fmt.Sprintf("The sandbox lives until it is deleted: %v.", err))
	}
	if rivals := routingkey.Rivals(routingkey.OfSandbox(in.Sandbox), in.Claims); rivals != "" {
		remarks = append(remarks, rivals)
	}
	accepted := routingkey.Accepted(key, strings.Join(append(remarks, idle(in, all)...), " "))
	if lost := in.lostNulls(); lost != "" {
		accepted.Message += " " + lost
		if accepted.Reason == crdv1.ConditionAccepted {
			accepted.Reason = ReasonNullsLost
		}
	}
	return accepted
}

// nothing is the message about the effect of a sandbox without members.
const nothing = "The sandbox names no workloads, so requests with its routing key reach the baselines."

// leftOut returns the condition about the first entry that is not accepted.
func leftOut(all []entry) condition.Condition {
	for _, e := range all {
		if !e.accepted.IsTrue() {
			return e.accepted
		}
	}
	return condition.True("Accepted", "Every workload that is named has its place.")
}

// idle returns which middlewares are before no member.
func idle(in Input, all []entry) []string {
	var out, names []string
	var refs []crdv1.ObjectRef
	for _, e := range all {
		if ref, routed := e.object.BaselineRef(); routed {
			refs, names = append(refs, ref), append(names, fmt.Sprintf("%s %s/%s", ref.Kind, ref.Namespace, ref.Name))
		}
	}
	for i, m := range in.Sandbox.Spec.RequestMiddlewares {
		if m.Workload == nil || slices.ContainsFunc(refs, func(ref crdv1.ObjectRef) bool { return routing.Matches(*m.Workload, ref) }) {
			continue
		}
		out = append(out, fmt.Sprintf("requestMiddlewares[%d] names %s %s/%s, which is not the baseline of a member, so it has no effect; the baselines are: %s.",
			i, m.Workload.Kind, m.Workload.Namespace, m.Workload.Name, cmp.Or(condition.List(names, 10, ", "), "none")))
	}
	return out
}

// Input has all inputs for one sandbox. It must not be changed.
type Input struct {
	// Sandbox is the object.
	Sandbox *crdv1.SignadotSandbox
	// Claims are all claims to its key, of sandboxes and route groups, its own among
	// them or not.
	Claims []routingkey.Claim
	// Members are the members of all kinds that the sandbox owns.
	Members []crdv1.Member
	// Resources are the Resources that the sandbox owns, those of Provide as they were written.
	Resources []*crdv1.Resource
	// Unwritten are the names of Resources of Provide that were not written, with
	// why; nil means that it is tried again.
	Unwritten map[string]*apply.Refusal
	// Configs are the RoutingConfigs that the sandbox owns.
	Configs []crdv1.RoutingConfig
	// KeyConfig is the RoutingConfig with the name of the key, whatever its owner; nil if there is none.
	KeyConfig *crdv1.RoutingConfig
	// Namespaces are those in which the operator may work; empty means all.
	Namespaces []string
	// OperatorNamespace is the namespace of external workloads without a baseline.
	OperatorNamespace string
	// KeyHeaders are the custom headers that carry routing keys.
	KeyHeaders []string
	// Groups are the route groups with the sandbox that have middlewares of their own, by name.
	Groups []*crdv1.SignadotRouteGroup
}

// ordered returns the input with its parts sorted: the cache returns them in random order, and messages
// about the first of them would change with it.
func (in Input) ordered() Input {
	in.Members, in.Resources, in.Configs = slices.Clone(in.Members), slices.Clone(in.Resources), slices.Clone(in.Configs)
	slices.SortFunc(in.Members, func(a, b crdv1.Member) int {
		return cmp.Or(cmp.Compare(a.MemberKind(), b.MemberKind()), cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	slices.SortFunc(in.Resources, func(a, b *crdv1.Resource) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(in.Configs, func(a, b crdv1.RoutingConfig) int { return cmp.Compare(a.Name, b.Name) })
	return in
}

// acceptKey returns whether the sandbox has its key: without it, none of its parts is created.
func (in Input) acceptKey() condition.Condition {
	return routingkey.Accept("spec.id", in.routingKey(), routingkey.OfSandbox(in.Sandbox), in.Claims, in.KeyConfig)
}

// member returns the sandbox's member of the same kind, namespace and name, or nil.
func (in Input) member(like crdv1.Member) crdv1.Member {
	return lists.First(in.Members, func(m crdv1.Member) bool { return member.NameOf(m) == member.NameOf(like) })
}

// resource returns the sandbox's Resource with this name, or nil.
func (in Input) resource(name string) *crdv1.Resource {
	return lists.First(in.Resources, func(r *crdv1.Resource) bool { return r.Name == name })
}

// routingKey is the key of the sandbox.
func (in Input) routingKey() string { return in.Sandbox.Spec.ID }

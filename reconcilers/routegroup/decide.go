package routegroup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/reconcilers/sandbox/middleware"
)

// Decision has the desired RoutingConfig.
type Decision struct {
	// Accepted is the condition about the spec.
	Accepted condition.Condition
	// Members are those of the group, in the order of spec.sandboxNames, then by kind,
	// namespace and name.
	Members []crdv1.Member
	// Config is the RoutingConfig to apply; nil: there should be none.
	Config *crdv1.RoutingConfig
	// Surplus are RoutingConfigs of this group that are not wanted.
	Surplus []*crdv1.RoutingConfig
}

// Decide returns which RoutingConfig there should be for a group that is not being
// deleted.
func Decide(in Input) Decision {
	d := Decision{Accepted: accept(in)}
	if in.acceptKey().IsTrue() {
		var listed []crdv1.SandboxedWorkload
		d.Members, listed = members(in)
		d.Config = configFor(in, listed)
	}
	for i := range in.Configs {
		if c := &in.Configs[i]; d.Config == nil || c.Name != d.Config.Name {
			d.Surplus = append(d.Surplus, c)
		}
	}
	return d
}

// accept returns whether the spec is valid and the group has its key.
func accept(in Input) condition.Condition {
	if f := in.acceptKey(); !f.IsTrue() {
		return f
	}
	if i := slices.Index(in.Group.Spec.SandboxNames, ""); i >= 0 {
		return condition.False(baseline.ReasonInvalidSpec, fmt.Sprintf(
			"spec.sandboxNames[%d] is empty, and left out: name a SignadotSandbox there, or remove the entry", i))
	}
	key := in.Group.Spec.RoutingKey
	message := fmt.Sprintf("The spec is valid, and routing key %q is held by this group.", key)
	if rivals := routingkey.Rivals(routingkey.OfGroup(in.Group), in.Claims); rivals != "" {
		message += " " + rivals
	}
	return routingkey.Accepted(key, message)
}

// members returns all members of the sandboxes of the group, and their entries in the RoutingConfig, with
// the same indexes. Readiness is ignored: routing that depended on it would silently send requests to the
// baseline.
func members(in Input) (all []crdv1.Member, listed []crdv1.SandboxedWorkload) {
	for _, name := range in.names() {
		s, ok := in.Sandboxes[name]
		if !ok || s.Object.DeletionTimestamp != nil {
			continue
		}
		own := slices.Clone(s.Members)
		slices.SortFunc(own, func(a, b crdv1.Member) int {
			return cmp.Or(cmp.Compare(a.MemberKind(), b.MemberKind()),
				cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
		})
		for _, m := range own {
			if m.GetDeletionTimestamp() != nil {
				continue
			}
			all = append(all, m)
			listed = append(listed, crdv1.SandboxedWorkload{
				SandboxedWorkloadRef: routing.Ref(m, s.Object.DisplayName()),
				Middlewares:          middlewares(in, s.Object, m),
			})
		}
	}
	return all, listed
}

// middlewares returns the middlewares for a member: those of the group, if it lists any, else those of the
// sandbox.
func middlewares(in Input, s *crdv1.SignadotSandbox, m crdv1.Member) []crdv1.MiddlewareInstance {
	matches := in.Group.Spec.TrafficManagerMatches
	if len(matches) == 0 {
		matches = s.Spec.RequestMiddlewares
	}
	// A member without a baseline is none that a match could name; those for all count.
	ref, _ := m.BaselineRef()
	return routing.MiddlewaresFor(matches, ref)
}

// configFor returns the RoutingConfig of the group.
func configFor(in Input, listed []crdv1.SandboxedWorkload) *crdv1.RoutingConfig {
	g := in.Group
	return &crdv1.RoutingConfig{
		TypeMeta: metav1.TypeMeta{APIVersion: crdv1.APIVersion, Kind: crdv1.KindRoutingConfig},
		ObjectMeta: metav1.ObjectMeta{
			Name:   routingkey.ConfigName(g.Spec.RoutingKey),
			Labels: map[string]string{crdv1.LabelRouteGroup: crdv1.LabelValue(g.Name)},
			Annotations: map[string]string{
				crdv1.AnnotationRoutingKey: g.Spec.RoutingKey,
				crdv1.AnnotationOnBehalf:   onBehalf(in, listed),
				AnnotationAsked:            asked(g),
			},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(g, crdv1.GroupVersion().WithKind(crdv1.KindRouteGroup))},
		},
		// Never null, which the API server refuses.
		Spec: crdv1.RoutingConfigSpec{SandboxedWorkloads: append([]crdv1.SandboxedWorkload{}, listed...)},
	}
}

// Reasons of conditions of a SignadotRouteGroup, in addition to those of its parts and of a sandbox.
const (
	// ReasonSandboxesNotFound: a sandbox that is named does not exist.
	ReasonSandboxesNotFound = "SandboxesNotFound"
	// ReasonSandboxesNotReady: one that exists is not ready.
	ReasonSandboxesNotReady = "SandboxesNotReady"
)

// shownSandboxes is the maximum number of sandboxes in a message.
const shownSandboxes = 3

// Made has the objects that exist after the decision was applied.
type Made struct {
	// Config is the RoutingConfig; nil when there is none.
	Config *crdv1.RoutingConfig
	// Refusal is why it was not written.
	Refusal *apply.Refusal
}

// Conclude returns the group with its new status. now is taken as the time of
// conditions that changed.
func Conclude(in Input, d Decision, made Made, now metav1.Time) *crdv1.SignadotRouteGroup {
	g := in.Group.DeepCopy()
	ready := 0
	for _, name := range in.names() {
		if sandboxReady(in, name) {
			ready++
		}
	}
	g.Status.ObservedGeneration = g.Generation
	g.Status.TotalSandboxes, g.Status.ReadySandboxes = int32(len(in.names())), int32(ready)
	conditions := condition.Set{
		crdv1.ConditionAccepted:       d.Accepted,
		crdv1.ConditionSandboxesReady: sandboxes(in),
		crdv1.ConditionRoutingReady:   routingReady(in, d, made),
		routing.ConditionNoConflicts:  routing.Of(d.Config, d.Members, in.KeyHeaders).NoConflicts(),
	}
	if r := made.Refusal; r != nil && r.Reason == apply.ReasonRejected && d.Accepted.IsTrue() {
		conditions[crdv1.ConditionAccepted] = condition.False(r.Reason, r.Message)
	}
	conditions[crdv1.ConditionReady] = isReady(in, conditions)
	condition.Write(g, conditions, now)
	return g
}

// isReady returns the condition Ready: its reason is that of the first problem, and its message lists all
// problems.
func isReady(in Input, f condition.Set) condition.Condition {
	well := fmt.Sprintf("Requests with routing key %q are routed to %s.", in.Group.Spec.RoutingKey, count(len(in.names()), "sandbox", "sandboxes"))
	if len(in.names()) == 0 {
		well = nothing
	}
	if warning := routingkey.Warning(in.Group.Spec.RoutingKey); warning != "" {
		well += " " + warning
	}
	types := []string{crdv1.ConditionAccepted, crdv1.ConditionSandboxesReady, routing.ConditionNoConflicts, crdv1.ConditionRoutingReady}
	ready := f.Ready(well, types...)
	told := []string{ready.Message}
	for _, t := range types {
		if f[t].IsFalse() && !slices.Contains(told, f[t].Message) {
			told = append(told, f[t].Message)
		}
	}
	for i, message := range told[:len(told)-1] {
		told[i] = strings.TrimSuffix(message, ".") + "."
	}
	ready.Message = strings.Join(told, " ")
	return ready
}

// nothing is the message about the effect of a group without sandboxes.
const nothing = "The group names no sandboxes, so requests with its routing key reach the baselines."

// ConcludeDeletion returns the group with the status of one that is being deleted.
func ConcludeDeletion(g *crdv1.SignadotRouteGroup, left int, now metav1.Time) *crdv1.SignadotRouteGroup {
	g = g.DeepCopy()
	g.Status.ObservedGeneration = g.Generation
	waits := "Its RoutingConfigs are deleted."
	if left > 0 {
		waits = fmt.Sprintf("It waits for %d of its RoutingConfigs to be deleted.", left)
	}
	gone := condition.False(crdv1.ReasonDeleting, "The route group is being deleted. "+waits)
	condition.Write(g, condition.Set{crdv1.ConditionReady: gone, crdv1.ConditionRoutingReady: gone}, now)
	return g
}

// sandboxReady reports whether a sandbox exists, is not being deleted, and is ready for its current
// generation.
func sandboxReady(in Input, name string) bool {
	s, ok := in.Sandboxes[name]
	return ok && s.Object.DeletionTimestamp == nil &&
		crdv1.IsTrue(s.Object.Status.Conditions, crdv1.ConditionReady, s.Object.Generation)
}

// sandboxes returns whether every sandbox of the group exists and is ready.
func sandboxes(in Input) condition.Condition {
	var missing, unready []string
	for _, name := range in.names() {
		if _, ok := in.Sandboxes[name]; !ok {
			missing = append(missing, name)
		} else if !sandboxReady(in, name) {
			unready = append(unready, name+" ("+why(in.Sandboxes[name].Object)+")")
		}
	}
	total := len(in.names())
	switch {
	case len(missing) > 0:
		return condition.False(ReasonSandboxesNotFound, fmt.Sprintf(
			"There is no SignadotSandbox %s: create it, or remove it from spec.sandboxNames. The others are routed.", condition.List(missing, shownSandboxes, ", ")))
	case len(unready) > 0:
		return condition.False(ReasonSandboxesNotReady, fmt.Sprintf("%d of %s not ready: %s",
			len(unready), count(total, "sandbox is", "sandboxes are"), condition.List(unready, shownSandboxes, "; ")))
	case total == 0:
		return condition.True("NoSandboxes", nothing)
	}
	return condition.True("SandboxesReady", fmt.Sprintf("Sandboxes ready: %d of %d.", total, total))
}

// why returns why a sandbox is not ready.
func why(s *crdv1.SignadotSandbox) string {
	c := crdv1.FindCondition(s.Status.Conditions, crdv1.ConditionReady)
	switch {
	case s.DeletionTimestamp != nil:
		return "it is being deleted"
	case c == nil || c.ObservedGeneration < s.Generation:
		return "it is not reconciled yet"
	}
	return c.Reason + ": " + c.Message
}

// routingReady returns whether the data plane knows the key, and requests for every member's
// baseline meet a sidecar that acts on it.
func routingReady(in Input, d Decision, made Made) condition.Condition {
	switch {
	case made.Refusal != nil:
		return condition.False(made.Refusal.Reason, made.Refusal.Message)
	case d.Config == nil:
		return condition.False(d.Accepted.Reason, d.Accepted.Message)
	}
	ready := routing.Of(made.Config, d.Members, in.KeyHeaders).Ready()
	if wrong := in.attached(d.Config); wrong != nil && ready.IsTrue() {
		return *wrong
	}
	return ready
}

// attached returns which middleware of the group itself is not applied; nil: none. The sandboxes write its TrafficCaptures.
func (in Input) attached(c *crdv1.RoutingConfig) *condition.Condition {
	if len(in.Group.Spec.TrafficManagerMatches) == 0 {
		return nil
	}
	if applied := routing.MiddlewaresApplied(c); !applied.IsTrue() {
		return &applied
	}
	if refused := in.refused(); refused != nil {
		return new(condition.False(refused.Reason, refused.Message))
	}
	for _, m := range c.Spec.SandboxedWorkloads {
		for _, mw := range m.Middlewares {
			of := lists.First(lists.Pointers(in.Captures), func(t *crdv1.TrafficCapture) bool {
				return t.Namespace == m.Namespace && t.Spec.Workload == m.Name && (t.Spec.Override != nil) == (mw.Middleware == routing.Override)
			})
			if applied := middleware.Applied(of, fmt.Sprintf("middleware %s before %s", mw.Middleware, routing.NameIn(m))); !applied.IsTrue() {
				return &applied
			}
		}
	}
	return nil
}

// refused returns that a TrafficCapture of the group, or its change, was refused to a sandbox; nil: to none.
func (in Input) refused() *crdv1.StatusCondition {
	for _, name := range in.names() {
		if s, is := in.Sandboxes[name]; is {
			if c := crdv1.FindCondition(s.Object.Status.Conditions, middleware.ConditionOf(in.Group.Name)); c != nil {
				return c
			}
		}
	}
	return nil
}

// count returns how many there are.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// Input has all inputs for one route group. It must not be changed.
type Input struct {
	// Group is the object.
	Group *crdv1.SignadotRouteGroup
	// Claims are all claims to its key, its own among them or not.
	Claims []routingkey.Claim
	// Configs are the RoutingConfigs that the group owns.
	Configs []crdv1.RoutingConfig
	// KeyConfig is the RoutingConfig with the name of the key, whatever its owner; nil if there is none.
	KeyConfig *crdv1.RoutingConfig
	// Sandboxes are those that the group names and that exist, by name.
	Sandboxes map[string]Sandbox
	// KeyHeaders are the custom headers that carry routing keys.
	KeyHeaders []string
	// Captures are the TrafficCaptures of the middlewares of the group itself.
	Captures []crdv1.TrafficCapture
}

// Sandbox is an existing sandbox with all members that it owns.
type Sandbox struct {
	Object  *crdv1.SignadotSandbox
	Members []crdv1.Member
}

// acceptKey returns whether the group has its key: without it nothing is routed.
func (in Input) acceptKey() condition.Condition {
	return routingkey.Accept("spec.routingKey", in.Group.Spec.RoutingKey, routingkey.OfGroup(in.Group), in.Claims, in.KeyConfig)
}

// names returns the sandboxes that are named, each once, in the order of the list.
func (in Input) names() []string { return member.SandboxesOf(in.Group) }

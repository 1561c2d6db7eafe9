package routingconfig

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/routingkey"
)

// Reasons of conditions of a RoutingConfig.
const (
	ReasonInvalidSpec       = "InvalidSpec"
	ReasonWorkloadsNotFound = "WorkloadsNotFound"
	ReasonLogUnavailable    = publish.ReasonLogUnavailable
)

// Decision is what has to be said about one RoutingConfig.
type Decision struct {
	// Conditions are those for Accepted, WorkloadsFound, SidecarsReady, NoConflicts and
	// MiddlewaresApplied.
	Conditions condition.Set
	// Declaration is what goes on the log; nil when another object has the key, or no
	// request can carry it.
	Declaration *factv1.RoutingDeclared
}

// Decide works out the declaration of a RoutingConfig that is not being deleted.
func Decide(in Input) Decision {
	d := Decision{Conditions: condition.Set{
		crdv1.ConditionAccepted:         accept(in),
		crdv1.ConditionWorkloadsFound:   found(in),
		baseline.ConditionSidecarsReady: sidecars(in),
		ConditionNoConflicts:            uncontested(in),
		ConditionMiddlewaresApplied:     MiddlewaresApplied(in.Config),
	}}
	if in.holds() {
		d.Declaration = declaration(in)
	}
	return d
}

// accept reports whether the key is one that requests can carry, and free, and every member
// is named.
func accept(in Input) condition.Condition {
	key := in.Config.RoutingKey()
	if problem := routingkey.Problem(key); problem != "" {
		return condition.False(ReasonInvalidSpec, "The routing key "+problem+", in annotation "+crdv1.AnnotationRoutingKey)
	}
	if h := in.holder(); h.UID != in.Config.UID {
		return condition.False(routingkey.ReasonTaken, fmt.Sprintf(
			"Routing key %q is held by RoutingConfig %s, which had it first: choose another key, in annotation %s",
			key, h.Name, crdv1.AnnotationRoutingKey))
	}
	for i, m := range in.Config.Spec.SandboxedWorkloads {
		if m.Kind == "" || m.Name == "" || m.Namespace == "" {
			return condition.False(ReasonInvalidSpec, fmt.Sprintf(
				"spec.sandboxedWorkloads[%d] lacks kind, namespace or name, and is left out: name a workload", i))
		}
	}
	message := fmt.Sprintf("Routing key %q is held by this object.", key)
	if metav1.GetControllerOfNoCopy(in.Config) != nil { // Its owner has the warning.
		return condition.True("Accepted", message)
	}
	return routingkey.Accepted(key, message)
}

// found reports whether every member exists and says how it is reached.
func found(in Input) condition.Condition {
	var missing, silent []string
	for _, m := range members(in) {
		name := m.Kind + " " + m.Namespace + "/" + m.Name
		switch have := in.member(m); {
		case !in.mayRead(m.Namespace):
			return condition.False(baseline.ReasonNamespaceNotAllowed,
				name+" is in a namespace where the operator may not work: add it to allowedNamespaces, or remove the member")
		case have == nil:
			missing = append(missing, name)
		case have.RoutingInfo() == nil && takesRequests(have):
			silent = append(silent, name)
		}
	}
	switch {
	case len(missing) > 0:
		return condition.False(ReasonWorkloadsNotFound, "There is no "+some(missing)+
			": create it, or remove it from spec.sandboxedWorkloads")
	case len(silent) > 0:
		return condition.False(ReasonWorkloadsNotFound, "It is not known yet how to reach "+some(silent)+
			": see the condition Ready there")
	}
	return condition.True("WorkloadsFound", fmt.Sprintf("Workloads reachable under the key: %d.", len(members(in))))
}

// uncontested reports whether each member alone stands for its baseline.
func uncontested(in Input) condition.Condition {
	var have []crdv1.Member
	named := map[MemberName]crdv1.SandboxedWorkload{}
	for _, m := range members(in) {
		if o := in.member(m); o != nil {
			have = append(have, o)
			named[NameOf(o)] = m
		}
	}
	return NoConflicts(conflicts(have, func(o crdv1.Member) string { return sandboxName(in, named[NameOf(o)]) }))
}

// MiddlewaresApplied reports whether requests pass the middlewares that the RoutingConfig
// asks for. This version has nothing that would apply one, and says so.
func MiddlewaresApplied(c *crdv1.RoutingConfig) condition.Condition {
	var names []string
	for _, m := range c.Spec.SandboxedWorkloads {
		for _, mw := range m.Middlewares {
			names = append(names, fmt.Sprintf("%q before %s %s/%s", mw.Middleware, m.Kind, m.Namespace, m.Name))
		}
	}
	if len(names) == 0 {
		return condition.True("NoMiddlewares", "No member has middlewares.")
	}
	return condition.False(baseline.ReasonNotSupportedYet, "Middlewares are not supported yet and are skipped: "+
		some(names)+". Remove them from the spec to clear this condition")
}

// takesRequests reports whether a member stands for a baseline. One that does not,
// a tunnel that only leads out, has no requests that could be led to it.
func takesRequests(m crdv1.Member) bool {
	_, ok := m.BaselineRef()
	return ok
}

// shownMembers is how many members a message names.
const shownMembers = 3

// some lists members for a message.
func some(names []string) string {
	if n := len(names) - shownMembers; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shownMembers], ", "), n)
	}
	return strings.Join(names, ", ")
}

// members returns the members that are named, each once.
func members(in Input) []crdv1.SandboxedWorkload {
	seen := map[crdv1.SandboxedWorkloadRef]bool{}
	var out []crdv1.SandboxedWorkload
	for _, m := range in.Config.Spec.SandboxedWorkloads {
		identity := crdv1.SandboxedWorkloadRef{Kind: m.Kind, Namespace: m.Namespace, Name: m.Name}
		if m.Kind == "" || m.Name == "" || m.Namespace == "" || seen[identity] {
			continue
		}
		seen[identity] = true
		out = append(out, m)
	}
	return out
}

// declaration is what the RoutingConfig declares.
func declaration(in Input) *factv1.RoutingDeclared {
	c := in.Config
	d := &factv1.RoutingDeclared{
		RoutingKey: c.RoutingKey(),
		Owner:      owner(c),
		Since:      timestamppb.New(c.CreationTimestamp.Time),
	}
	for _, m := range members(in) {
		d.Members = append(d.Members, &factv1.Member{
			Kind:        m.Kind,
			Namespace:   m.Namespace,
			Name:        m.Name,
			Sandbox:     sandboxName(in, m),
			Middlewares: middlewares(m.Middlewares),
		})
	}
	return d
}

// owner names who the key belongs to: the sandbox or route group that made the
// RoutingConfig, or the RoutingConfig itself.
func owner(c *crdv1.RoutingConfig) *factv1.ObjectRef {
	if ref := metav1.GetControllerOfNoCopy(c); ref != nil {
		return &factv1.ObjectRef{Kind: ref.Kind, Name: ref.Name, Uid: string(ref.UID)}
	}
	return &factv1.ObjectRef{Kind: crdv1.KindRoutingConfig, Name: c.Name, Uid: string(c.UID)}
}

// sandboxName returns the sandbox of a member as its pods know it. Where the
// RoutingConfig does not say, it is what the member says, else its name.
func sandboxName(in Input, m crdv1.SandboxedWorkload) string {
	if m.SandboxName != "" {
		return m.SandboxName
	}
	if have := in.member(m); have != nil {
		return sandboxOf(have)
	}
	return m.Name
}

// sandboxOf returns the sandbox that a member says it is of, else its own name.
func sandboxOf(m crdv1.Member) string {
	if name := m.GetAnnotations()[crdv1.AnnotationSandboxName]; name != "" {
		return name
	}
	return m.GetName()
}

// middlewares returns the middlewares in the form of a fact.
func middlewares(in []crdv1.MiddlewareInstance) []*factv1.Middleware {
	var out []*factv1.Middleware
	for _, m := range in {
		mw := &factv1.Middleware{Name: m.Middleware}
		for _, a := range m.Args {
			arg := &factv1.Argument{Name: a.Name, Value: a.Value}
			if a.ValueFrom != nil {
				arg.Forward = a.ValueFrom.Forward
			}
			mw.Args = append(mw.Args, arg)
		}
		out = append(out, mw)
	}
	return out
}

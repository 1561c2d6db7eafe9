package routingconfig

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/event"
	crdv1 "switchyard.dev/protos/crd/v1"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/receipt"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/reconcilers/routingkey"
	"switchyard.dev/sidecars/devmesh"
)

// Reasons of conditions of a RoutingConfig.
const (
	ReasonInvalidSpec       = "InvalidSpec"
	ReasonWorkloadsNotFound = "WorkloadsNotFound"
	ReasonLogUnavailable    = publish.ReasonLogUnavailable
)

// Decision is the result of Decide for one RoutingConfig.
type Decision struct {
	// Conditions are those for Accepted, WorkloadsFound, SidecarsReady, NoConflicts and
	// MiddlewaresApplied.
	Conditions condition.Set
	// Declaration is the content of the fact for the log; nil if another object holds the key, or
	// requests cannot carry it.
	Declaration *factv1.RoutingDeclared
}

// Decide computes the declaration of a RoutingConfig that is not being deleted.
func Decide(in Input) Decision {
	d := Decision{Conditions: condition.Set{
		crdv1.ConditionAccepted:             accept(in),
		crdv1.ConditionWorkloadsFound:       found(in),
		baseline.ConditionSidecarsReady:     in.Sidecars(),
		routing.ConditionNoConflicts:        in.NoConflicts(),
		routing.ConditionMiddlewaresApplied: routing.MiddlewaresApplied(in.Config),
	}}
	if in.holds() {
		d.Declaration = in.Declaration()
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
		if !routing.IsComplete(m) {
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

// found returns the condition that every member exists and reports its Services.
func found(in Input) condition.Condition {
	var missing, silent []string
	for _, m := range in.Named() {
		name := routing.NameIn(m).String()
		switch have := in.Member(m); {
		case !in.mayRead(m.Namespace):
			return condition.False(baseline.ReasonNamespaceNotAllowed,
				name+" is in a namespace where the operator may not work: add it to allowedNamespaces, or remove the member")
		case have == nil:
			missing = append(missing, name)
		case have.RoutingInfo() == nil && routing.TakesRequests(have):
			silent = append(silent, name)
		}
	}
	switch {
	case len(missing) > 0:
		message := "There is no " + condition.List(missing, 3, ", ") + ": create it, or remove it from spec.sandboxedWorkloads"
		if slices.ContainsFunc(in.Named(), in.Absent) {
			message += ". Until then, requests with the key get 503 and do not reach its baseline"
		}
		return condition.False(ReasonWorkloadsNotFound, message)
	case len(silent) > 0:
		return condition.False(ReasonWorkloadsNotFound, "It is not known yet how to reach "+condition.List(silent, 3, ", ")+
			": see the condition Ready there")
	}
	return condition.True("WorkloadsFound", fmt.Sprintf("Workloads reachable under the key: %d.", len(in.Named())))
}

// Reasons of the condition ProxiesCurrent, beside Pending
// and routing.ReasonNotAwaited.
const (
	// ReasonProxiesBehind: some have not acknowledged.
	ReasonProxiesBehind = "ProxiesBehind"
	// ReasonRouteServerUnavailable: not all route servers can be asked.
	ReasonRouteServerUnavailable = "RouteServerUnavailable"
)

// shownProxies is how many proxies a message names.
const shownProxies = 3

// Receipt is the progress of the acknowledgement of the declaration.
type Receipt struct {
	// Waived: the operator does not wait for acknowledgements.
	Waived bool
	// Answer is the result of the last query; zero if there was none.
	Answer receipt.Answer
}

// toAsk reports whether to query the acknowledgements: the declaration and the facts of every member
// are on the log, and some member can get requests.
func toAsk(in Input, d Decision, p Published) bool {
	return d.Declaration != nil && p.Err == nil && !in.Idle() &&
		d.Conditions[crdv1.ConditionWorkloadsFound].IsTrue() && in.Recorded()
}

// proxies returns the condition that every proxy that can see the key has its rules.
func proxies(in Input, d Decision, p Published, r Receipt) condition.Condition {
	key := in.Config.RoutingKey()
	a := r.Answer
	switch {
	case r.Waived:
		return condition.True(routing.ReasonNotAwaited, "Proxies are not waited for: routing.waitForProxies is false.")
	case d.Declaration != nil && in.Idle():
		return condition.True(routing.ConditionProxiesCurrent, fmt.Sprintf("Routing key %q reaches no workload, so no proxy has to know it.", key))
	case a.Had:
		return condition.True(routing.ConditionProxiesCurrent, fmt.Sprintf("Every proxy that can see routing key %q has acknowledged its rules.", key))
	case !toAsk(in, d, p):
		return condition.Unknown(crdv1.ReasonPending, "Proxies are asked once the rules are on the routing log and the Services of every workload are known.")
	case a.Trouble != "":
		return condition.Unknown(ReasonRouteServerUnavailable, fmt.Sprintf(
			"Cannot ask the route servers which proxies have routing key %q: %s. Check that Deployment signadot/routeserver is up; retrying.", key, a.Trouble))
	case len(a.Behind) > 0, len(a.Missing) > 0 && len(a.Silent) == 0: // silent route servers may have the missing proxies
		return condition.False(ReasonProxiesBehind, behind(key, a))
	case len(a.Silent) > 0:
		return condition.Unknown(ReasonRouteServerUnavailable, fmt.Sprintf(
			"It is not known which proxies have routing key %q: these route servers do not answer: %s. Retrying.", key, strings.Join(a.Silent, ", ")))
	}
	return in.Getting()
}

// behind names the proxies that are behind.
func behind(key string, a receipt.Answer) string {
	var names []string
	for _, p := range a.Behind {
		name := p.Pod + " (behind)"
		if p.Rejected != "" {
			name = fmt.Sprintf("%s (it refused: %s)", p.Pod, p.Rejected)
		}
		names = append(names, name)
	}
	where := " (its sidecar is not connected to a route server)"
	if len(a.Silent) > 0 {
		where = " (its sidecar is not connected to a route server that answers)"
	}
	for _, pod := range a.Missing {
		names = append(names, pod+where)
	}
	slices.Sort(names)
	n, more := len(names), ""
	if n > shownProxies {
		more = fmt.Sprintf(" and %d more", n-shownProxies)
		names = names[:shownProxies]
	}
	pod := strings.Fields(names[0])[0]
	namespace, name, _ := strings.Cut(pod, "/")
	return fmt.Sprintf("%d of %d proxies that can see routing key %q have not acknowledged its rules: %s%s. If that lasts: kubectl logs -n %s %s -c %s",
		n, a.Proxies+len(a.Missing), key, strings.Join(names, ", "), more, namespace, name, devmesh.ContainerName)
}

// Input is the input of Decide for one RoutingConfig. It must not be modified.
type Input struct {
	// Routing is the RoutingConfig with its members.
	routing.Routing
	// SameKey are all RoutingConfigs with its key, itself among them or not.
	SameKey []crdv1.RoutingConfig
	// FormerKey are all RoutingConfigs with the key that it declared before, when
	// that is another one.
	FormerKey []crdv1.RoutingConfig
	// MeshRoutes are the mesh routes that this RoutingConfig owns, by kind.
	MeshRoutes map[string][]crdv1.MeshRoute
	// meshErrs are the errors of writing mesh routes, by kind.
	meshErrs map[string]error
	// Namespaces are those in which the operator may work; empty means all.
	Namespaces []string
}

// mayRead reports whether the operator may work in a namespace. The cache has no objects of others.
func (in Input) mayRead(namespace string) bool {
	return len(in.Namespaces) == 0 || slices.Contains(in.Namespaces, namespace)
}

// holder returns the RoutingConfig that has the key: the one that declares it, however old the others
// are; if none does, the oldest, then the first by name. One that declares the key and is being deleted
// holds it until it is removed or has handed it over.
func (in Input) holder() *crdv1.RoutingConfig {
	candidates := []*crdv1.RoutingConfig{in.Config}
	for i := range in.SameKey {
		if in.SameKey[i].UID != in.Config.UID {
			candidates = append(candidates, &in.SameKey[i])
		}
	}
	return routing.Holder(candidates...)
}

// successor returns the RoutingConfig that gets the key after this one is deleted; nil if there is
// none, or all are being deleted.
func (in Input) successor() *crdv1.RoutingConfig {
	var out *crdv1.RoutingConfig
	for i := range in.SameKey {
		c := &in.SameKey[i]
		if c.UID != in.Config.UID && c.DeletionTimestamp == nil && (out == nil || routing.Holder(c, out) == c) {
			out = c
		}
	}
	return out
}

// holds reports whether the key is this object's, and one that requests can carry.
func (in Input) holds() bool { return in.carried() && in.holder().UID == in.Config.UID }

// carried reports whether requests can carry the key. Nothing declares one that they cannot.
func (in Input) carried() bool { return routingkey.Problem(in.Config.RoutingKey()) == "" }

// formerKey returns the key that was declared before and is given up now, and the other objects that
// may declare it; empty if there is no such key. A key that requests cannot carry has no other objects.
func (in Input) formerKey() (string, []crdv1.RoutingConfig) {
	former := in.Config.Annotations[routing.AnnotationDeclaredKey]
	if former == "" || former == in.Config.RoutingKey() && in.carried() {
		return "", nil
	}
	if routingkey.Problem(former) != "" {
		return former, nil
	}
	itself := func(c crdv1.RoutingConfig) bool { return c.UID == in.Config.UID }
	return former, slices.DeleteFunc(slices.Clone(in.FormerKey), itself)
}

// Declared returns the fact that declares the routing key and members of the RoutingConfig.
func Declared(c *crdv1.RoutingConfig, d *factv1.RoutingDeclared) event.Fact {
	return event.Fact{
		Key:   event.RoutingKey(d.GetRoutingKey()),
		Cause: publish.CauseOf(crdv1.KindRoutingConfig, c),
		Data:  d,
	}
}

// Withdrawn returns the fact that the RoutingConfig does not declare the key.
func Withdrawn(c *crdv1.RoutingConfig, key string) event.Fact {
	return event.Fact{
		Key:   event.RoutingKey(key),
		Cause: publish.MakerOf(crdv1.KindRoutingConfig, c),
		Data:  &factv1.RoutingWithdrawn{RoutingKey: key},
	}
}

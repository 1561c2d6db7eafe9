package routingconfig

import (
	"fmt"
	"slices"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/receipt"
	"switchyard.dev/reconcilers/routing"
	"switchyard.dev/sidecars/devmesh"
)

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

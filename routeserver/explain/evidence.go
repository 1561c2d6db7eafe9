package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/table"
)

// Evidence contains the facts about a request and its route, all of one version.
type Evidence struct {
	Table table.Table
	// Key is the request's routing key, "" for none; WhyNoKey is then the reason.
	Key, WhyNoKey string
	// Targets are the baselines that the request can reach, and their ports, in the order of
	// preference. If there are none, WhyNoTarget is the reason.
	Targets     []Target
	WhyNoTarget string
	// OfKey is the history of the routing key, oldest first, and OfMember that of
	// each member that Members names. Nothing in them is newer than the table.
	OfKey    []event.Recorded
	OfMember map[event.Key][]event.Recorded
	// KeptSince is when the oldest event was recorded that the log keeps; the zero
	// time when it keeps all since it began.
	KeptSince time.Time
	// Sidecars are those of the request: all of the baselines, or that of the Pod (namespace/name)
	// when it is set. They are valid only if SidecarsKnown: it is false if they were not queried or
	// the table is not the newest.
	Sidecars      []*routingv1.Sidecar
	SidecarsKnown bool
	Pod           string
	// Silent are the addresses of route servers that did not respond: the state of their sidecars
	// is unknown.
	Silent []string
}

// Target is a port of a baseline; 0 is any port.
type Target struct {
	Baseline     table.Workload
	WorkloadPort uint32
}

// Resolve returns the targets of a destination, from its known places, or the reason why there are
// none.
func Resolve(d Destination, places []Place) (targets []Target, why string) {
	var namespaces []string
	var ports []uint32
	for _, p := range places {
		if !slices.Contains(namespaces, p.Namespace) {
			namespaces = append(namespaces, p.Namespace)
		}
		if d.Port != 0 && d.Port != p.Port {
			ports = append(ports, p.Port)
			continue
		}
		t := Target{p.Baseline, p.WorkloadPort}
		if d.Port == 0 {
			t.WorkloadPort = 0
		}
		if !slices.Contains(targets, t) {
			targets = append(targets, t)
		}
	}
	switch {
	case len(namespaces) > 1:
		return nil, fmt.Sprintf("%s is a Service in %s; name the namespace too", d.Service, oneOf(namespaces))
	case len(places) == 0:
		return nil, fmt.Sprintf("no workload that a sandbox forks has been seen behind %s", d)
	case len(targets) == 0:
		slices.Sort(ports)
		return nil, fmt.Sprintf("of the Service %s/%s only port %s is known to route to a workload that a sandbox forks",
			places[0].Namespace, places[0].Service, oneOf(slices.Compact(ports)))
	}
	slices.SortFunc(targets, func(a, b Target) int {
		return cmp.Or(a.Baseline.Compare(b.Baseline), cmp.Compare(a.WorkloadPort, b.WorkloadPort))
	})
	return targets, ""
}

func oneOf[T any](all []T) string {
	out := ""
	for i, one := range all {
		switch {
		case i > 0 && i == len(all)-1:
			out += " and "
		case i > 0:
			out += ", "
		}
		out += fmt.Sprint(one)
	}
	return out
}

// Members returns the keys of the members that a routing key's history names in its last two
// different declarations, sorted. An Evidence needs their histories.
func Members(ofKey []event.Recorded) []event.Key {
	var out []event.Key
	var seen []*factv1.RoutingDeclared
	for _, e := range slices.Backward(ofKey) {
		d, ok := e.Fact.Data.(*factv1.RoutingDeclared)
		if !ok || slices.ContainsFunc(seen, func(s *factv1.RoutingDeclared) bool { return sameMembers(s, d) }) {
			continue
		}
		if seen = append(seen, d); len(seen) > 2 {
			break
		}
		for _, m := range d.GetMembers() {
			out = append(out, keyOf(m))
		}
	}
	return lists.Unique(out)
}

func sameMembers(a, b *factv1.RoutingDeclared) bool {
	return slices.EqualFunc(a.GetMembers(), b.GetMembers(), func(a, b *factv1.Member) bool {
		return keyOf(a) == keyOf(b) && a.GetSandbox() == b.GetSandbox()
	})
}

package explain

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/table"
)

func (c *inquiry) memberGone(member event.Key) {
	c.since(c.OfKey, naming(member))
	since := c.since(c.OfMember[member], bothTombstones)
	c.say(routingv1.Verdict_MEMBER_GONE,
		fmt.Sprintf("%s, which represented %s under the routing key %s, was deleted at %s%s, so the request goes to the baseline.",
			object(member), name(c.Target.Baseline), quoted(c.Key), moment(since), by(since)),
		"The key still names it: find out why "+object(member)+" was removed, or remove it from the object that declares the key.")
}

func (c *inquiry) notObserved(unseen []event.Key) {
	objects := lists.Map(unseen, object)
	since := c.since(c.OfKey, naming(unseen[0]))
	c.say(routingv1.Verdict_NOT_OBSERVED,
		fmt.Sprintf("The routing key %s has named %s since %s%s, but its baseline is not known yet, so the request goes to the baseline%s.",
			quoted(c.Key), oneOf(objects), moment(since), by(since), c.baseline(", ")),
		"See the conditions of "+object(unseen[0])+": it may not exist, or its baseline may not.")
}

func (c *inquiry) notAMember() {
	since := c.since(c.OfKey, func(a, b proto.Message) bool {
		was, before := a.(*factv1.RoutingDeclared)
		is, now := b.(*factv1.RoutingDeclared)
		return before && now && sameMembers(was, is)
	})
	summary := fmt.Sprintf("The routing key %s is declared, and no member of it represents %s, so the request goes to the baseline.",
		quoted(c.Key), name(c.Target.Baseline))
	if dropped, ok := c.dropped(); ok {
		summary = fmt.Sprintf("The routing key %s has not named %s since %s%s, and no other member of it represents %s, so the request goes to the baseline.",
			quoted(c.Key), object(dropped), moment(since), by(since), name(c.Target.Baseline))
	}
	c.say(routingv1.Verdict_NOT_A_MEMBER, summary,
		"Fork "+name(c.Target.Baseline)+" in the sandbox if its requests are to be served there.")
}

// dropped returns a member that stood for the baseline and that the newest
// declaration does not name, while one before it did.
func (c *inquiry) dropped() (event.Key, bool) {
	for _, key := range Members(c.OfKey) {
		seen, ever := lastSeen(c.OfMember[key])
		if ever && table.WorkloadOf(seen.GetBaseline()) == c.Target.Baseline && find(c.declared(), key) == nil {
			return key, true
		}
	}
	return "", false
}

// holder is the key of the member that serves the rule.
func (c *inquiry) holder() event.Key {
	m := c.Rule.Member
	return event.Workload(m.Kind, m.Namespace, m.Name)
}

// observation is the newest one of the member that serves the rule.
func (c *inquiry) observation() *factv1.WorkloadObserved {
	history := c.OfMember[c.holder()]
	if len(history) == 0 {
		return nil
	}
	o, _ := history[len(history)-1].Fact.Data.(*factv1.WorkloadObserved)
	return o
}

// kept reports whether the request stays at the baseline on purpose. A sidecar matters only while
// it has older routes, which may route it elsewhere.
func (c *inquiry) kept() bool {
	if !c.Rule.Kept() || len(c.Lagging) > 0 {
		return false
	}
	c.decisive()
	summary := fmt.Sprintf("The request stays at the baseline, %s: %s of sandbox %s has no pods of its own and keeps it there.",
		name(c.Target.Baseline), object(c.holder()), quoted(c.Rule.Sandbox))
	hint := "Fork " + name(c.Target.Baseline) + " in the sandbox instead if its requests are to be served there."
	if c.Conflict != nil {
		loser := c.loses()
		summary += fmt.Sprintf(" Sandbox %s does not get it either: %s represents the same baseline and is younger.",
			quoted(c.Conflict.LoserSandbox), object(loser))
		hint = oneOfTwo
	}
	c.say(routingv1.Verdict_KEPT_AT_BASELINE, summary, hint)
	return true
}

// unrouted reports whether no Service port maps to the member: no Service selects the baseline, or the
// member has no port for one. Then no request is routed to the sandbox; a baseline that consumes
// messages queries the route server itself.
func (c *inquiry) unrouted() bool {
	if o := c.observation(); o == nil || len(o.GetServices()) > 0 {
		return false
	}
	c.decisive()
	c.say(routingv1.Verdict_PORT_NOT_MAPPED,
		fmt.Sprintf("Sandbox %s holds the routing key for %s, but no port of a Service routes to %s, so no request is routed to the sandbox. Message consumers need no Service: they query the route server for the routing keys that they process.",
			quoted(c.Rule.Sandbox), name(c.Target.Baseline), object(c.holder())),
		"Check that a Service of "+name(c.Target.Baseline)+" routes to the port, and the conditions of "+object(c.holder())+"; if it consumes messages, configure it to leave those with this key to the sandbox.")
	return true
}

// sidecar looks whether there is one to take the request elsewhere. Pods that
// have one and are not known to be connected are for acknowledgement.
func (c *inquiry) sidecar() bool {
	if o := c.observation(); o == nil || o.GetDevMeshPresent() || len(c.Sidecars) > 0 {
		return false
	}
	since := c.since(c.OfMember[c.holder()], both((*factv1.WorkloadObserved).GetDevMeshPresent))
	who := "Not every pod of " + name(c.Target.Baseline) + " has a ready DevMesh sidecar (since " + moment(since) + ")"
	if c.SidecarsKnown {
		who += ", and none is connected"
	}
	c.say(routingv1.Verdict_NO_SIDECAR, who+", so the request goes to the baseline unless Istio or the Gateway API routes it.",
		`Run kubectl switchyard coverage: it shows whether the pod template lacks the annotation sidecar.signadot.com/inject: "true", its pods were refused a sidecar, or their sidecar is not ready.`)
	return true
}

func (c *inquiry) acknowledgement() bool {
	if !c.SidecarsKnown || len(c.Sidecars) > 0 && len(c.Lagging) == 0 {
		return false
	}
	c.decisive()
	hint := "If this persists for more than a second, check the log of the sidecar and its connection to the route servers."
	if len(c.Sidecars) == 0 {
		who := "No sidecar of " + name(c.Target.Baseline) + " is"
		hint = "Run kubectl switchyard coverage to see its pods and their sidecars; the log of a sidecar shows why it is not connected."
		if c.Pod != "" {
			who = "The sidecar of pod " + c.Pod + " is not"
			hint = "Check that the pod exists and has a sidecar (kubectl switchyard coverage); the log of the sidecar shows why it is not connected."
		}
		c.say(routingv1.Verdict_NOT_ACKNOWLEDGED,
			who+" connected to a route server, so it is not known to route the request to sandbox "+quoted(c.Rule.Sandbox)+
				". A sidecar that was connected before uses its last routes; one that never was sends the request to the baseline.", hint)
		return true
	}
	first := c.Lagging[0]
	which := "to sandbox " + quoted(c.Rule.Sandbox)
	if c.Rule.Kept() {
		which = "that keep it at the baseline for sandbox " + quoted(c.Rule.Sandbox)
	}
	who := fmt.Sprintf("%d of the %d sidecars of %s have not acknowledged the routes %s, the first of them in pod %s/%s",
		len(c.Lagging), len(c.Sidecars), name(c.Target.Baseline), which, first.GetNamespace(), first.GetPod())
	if first.GetRejected() != "" {
		who += ", which refused them: " + first.GetRejected()
		hint = "Report the message of the sidecar: it keeps its last good routes until those that it refused are replaced."
	}
	c.say(routingv1.Verdict_NOT_ACKNOWLEDGED, strings.TrimSuffix(who, ".")+". These sidecars route the request as before.", hint)
	return true
}

// readiness reports whether the destination cannot serve. A port that the rule does not map goes to
// the baseline regardless: the check port covers that.
func (c *inquiry) readiness() bool {
	if c.Rule.Ready || len(c.destinations()) == 0 {
		return false
	}
	if c.Rule.Absent() {
		c.absent()
		return true
	}
	c.since(c.OfKey, naming(c.holder()))
	since := c.since(c.OfMember[c.holder()], both((*factv1.WorkloadObserved).GetReady))
	c.say(routingv1.Verdict_NOT_READY,
		fmt.Sprintf("The request belongs to sandbox %s. Its %s is not ready (since %s), so it fails with 503 instead of reaching the baseline.",
			quoted(c.Rule.Sandbox), object(c.holder()), moment(since)),
		"See the conditions of "+object(c.holder())+", and "+whatServes(c.Rule.Member.Kind)+".")
	return true
}

// absent explains a rule of a member that does not exist: the declaration has its baseline.
func (c *inquiry) absent() {
	c.since(c.OfKey, naming(c.holder()))
	what := "does not exist, so it fails with 503 instead of reaching the baseline"
	if history := c.OfMember[c.holder()]; len(history) > 0 {
		since := c.since(history, bothTombstones)
		what = "was deleted at " + moment(since) + by(since) + ", so it fails with 503 instead of reaching the baseline"
	}
	c.say(routingv1.Verdict_MEMBER_GONE,
		fmt.Sprintf("The request belongs to sandbox %s. Its %s %s.",
			quoted(c.Rule.Sandbox), object(c.holder()), what),
		"The key still names it: find out why "+object(c.holder())+" does not exist, or remove it from the object that declares the key.")
}

func (c *inquiry) port() bool {
	destinations := c.destinations()
	if slices.ContainsFunc(destinations, func(d table.Destination) bool { return d.Address != "" }) {
		return false
	}
	c.since(c.OfKey, naming(c.holder()))
	c.since(c.OfMember[c.holder()], both(mapped(c.Target.WorkloadPort)))
	what, where := "no Service of it routes to ", "so the request goes to the baseline"
	if len(destinations) > 0 {
		what, where = "its Service has no cluster IP for ", "so the request fails with 503 instead of reaching the baseline"
	}
	c.say(routingv1.Verdict_PORT_NOT_MAPPED,
		fmt.Sprintf("Sandbox %s holds the routing key for %s, but %s%s, %s.", quoted(c.Rule.Sandbox), name(c.Target.Baseline), what, port(c.Target), where),
		"Check that a Service of "+name(c.Target.Baseline)+" routes to the port, and the conditions of "+object(c.holder())+".")
	return true
}

func (c *inquiry) contest() bool {
	if c.Conflict == nil {
		return false
	}
	c.decisive()
	loser := c.loses()
	c.say(routingv1.Verdict_LOST,
		fmt.Sprintf("The request goes to sandbox %s, not to sandbox %s: under the routing key %s both represent %s, and %s is older than %s.",
			quoted(c.Rule.Sandbox), quoted(c.Conflict.LoserSandbox), quoted(c.Key), name(c.Target.Baseline), object(c.holder()), object(loser)),
		oneOfTwo)
	return true
}

// oneOfTwo is the remedy for two members that represent one baseline.
const oneOfTwo = "Only one sandbox can serve a baseline under one key: remove one of the two from the route group."

// loses returns the member that lost the baseline, and adds the events that made it so.
func (c *inquiry) loses() event.Key {
	loser := event.Workload(c.Conflict.Loser.Kind, c.Conflict.Loser.Namespace, c.Conflict.Loser.Name)
	c.since(c.OfKey, naming(loser))
	c.since(c.OfMember[loser], sameServing)
	return loser
}

func (c *inquiry) routed() {
	c.decisive()
	c.say(routingv1.Verdict_ROUTED, fmt.Sprintf("The request goes to sandbox %s%s: %s represents %s under the routing key %s.",
		quoted(c.Rule.Sandbox), c.to(), object(c.holder()), name(c.Target.Baseline), quoted(c.Key)), "")
}

// decisive adds the events that make the rule.
func (c *inquiry) decisive() {
	c.since(c.OfKey, naming(c.holder()))
	c.since(c.OfMember[c.holder()], sameServing)
}

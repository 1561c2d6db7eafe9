package explain

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/table"
)

// Answer is the route of a request, and the reason.
type Answer struct {
	Verdict routingv1.Verdict
	// Summary is the answer in one sentence, and Hint the remedy, if there is one.
	Summary, Hint string
	// Target is what the request is for; its baseline is zero when that is not
	// known.
	Target Target
	// Rule is the one that decides, or would; nil when there is none.
	Rule *table.Rule
	// Because are the events that made it so, oldest first, each of them once.
	Because []event.Recorded
	// Conflict is set when another member claims the same baseline.
	Conflict *table.Conflict
	// Lagging are the sidecars that are asked about and have other routes than
	// they are to have.
	Lagging []*routingv1.Sidecar
}

// Explain finds the answer. See the package comment for how.
func Explain(e Evidence) Answer {
	c := &inquiry{Evidence: e}
	c.Target = Preferred(e)
	if c.known() {
		c.Rule, _ = e.Table.Lookup(c.Target.Baseline, e.Key)
	}
	if c.Rule != nil {
		c.Conflict = conflictOver(e.Table, c.Rule)
	}
	c.Lagging = lagging(e.Sidecars)
	for _, look := range []func() bool{
		c.table, c.key, c.declaration, c.destination, c.missing, c.kept,
		c.unrouted, c.sidecar, c.acknowledgement, c.readiness, c.port, c.contest,
	} {
		if look() {
			break
		}
	}
	if c.Verdict == routingv1.Verdict_VERDICT_UNSPECIFIED {
		c.routed()
	}
	c.unheard()
	slices.SortFunc(c.Because, func(a, b event.Recorded) int { return int(int64(a.Pos.Seq) - int64(b.Pos.Seq)) })
	c.Because = slices.CompactFunc(c.Because, func(a, b event.Recorded) bool { return a.Pos == b.Pos })
	return c.Answer
}

// inquiry is an answer under construction. Each of its checks reports whether it decided.
type inquiry struct {
	Evidence
	Answer
}

// known reports whether it is known what the request is for.
func (c *inquiry) known() bool { return c.Target.Baseline != table.Workload{} }

// Preferred returns the target to explain: the first with a rule for the key, or else the first;
// the zero Target when there is none.
func Preferred(e Evidence) Target {
	for _, t := range e.Targets {
		if _, ok := e.Table.Lookup(t.Baseline, e.Key); ok && e.Key != "" {
			return t
		}
	}
	if len(e.Targets) > 0 {
		return e.Targets[0]
	}
	return Target{}
}

// Others returns the targets of other workloads that have rules: a request to the
// destination can reach each. A workload without rules is left out, since its last observation can
// be out of date. It returns none where the table or the key alone decides.
func Others(e Evidence) []Target {
	if !e.Table.Whole() || e.Key == "" || len(e.OfKey) == 0 || e.OfKey[len(e.OfKey)-1].Fact.Tombstone() {
		return nil
	}
	return others(e)
}

func others(e Evidence) []Target {
	preferred := Preferred(e)
	return slices.DeleteFunc(slices.Clone(e.Targets), func(t Target) bool {
		return t.Baseline == preferred.Baseline || !hasRule(e.Table, t.Baseline)
	})
}

func hasRule(t table.Table, baseline table.Workload) bool {
	for range t.Of(baseline) {
		return true
	}
	return false
}

func conflictOver(t table.Table, r *table.Rule) *table.Conflict {
	for _, c := range t.Conflicts() {
		if c.RoutingKey == r.RoutingKey && c.Baseline == r.Baseline {
			return &c
		}
	}
	return nil
}

// destinations returns those that the rule has for the port; none when it does not
// map it.
func (c *inquiry) destinations() []table.Destination {
	var out []table.Destination
	for _, m := range c.Rule.Mappings {
		if c.Target.WorkloadPort == 0 || m.WorkloadPort == c.Target.WorkloadPort {
			out = append(out, m.Destinations...)
		}
	}
	return out
}

// lagging returns the sidecars that are not current. A pod that has two streams is
// current when one of them is.
func lagging(all []*routingv1.Sidecar) []*routingv1.Sidecar {
	var out []*routingv1.Sidecar
	for _, s := range all {
		if !slices.ContainsFunc(all, func(o *routingv1.Sidecar) bool {
			return o.GetCurrent() && o.GetNamespace() == s.GetNamespace() && o.GetPod() == s.GetPod()
		}) {
			out = append(out, s)
		}
	}
	return out
}

func (c *inquiry) table() bool {
	if c.Table.Whole() {
		return false
	}
	c.say(routingv1.Verdict_TABLE_NOT_WHOLE,
		"This route server has no complete routing table yet.",
		"Try again in a moment. If this persists, check that the event bus is up and, in the operator's log, that facts are published.")
	return true
}

func (c *inquiry) key() bool {
	if c.Key != "" {
		return false
	}
	c.say(routingv1.Verdict_NO_KEY,
		"The request carries no routing key, so it goes to the baseline"+c.baselines()+": "+c.WhyNoKey+".",
		"Send the key as the member "+member+" of the header baggage.")
	return true
}

// declaration looks for a declaration of the key.
func (c *inquiry) declaration() bool {
	if c.Rule != nil {
		return false
	}
	if len(c.OfKey) == 0 {
		c.say(routingv1.Verdict_NEVER_DECLARED,
			"No object has declared the routing key "+quoted(c.Key)+c.asFarAsKept()+", so the request goes to the baseline"+c.baselines()+".",
			neverDeclaredHint(c.Key))
		return true
	}
	if newest := c.OfKey[len(c.OfKey)-1]; !newest.Fact.Tombstone() {
		return false
	}
	since := c.since(c.OfKey, bothTombstones)
	c.say(routingv1.Verdict_WITHDRAWN,
		"The routing key "+quoted(c.Key)+" was withdrawn at "+moment(since)+by(since)+", so the request goes to the baseline"+c.baselines()+".",
		"Create the sandbox or route group again to route its requests.")
	return true
}

func (c *inquiry) destination() bool {
	if c.known() {
		return false
	}
	if unseen := c.unseen(); len(unseen) > 0 {
		// The unobserved member may be the one behind the destination.
		c.notObserved(unseen)
		return true
	}
	c.say(routingv1.Verdict_UNKNOWN_DESTINATION,
		"It is not known which workload the request is for: "+c.WhyNoTarget+".",
		"Name the workload itself, or a Service that routes to a workload that a sandbox forks. Requests to other destinations are not routed.")
	return true
}

// missing returns why there is no rule, of a key that is declared.
func (c *inquiry) missing() bool {
	if c.Rule != nil {
		return false
	}
	if gone := c.gone(); gone != "" {
		c.memberGone(gone)
		return true
	}
	if unseen := c.unseen(); len(unseen) > 0 {
		c.notObserved(unseen)
		return true
	}
	c.notAMember()
	return true
}

// declared is the newest declaration of the key; nil when there is none.
func (c *inquiry) declared() *factv1.RoutingDeclared {
	if len(c.OfKey) == 0 {
		return nil
	}
	d, _ := c.OfKey[len(c.OfKey)-1].Fact.Data.(*factv1.RoutingDeclared)
	return d
}

// unseen returns the members without a known baseline: never observed, or observed without one.
func (c *inquiry) unseen() []event.Key {
	var out []event.Key
	for _, m := range c.declared().GetMembers() {
		if _, ever := lastSeen(c.OfMember[keyOf(m)]); !ever {
			out = append(out, keyOf(m))
		}
	}
	return out
}

// gone returns the deleted member that represented the baseline; "" when there is none.
func (c *inquiry) gone() event.Key {
	for _, m := range c.declared().GetMembers() {
		history := c.OfMember[keyOf(m)]
		seen, ever := lastSeen(history)
		if ever && history[len(history)-1].Fact.Tombstone() && table.WorkloadOf(seen.GetBaseline()) == c.Target.Baseline {
			return keyOf(m)
		}
	}
	return ""
}

// lastSeen returns the newest observation of a member that names a baseline.
func lastSeen(history []event.Recorded) (*factv1.WorkloadObserved, bool) {
	for _, e := range slices.Backward(history) {
		if o, ok := e.Fact.Data.(*factv1.WorkloadObserved); ok && o.GetBaseline().GetName() != "" {
			return o, true
		}
	}
	return nil, false
}

func (c *inquiry) because(events ...event.Recorded) { c.Because = append(c.Because, events...) }

// since adds the event since which the content of a history is unchanged, and returns it.
func (c *inquiry) since(history []event.Recorded, alike func(a, b proto.Message) bool) event.Recorded {
	e, ok := Since(history, alike)
	if ok {
		c.because(e)
	}
	return e
}

// unheard adds what silent route servers leave open, where a rule decides.
func (c *inquiry) unheard() {
	if c.Rule == nil || len(c.Silent) == 0 {
		return
	}
	open := "Try again: route server " + oneOf(c.Silent) + " did not respond, so it is unknown whether its sidecars have these routes."
	c.Hint = strings.TrimSpace(c.Hint + " " + open)
}

func (c *inquiry) say(v routingv1.Verdict, summary, hint string) {
	c.Verdict, c.Summary, c.Hint = v, summary, hint
}

package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// when returns a time for people: local, and how long ago.
func (a *app) when(t *timestamppb.Timestamp) string {
	if t == nil {
		return "at an unknown time"
	}
	return a.clock(t) + " (" + a.age(t) + " ago)"
}

func (a *app) clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().In(a.Zone).Format(time.RFC3339)
}

// age returns how long ago a moment was, in the unit that fits.
func (a *app) age(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	switch d := a.Now().Sub(t.AsTime()); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

func place(p *routingv1.Position) string {
	return fmt.Sprintf("%s/%d", p.GetEpoch(), p.GetSequence())
}

// versionLine returns which version an answer was made from.
func (a *app) versionLine(v *routingv1.Version) string {
	if v == nil {
		return "no version"
	}
	return fmt.Sprintf("%s, recorded %s, hash %.12s…", place(v.GetPosition()), a.when(v.GetRecorded()), v.GetHash())
}

// named is what has a kind, a name and, unless it is of the cluster, a namespace.
type named interface {
	GetKind() string
	GetNamespace() string
	GetName() string
}

func nameOf(o named) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

// causeName returns who made something so.
func causeName(c *routingv1.Cause) string {
	if c.GetName() == "" && c.GetKind() == "" {
		return "the operator"
	}
	out := nameOf(c)
	if c.GetGeneration() > 0 {
		out += fmt.Sprintf(", generation %d", c.GetGeneration())
	}
	if c.GetManager() != "" {
		out += ", written by " + c.GetManager()
	}
	if c.GetVia() != "" {
		out += ", through " + via(c.GetVia())
	}
	return out
}

// via names the objects of a chain: "SignadotRouteGroup/blue" is SignadotRouteGroup blue.
func via(chain string) string {
	links := strings.Split(chain, ",")
	for i, link := range links {
		links[i] = strings.Replace(link, "/", " ", 1)
	}
	return strings.Join(links, " and ")
}

// destinations returns where a mapping leads.
func destinations(m *routingv1.Mapping) string {
	var out []string
	for _, d := range m.GetDestinations() {
		at := fmt.Sprintf("%s:%d", d.GetHost(), d.GetPort())
		if d.GetAddress() == "" {
			at += " (no address)"
		}
		out = append(out, at)
	}
	if len(out) == 0 {
		return "nowhere"
	}
	return strings.Join(out, ", ")
}

// ruleLine returns what a rule does, in one line.
func ruleLine(r *routingv1.Rule, ports []uint32) string {
	if r == nil {
		return "the baseline"
	}
	if r.GetKeptAtBaseline() {
		return "the baseline, because " + nameOf(r.GetMember()) + " of sandbox " + r.GetSandbox() + " wants it so"
	}
	out := "sandbox " + r.GetSandbox() + " (" + nameOf(r.GetMember()) + ")"
	for _, m := range r.GetMappings() {
		if len(ports) == 0 || slices.Contains(ports, m.GetWorkloadPort()) {
			out += fmt.Sprintf(", port %d to %s", m.GetWorkloadPort(), destinations(m))
		}
	}
	if !r.GetReady() {
		out += ", not ready: requests fail"
	}
	return out
}

// statement returns what a fact states.
func statement(s *routingv1.Statement) string {
	switch d := s.GetSays().(type) {
	case *routingv1.Statement_RoutingDeclared:
		var members []string
		for _, m := range d.RoutingDeclared.GetMembers() {
			members = append(members, nameOf(m)+" of sandbox "+m.GetSandbox())
		}
		if len(members) == 0 {
			return fmt.Sprintf("key %s declared, for nobody", d.RoutingDeclared.GetRoutingKey())
		}
		return fmt.Sprintf("key %s declared for %s", d.RoutingDeclared.GetRoutingKey(), strings.Join(members, " and "))
	case *routingv1.Statement_RoutingWithdrawn:
		return fmt.Sprintf("key %s withdrawn", d.RoutingWithdrawn.GetRoutingKey())
	case *routingv1.Statement_WorkloadObserved:
		return observation(d.WorkloadObserved)
	case *routingv1.Statement_WorkloadWithdrawn:
		return nameOf(d.WorkloadWithdrawn.GetWorkload()) + " gone"
	case *routingv1.Statement_Complete:
		return "the log is whole (" + d.Complete.GetReason() + ")"
	case *routingv1.Statement_KeyHeadersDeclared:
		names := d.KeyHeadersDeclared.GetNames()
		if len(names) == 0 {
			return "no custom header carries routing keys"
		}
		return "custom headers that carry routing keys: " + strings.Join(names, ", ")
	case *routingv1.Statement_Floor:
		return "from here on all is stated again (" + d.Floor.GetReason() + ")"
	}
	return "of a kind that this version does not know"
}

func observation(o *factv1.WorkloadObserved) string {
	out := nameOf(o.GetWorkload()) + " stands for " + nameOf(o.GetBaseline())
	var ports []string
	for _, s := range o.GetServices() {
		for _, p := range s.GetPorts() {
			via := fmt.Sprintf("%d via %s:%d", p.GetWorkloadPort(), s.GetTo(), p.GetPort())
			if s.GetTo() == "" { // Nothing was made that leads away.
				via = fmt.Sprintf("%d of %s:%d", p.GetWorkloadPort(), s.GetFrom(), p.GetPort())
			}
			ports = append(ports, via)
		}
	}
	if len(ports) > 0 {
		out += ", port " + strings.Join(ports, ", ")
	}
	if !o.GetReady() {
		out += ", not ready"
	}
	return out
}

// because returns which event made something so, in two lines.
func (a *app) because(e *routingv1.Event) [2]string {
	return [2]string{
		fmt.Sprintf("event %d, %s: %s", e.GetPosition().GetSequence(), a.when(e.GetRecorded()), statement(e.GetStatement())),
		"  by " + causeName(e.GetCause()),
	}
}

// many counts things.
func many(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// beginning returns how far back a log goes.
func beginning(floor *routingv1.Position) string {
	if floor.GetSequence() <= 1 {
		return "the log begins at " + place(floor)
	}
	return "the log begins at " + place(floor) + ", what was before is gone"
}

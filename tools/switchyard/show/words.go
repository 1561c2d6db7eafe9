package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/lists"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/explain"
	"switchyard.dev/routeserver/table"
)

// When returns a time as text: in local time, with its age.
func (p *Printer) When(t *timestamppb.Timestamp) string {
	if t == nil {
		return "at an unknown time"
	}
	return p.Clock(t) + " (" + p.age(t) + " ago)"
}

// Clock returns a time in the local time zone.
func (p *Printer) Clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().In(p.Now().Location()).Format(time.RFC3339)
}

// age returns how long ago a moment was, in the unit that fits.
func (p *Printer) age(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	switch d := p.Now().Sub(t.AsTime()); {
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

// Place returns a place in the log.
func Place(p *routingv1.Position) string {
	return fmt.Sprintf("%s/%d", p.GetEpoch(), p.GetSequence())
}

// Version returns which version an answer was made from.
func (p *Printer) Version(v *routingv1.Version) string {
	if v == nil {
		return "no version"
	}
	return fmt.Sprintf("%s, recorded %s, hash %.12s…", Place(v.GetPosition()), p.When(v.GetRecorded()), v.GetHash())
}

// Name returns an object by its kind, its namespace unless it is of the cluster, and its name.
func Name(o table.Named) string { return explain.Object(o.GetKind(), o.GetNamespace(), o.GetName()) }

// Cause returns the text for the event that caused a change.
func Cause(c *routingv1.Cause) string {
	if c.GetName() == "" && c.GetKind() == "" {
		return "the operator"
	}
	out := Name(c)
	if c.GetGeneration() > 0 {
		out += fmt.Sprintf(", generation %d", c.GetGeneration())
	}
	out += explain.Writers(c.GetAuthor(), c.GetManager())
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

// destinations returns the text for the destinations of a mapping.
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

// rule returns what a rule does, in one line.
func rule(r *routingv1.Rule, ports []uint32) string {
	if r == nil {
		return "the baseline"
	}
	if r.GetKeptAtBaseline() {
		return "the baseline, because " + Name(r.GetMember()) + " of sandbox " + r.GetSandbox() + " wants it so"
	}
	out := "sandbox " + r.GetSandbox() + " (" + Name(r.GetMember()) + ")"
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

// Statement returns what a fact states.
func Statement(s *routingv1.Statement) string {
	switch d := s.GetSays().(type) {
	case *routingv1.Statement_RoutingDeclared:
		members := lists.Map(d.RoutingDeclared.GetMembers(), func(m *factv1.Member) string { return Name(m) + " of sandbox " + m.GetSandbox() })
		if len(members) == 0 {
			return fmt.Sprintf("key %s declared, without members", d.RoutingDeclared.GetRoutingKey())
		}
		return fmt.Sprintf("key %s declared for %s", d.RoutingDeclared.GetRoutingKey(), strings.Join(members, " and "))
	case *routingv1.Statement_RoutingWithdrawn:
		return fmt.Sprintf("key %s withdrawn", d.RoutingWithdrawn.GetRoutingKey())
	case *routingv1.Statement_WorkloadObserved:
		return observation(d.WorkloadObserved)
	case *routingv1.Statement_WorkloadWithdrawn:
		return Name(d.WorkloadWithdrawn.GetWorkload()) + " gone"
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
	out := Name(o.GetWorkload()) + " represents " + Name(o.GetBaseline())
	var ports []string
	for _, s := range o.GetServices() {
		for _, p := range s.GetPorts() {
			via := fmt.Sprintf("%d via %s:%d", p.GetWorkloadPort(), s.GetTo(), p.GetPort())
			if s.GetTo() == "" { // No Service of the sandbox replaces it.
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
func (p *Printer) because(e *routingv1.Event) [2]string {
	return [2]string{
		fmt.Sprintf("event %d, %s: %s", e.GetPosition().GetSequence(), p.When(e.GetRecorded()), Statement(e.GetStatement())),
		"  by " + Cause(e.GetCause()),
	}
}

// Many counts things.
func Many(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

package show

import (
	"fmt"
	"slices"
	"strings"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// Diff returns what differs between two versions.
func (p *Printer) Diff(d *routingv1.DiffResponse) string {
	var b strings.Builder
	for _, c := range d.GetChanges() {
		b.WriteString(p.Change(c))
	}
	if e := d.GetKeyHeaders(); e != nil {
		lines := p.because(e)
		fmt.Fprintf(&b, "%s\n  because of %s\n           %s\n", p.Paint(Bold, Statement(e.GetStatement())), lines[0], lines[1])
	}
	if len(d.GetChanges()) > 0 || d.GetKeyHeaders() != nil {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s\n  from  %s\n  to    %s\n", differ(len(d.GetChanges())), p.Version(d.GetFrom()), p.Version(d.GetTo()))
	return b.String()
}

func differ(n int) string {
	switch n {
	case 0:
		return "no decision differs"
	case 1:
		return "1 decision differs"
	}
	return fmt.Sprintf("%d decisions differ", n)
}

// Change returns what a decision was, is, and what made it so.
func (p *Printer) Change(c *routingv1.Change) string {
	var b strings.Builder
	head := Name(c.GetBaseline()) + ", key " + c.GetRoutingKey()
	if ports := c.GetWorkloadPorts(); len(ports) > 0 {
		head += ", port"
		for i, p := range ports {
			head += fmt.Sprintf("%s %d", []string{"", ","}[min(i, 1)], p)
		}
	}
	fmt.Fprintf(&b, "%s\n", p.Paint(Bold, head))
	was, is := rule(c.GetOld(), c.GetWorkloadPorts()), rule(c.GetNew(), c.GetWorkloadPorts())
	if was == is {
		was, is = unseen(c)
	}
	fmt.Fprintf(&b, "  %s\n", p.Paint(Red, "- "+was))
	fmt.Fprintf(&b, "  %s\n", p.Paint(Green, "+ "+is))
	for _, e := range c.GetBecause() {
		lines := p.because(e)
		fmt.Fprintf(&b, "    because of %s\n             %s\n", lines[0], lines[1])
	}
	return b.String()
}

// unseen returns how two rules differ that read alike: the member is another object of
// the same name, or a Service has another address.
func unseen(c *routingv1.Change) (was, is string) {
	old, now := c.GetOld(), c.GetNew()
	name := Name(now.GetMember()) + " of sandbox " + now.GetSandbox()
	if old.GetMember().GetUid() != now.GetMember().GetUid() {
		return name + ", " + identity(old), name + ", " + identity(now) + ": another object of that name"
	}
	return name + addresses(old, c.GetWorkloadPorts()), name + addresses(now, c.GetWorkloadPorts())
}

// identity returns which object of its name a rule's member is.
func identity(r *routingv1.Rule) string {
	if uid := r.GetMember().GetUid(); uid != "" {
		return "UID " + uid
	}
	return "re-created"
}

// addresses returns which addresses requests to these ports are sent to.
func addresses(r *routingv1.Rule, ports []uint32) string {
	var b strings.Builder
	for _, m := range r.GetMappings() {
		if len(ports) > 0 && !slices.Contains(ports, m.GetWorkloadPort()) {
			continue
		}
		fmt.Fprintf(&b, ", port %d to", m.GetWorkloadPort())
		for i, d := range m.GetDestinations() {
			host := d.GetHost()
			if strings.Contains(host, ":") { // IPv6
				host = "[" + host + "]"
			}
			fmt.Fprintf(&b, "%s %s:%d at %s", []string{"", ","}[min(i, 1)], host, d.GetPort(), d.GetAddress())
		}
	}
	return b.String()
}

// Watch returns what became of decisions.
func (p *Printer) Watch(m *routingv1.WatchResponse) string {
	out := ""
	if m.GetReset_() {
		what := "the whole present:"
		if len(m.GetChanges()) == 0 {
			what = "the whole present: no rules"
		}
		out += p.Paint(Bold, what) + "\n"
	}
	for _, c := range m.GetChanges() {
		out += p.watchLine(c) + "\n"
	}
	if m.GetVersion() != nil {
		out += "at " + p.Version(m.GetVersion()) + "\n"
	}
	return out
}

// watchLine returns one line about a changed decision.
func (p *Printer) watchLine(c *routingv1.Change) string {
	what := Name(c.GetBaseline()) + ", key " + c.GetRoutingKey() + ": "
	switch {
	case c.GetOld() == nil:
		return p.Paint(Green, "+ "+what+rule(c.GetNew(), nil))
	case c.GetNew() == nil:
		return p.Paint(Red, "- "+what+"the baseline again, no longer sandbox "+c.GetOld().GetSandbox())
	}
	return p.Paint(Yellow, "~ "+what+rule(c.GetNew(), nil))
}

package show

import (
	"fmt"
	"strings"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// OtherExplanation returns where a request goes when the Service selects a pod of another
// workload, and why.
func (p *Printer) OtherExplanation(e *routingv1.ExplainResponse) string {
	return fmt.Sprintf("\nThe Service also selects pods of %s. Where it selects one of these:\n\n", Name(e.GetBaseline())) + p.Explanation(e)
}

// Explanation returns where a request goes, and why.
func (p *Printer) Explanation(e *routingv1.ExplainResponse) string {
	colour := Red
	if v := e.GetVerdict(); v == routingv1.Verdict_ROUTED || v == routingv1.Verdict_KEPT_AT_BASELINE {
		colour = Green
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n\n", p.Paint(colour, e.GetVerdict().String()), e.GetSummary())
	rows := Grid{}
	add := func(name, value string) { rows = append(rows, []string{name, value}) }
	if e.GetRoutingKey() != "" {
		from := "as asked"
		if e.GetKeyFrom() != "" {
			from = "from header " + e.GetKeyFrom()
		}
		add("key", e.GetRoutingKey()+", "+from)
	}
	if e.GetBaseline() != nil {
		port := ""
		if e.GetWorkloadPort() != 0 {
			port = fmt.Sprintf(", port %d", e.GetWorkloadPort())
		}
		add("baseline", Name(e.GetBaseline())+port)
	}
	if e.GetRule() != nil {
		add("rule", rule(e.GetRule(), nil))
	}
	if e.GetHolder() != nil {
		add("held by", Name(e.GetHolder())+" of sandbox "+e.GetHolderSandbox())
	}
	for i, event := range e.GetBecause() {
		lines := p.because(event)
		add([]string{"because", ""}[min(i, 1)], lines[0])
		add("", lines[1])
	}
	for i, s := range e.GetLagging() {
		add([]string{"lagging", ""}[min(i, 1)], sidecarLine(s))
	}
	if e.GetVersion() != nil {
		add("version", p.Version(e.GetVersion()))
	}
	if e.GetHint() != "" {
		add("to do", e.GetHint())
	}
	return b.String() + rows.String()
}

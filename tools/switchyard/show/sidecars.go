package show

import (
	"fmt"
	"strings"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

// Sidecars returns sidecars, and what each has acknowledged.
func (p *Printer) Sidecars(r *routingv1.SidecarsResponse) string {
	return sidecarRows(r.GetSidecars()) + p.silent(r.GetSilent()) + Many(len(r.GetSidecars()), "sidecar") + "\n"
}

func sidecarRows(sidecars []*routingv1.Sidecar) string {
	if len(sidecars) == 0 {
		return ""
	}
	rows := Grid{{"POD", "BASELINE", "CURRENT", "REACHED", "ROUTE SERVER", "REFUSED"}}
	for _, s := range sidecars {
		current, reached := "yes", "-"
		if !s.GetCurrent() {
			current = "no"
		}
		if s.GetReached() != nil {
			reached = Place(s.GetReached())
		}
		rows = append(rows, []string{s.GetNamespace() + "/" + s.GetPod(), Name(s.GetBaseline()), current, reached, s.GetRouteServer(), s.GetRejected()})
	}
	return rows.String() + "\n"
}

func (p *Printer) silent(routeServers []string) string {
	return p.warnings("the route server at %s did not answer: its sidecars are missing here", routeServers)
}

// warnings returns a warning about each of several.
func (p *Printer) warnings(format string, about []string) string {
	out := ""
	for _, one := range about {
		out += p.Paint(Yellow, fmt.Sprintf(format, one)) + "\n"
	}
	return out
}

func sidecarLine(s *routingv1.Sidecar) string {
	out := fmt.Sprintf("%s/%s of %s has not acknowledged it", s.GetNamespace(), s.GetPod(), Name(s.GetBaseline()))
	if s.GetReached() != nil {
		out += ", only position " + Place(s.GetReached())
	}
	if s.GetRejected() != "" {
		out += ", and refused: " + s.GetRejected()
	}
	return out
}

// Unconnected is a workload that needs a sidecar and has no connected one.
type Unconnected struct {
	Workload *routingv1.Workload
	// ToDo are sentences about what to do.
	ToDo []string
}

// Wait returns the answer; keyed: it is about one routing key. lacking are the workloads of
// w.Unconnected.
func (p *Printer) Wait(w *routingv1.WaitResponse, keyed bool, lacking []Unconnected) string {
	if w.GetConverged() {
		return fmt.Sprintf("%s: %s acknowledged; the table is %s\n", p.Paint(Green, "converged"), manyHave(int(w.GetSidecars())), p.Version(w.GetVersion())) +
			p.noneRoutes(w, keyed)
	}
	missing := p.warnings("the sidecar of pod %s is not connected to any route server", w.GetMissing())
	if w.GetSidecars() == 0 && len(w.GetSilent()) == 0 && len(w.GetUnconnected()) == 0 && missing == "" {
		return fmt.Sprintf("%s: no rule of this key was recorded; is it spelt as in the sandbox, and is the sandbox ready? The table is %s\n", p.Paint(Red, "not converged"), p.Version(w.GetVersion()))
	}
	return sidecarRows(w.GetLagging()) + p.silent(w.GetSilent()) + missing + p.lacking(lacking) +
		fmt.Sprintf("%s: %s; the table is %s\n", p.Paint(Red, "not converged"), whatLacks(w), p.Version(w.GetVersion()))
}

// lacking names workloads without a connected sidecar, and what to do about each.
func (p *Printer) lacking(all []Unconnected) string {
	var b strings.Builder
	for _, u := range all {
		b.WriteString(p.Paint(Yellow, fmt.Sprintf("no sidecar of %s is connected to a route server: requests with this key reach its baseline", Plain(Name(u.Workload)))) + "\n")
		for _, line := range Lines(u.ToDo) {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}

// whatLacks counts what prevents convergence.
func whatLacks(w *routingv1.WaitResponse) string {
	var parts []string
	behind, all := len(w.GetLagging())+len(w.GetMissing()), int(w.GetSidecars())+len(w.GetMissing())
	if without := len(w.GetUnconnected()); without > 0 {
		parts = append(parts, Many(without, "workload")+" without a connected sidecar")
	}
	if behind > 0 || len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("%d of %s have not acknowledged", behind, Many(all, "sidecar")))
	}
	return strings.Join(parts, ", ")
}

// noneRoutes returns a warning for a wait that succeeded because there is no sidecar to wait for.
func (p *Printer) noneRoutes(w *routingv1.WaitResponse, keyed bool) string {
	switch {
	case w.GetSidecars() > 0:
		return ""
	case keyed:
		return p.Paint(Yellow, "no sidecar is connected, and no workload of this key needs one: it has no Service or no pods, or a mesh routes its requests, or the key was withdrawn") + "\n"
	}
	return p.Paint(Yellow, "no sidecar is connected to a route server: where there is none, requests go to the baseline and to no sandbox, unless Istio or the Gateway API routes them; see switchyard coverage, and switchyard explain") + "\n"
}

func manyHave(n int) string {
	switch n {
	case 0:
		return "no connected sidecar needs the rules of this key, so nothing has to be"
	case 1:
		return "1 sidecar has"
	}
	return fmt.Sprintf("all %d sidecars have", n)
}

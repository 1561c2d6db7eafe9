package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"switchyard.dev/eventbus/lists"
)

// note adds a finding unless the group has an equal one.
func (g *group) note(m *Managed, baseline Object, reason string, problem bool, format string, args ...any) {
	f := Finding{m.Name, baseline, reason, problem, fmt.Sprintf(format, args...)}
	if !slices.Contains(g.findings, f) {
		g.findings = append(g.findings, f)
	}
}

// list returns names as text, sorted and without duplicates. It sorts its argument.
func list(names []string) string {
	return strings.Join(lists.Unique(names), ", ")
}

// report collects the findings and statuses of all groups.
type report struct {
	in       *Input
	findings []Finding
	matched  map[string][]MatchedObject
}

// add adds the findings and the derived routes of a group.
func (r *report) add(g *group) {
	for _, m := range g.managed {
		g.asParent(m)
		var baselines []Object
		for _, f := range g.findings {
			if f.Managed == m.Name && f.Baseline.Name != "" && !slices.Contains(baselines, f.Baseline) {
				baselines = append(baselines, f.Baseline)
			}
		}
		for _, d := range g.derived {
			if d.concerns(m) && !slices.Contains(baselines, d.baseline) {
				baselines = append(baselines, d.baseline)
			}
		}
		slices.SortFunc(baselines, func(a, b Object) int { return strings.Compare(a.String(), b.String()) })
		for _, b := range baselines {
			r.matched[m.Name] = append(r.matched[m.Name], g.rows(m, b)...)
		}
		if len(baselines) == 0 && g.keys != nil {
			g.note(m, Object{}, ReasonNoRoute, true, "No HTTPRoute or GRPCRoute refers to Service %s, so requests for it with the key reach the baseline. Add %s, or route the workload with DevMesh.",
				m.service(), g.exampleFor(m))
		}
	}
	r.findings = append(r.findings, g.findings...)
}

// rows returns the rows of the status about one route: one for each route derived from it. The first
// has the findings.
func (g *group) rows(m *Managed, baseline Object) []MatchedObject {
	first := MatchedObject{Baseline: baseline}
	var messages []string
	for _, f := range g.findings {
		if f.Managed != m.Name || f.Baseline != baseline {
			continue
		}
		if f.Problem && first.Status == "" {
			first.Status = f.Reason
		}
		messages = append(messages, f.Message)
	}
	first.Message = strings.Join(messages, "\n")
	var out []MatchedObject
	for _, d := range g.derived {
		if d.baseline == baseline && d.concerns(m) {
			out = append(out, MatchedObject{Baseline: baseline, Derived: new(d.object), ParentKinds: kindsOf(d.refs), Status: StatusDerived})
		}
	}
	if out == nil {
		first.Status = cmp.Or(first.Status, ReasonIgnored)
		return []MatchedObject{first}
	}
	out[0].Message = first.Message
	if first.Status != "" {
		out[0].Status = first.Status
	}
	return out
}

// kindsOf returns the kinds of parents, sorted.
func kindsOf(parents refs) []string {
	var out []string
	for _, p := range parents {
		out = append(out, string(ptr.Deref(p.Kind, "Gateway")))
	}
	return lists.Unique(out)
}

// finish returns the findings in the order of Input.Managed, and the rows of each status.
func (r *report) finish() ([]Finding, map[string][]MatchedObject) {
	var out []Finding
	for _, m := range r.in.Managed {
		out = append(out, lists.Filter(r.findings, func(f Finding) bool { return f.Managed == m.Name })...)
	}
	return out, r.matched
}

package steps

import (
	"fmt"
	"strings"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/sandboxes"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/steps"
)

// text returns a report as text.
func (r report) text(s *command.Session) string {
	var b strings.Builder
	rows := show.Grid{
		{"Name:", r.Name}, {"Resource:", r.Resource + " of sandbox " + r.Sandbox}, {"Plugin:", r.Plugin},
		{"Created:", sandboxes.Moment(s, r.CreatedAt)},
	}
	b.WriteString(rows.String() + "Status:    " + show.Indented(r.state()+": "+r.Message) + "\n")
	for _, graph := range []struct {
		title string
		steps []steps.Step
	}{{"Create", r.Create}, {"Delete", r.Delete}} {
		b.WriteString("\n" + s.Show.Paint(show.Bold, graph.title) + "\n")
		b.WriteString(drawn(s, graph.steps))
	}
	if len(r.ToDo) > 0 {
		b.WriteString("\n" + s.Show.Paint(show.Bold, "To do") + "\n")
		for _, line := range r.ToDo {
			b.WriteString("  " + show.Line(line) + "\n")
		}
	}
	return b.String()
}

// state returns how a resource is, in a few words.
func (r report) state() string {
	switch {
	case r.Deleting:
		return "being deleted (" + r.Reason + ")"
	case r.Ready:
		return "ready"
	}
	return "not ready (" + r.Reason + ")"
}

// drawn returns the steps of a graph, each below one that it waits for, and beneath those what
// is not well.
func drawn(s *command.Session, all []steps.Step) string {
	if len(all) == 0 {
		return "  no steps\n"
	}
	rows := show.Grid{{"  STEP", "PHASE", "ATTEMPT", "TIME", "WAITS FOR", "OUTPUTS", "POD"}}
	for _, one := range all {
		attempt, pod := "-", "-"
		if one.Attempt > 0 {
			attempt = fmt.Sprint(one.Attempt)
		}
		if one.Pod != nil {
			pod = one.Pod.Namespace + "/" + one.Pod.Name
		}
		rows = append(rows, []string{
			strings.Repeat("  ", one.Depth+1) + one.Name, one.Phase, attempt, took(one),
			listed(one.WaitsFor), listed(one.Outputs), pod,
		})
	}
	lines := strings.SplitAfter(rows.String(), "\n")
	var b strings.Builder
	b.WriteString(lines[0])
	for i, one := range all {
		line := lines[i+1]
		if one.Trouble() {
			line = s.Show.Paint(show.Red, strings.TrimSuffix(line, "\n")) + "\n"
		}
		b.WriteString(line)
		if !one.Done() && one.Reason+one.Message != "" {
			b.WriteString(indented(show.Plain(strings.Trim(one.Reason+": "+one.Message, ": ")), one.Depth+2))
		}
	}
	return b.String()
}

// indented returns a text with every line of it that deep.
func indented(text string, depth int) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		b.WriteString(strings.Repeat("  ", depth) + line)
	}
	return b.String()
}

// took returns how long a step took, or has taken so far.
func took(s steps.Step) string {
	if s.Seconds == nil {
		return "-"
	}
	text := (time.Duration(*s.Seconds) * time.Second).String()
	if s.Finished == "" && s.Phase != crdv1.UnitSucceeded {
		return text + " so far"
	}
	return text
}

// listed returns names with commas between them.
func listed(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ", ")
}

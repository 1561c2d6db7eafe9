package sandboxes

import (
	"fmt"
	"strings"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/sandboxes"
)

// sandboxText returns a sandbox as text.
func sandboxText(s *command.Session, of sandboxes.Report) string {
	r := of.(sandboxes.Sandbox)
	rows := show.Grid{{"Name:", r.Name}, {"Routing key:", r.RoutingKey}}
	add := func(title, value string) {
		if value != "" {
			rows = append(rows, []string{title, value})
		}
	}
	add("Description:", r.Description)
	add("Created:", s.Moment(r.CreatedAt))
	add("Changed:", s.Moment(r.UpdatedAt))
	add("Author:", r.Author)
	add("Ends:", s.Moment(r.Status.ScheduledDeleteTime))
	for _, w := range r.Workloads {
		add("Workload:", strings.TrimSpace(w.How+" "+w.Name)+ofBaseline(w.Baseline))
	}
	for _, one := range r.Resources {
		state := map[bool]string{true: "ready", false: "not ready"}[one.Ready]
		if one.Failed {
			state = "failed"
		}
		add("Resource:", fmt.Sprintf("%s of plugin %s, %s", one.Name, one.Plugin, state))
	}
	for _, e := range r.Endpoints {
		add("Endpoint:", e.String())
	}
	return rows.String() + statusLine(r.Status, len("Routing key:  "))
}

// statusLine returns the line Status of a report with the value at a column, and a line for each caveat
// that the message does not have.
func statusLine(s sandboxes.Status, column int) string {
	word := map[bool]string{true: "ready", false: "not ready (" + s.Reason + ")"}[s.Ready]
	out := fmt.Sprintf("%-*s", column, "Status:") + show.Indented(show.Plain(word)+": "+s.Message) + "\n"
	for _, caveat := range s.Caveats {
		if !strings.Contains(s.Message, caveat) {
			out += fmt.Sprintf("%-*s", column, "Caveat:") + show.Plain(caveat) + "\n"
		}
	}
	return out
}

// ofBaseline names the baseline of a workload, where it has one.
func ofBaseline(baseline string) string {
	if baseline == "" {
		return ""
	}
	return " of " + baseline
}

// listed returns reports as a table.
func listed(s *command.Session, reports []sandboxes.Report) string {
	rows := show.Grid{{"NAME", "KEY", "READY", "REASON", "AUTHOR", "CREATED", "ENDS"}}
	for _, one := range reports {
		r := one.(sandboxes.Sandbox)
		ready := map[bool]string{true: "yes", false: "no"}[r.Status.Ready]
		rows = append(rows, []string{r.Name, r.RoutingKey, ready, r.Status.Reason, r.Author, s.Moment(r.CreatedAt), s.Moment(r.Status.ScheduledDeleteTime)})
	}
	return rows.String()
}

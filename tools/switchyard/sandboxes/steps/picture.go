package steps

import (
	"fmt"
	"slices"
	"strings"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/steps"
)

// text returns a report as text.
func (r report) text(s *command.Session) string {
	var b strings.Builder
	rows := show.Grid{
		{"Name:", r.Name}, {"Resource:", r.Resource + " of sandbox " + r.Sandbox}, {"Plugin:", r.Plugin},
		{"Created:", s.Moment(r.CreatedAt)},
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

// report is a resource in the output. It has names of outputs and no values.
type report struct{ steps.Report }

// reportOf returns the report of a resource, with what to do next.
func reportOf(s *command.Session, r *crdv1.Resource) report {
	out := report{steps.Of(r, s.Now())}
	out.ToDo = toDo(out.Report, s.Name)
	return out
}

// unblock returns the next command for a step that waits.
func unblock(s steps.Step) string {
	pod := crdv1.NamespacedName{}
	if s.Pod != nil {
		pod = *s.Pod
	}
	switch {
	case s.Phase == crdv1.UnitRunning:
		return fmt.Sprintf("See why the pod of step %s does not start: kubectl describe pod -n %s %s", s.Name, pod.Namespace, pod.Name)
	case s.Reason == apply.ReasonNamespaceNotFound:
		return fmt.Sprintf("Create the namespace of step %s: kubectl create namespace %s", s.Name, pod.Namespace)
	case s.Reason == apply.ReasonNamespaceTerminating:
		return fmt.Sprintf("Once namespace %s is deleted, create it again for step %s: kubectl create namespace %s", pod.Namespace, s.Name, pod.Namespace)
	}
	if execunit.LacksAccount(s.Message) {
		return fmt.Sprintf("Create the service account that step %s needs, or name another one in the plugin: kubectl create serviceaccount NAME -n %s", s.Name, pod.Namespace)
	}
	return fmt.Sprintf("See what limits the pods of step %s: kubectl describe resourcequota,limitrange -n %s", s.Name, pod.Namespace)
}

// toDo returns what a person does next, in sentences; empty when there is nothing.
func toDo(r steps.Report, called string) []string {
	out := []string{}
	logs := func(s steps.Step) string {
		return fmt.Sprintf("%s logs --sandbox %s --resource %s --step %s", called, r.Sandbox, r.Resource, s.Name)
	}
	for _, s := range r.Present() {
		switch {
		case s.Reason == engine.ReasonInputMissing:
			out = append(out, "Step "+s.Name+" cannot run, because an earlier step has not produced its input: delete manually the objects that it would have deleted.")
		case s.Waits():
			out = append(out, unblock(s))
		case s.Phase == crdv1.UnitLost:
			out = append(out, "It is not known whether the script of step "+s.Name+" ended: check which objects it created before you run it again.")
		case s.Phase == crdv1.UnitFailed && s.Pod != nil:
			out = append(out, "See what step "+s.Name+" wrote: "+logs(s))
		case s.Phase == crdv1.UnitFailed:
			out = append(out, "Step "+s.Name+" never ran: correct the cause in its message.")
		case s.Phase == crdv1.UnitRunning && s.Pod != nil:
			out = append(out, "Follow step "+s.Name+": "+logs(s)+" -f")
		}
	}
	if r.Reason == iocontext.OutputMissing && !r.Deleting {
		out = append(out, "Delete the resource with its data; the sandbox creates it again: kubectl delete resource "+r.Name)
	}
	if slices.ContainsFunc(r.Present(), func(s steps.Step) bool { return s.Reason == engine.ReasonInputMissing }) {
		out = append(out, "Or run delete steps without that input: "+called+" resource retry "+r.Name+" --with plugin.yaml")
	}
	retries := slices.ContainsFunc(r.Present(), steps.Step.Retries)
	if retries {
		out = append(out, "If the cause is outside of the script, run it again: "+called+" resource retry "+r.Name)
	}
	if retries && !r.Deleting {
		out = append(out, "If the script is the cause, apply the next version of the plugin ("+called+" resourceplugin apply), and sandbox "+r.Sandbox+" with that version")
	}
	if retries && r.Deleting {
		out = append(out, "If the script is the cause, run a corrected one: "+called+" resource retry "+r.Name+" --with plugin.yaml")
	}
	if r.Deleting && (retries || slices.ContainsFunc(r.Present(), func(s steps.Step) bool { return s.Trouble() || s.Waits() })) {
		out = append(out, "Or release the resource without its delete steps; objects that they delete may remain: "+called+" resource give-up "+r.Name)
	}
	return out
}

package steps

import (
	"fmt"
	"slices"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/steps"
)

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

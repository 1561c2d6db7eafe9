package steps

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
)

// report is a resource as people and scripts are shown it. It has names of outputs and no
// values.
type report struct {
	Name      string   `json:"name"`
	Sandbox   string   `json:"sandbox"`
	Resource  string   `json:"resource"`
	Plugin    string   `json:"plugin"`
	CreatedAt string   `json:"createdAt"`
	Deleting  bool     `json:"deleting"`
	Ready     bool     `json:"ready"`
	Reason    string   `json:"reason"`
	Message   string   `json:"message"`
	Create    []step   `json:"create"`
	Delete    []step   `json:"delete"`
	ToDo      []string `json:"toDo"`
}

// step is how far one of its steps is.
type step struct {
	Name     string   `json:"name"`
	WaitsFor []string `json:"waitsFor"`
	Phase    string   `json:"phase"`
	Attempt  int32    `json:"attempt"`
	Started  string   `json:"started,omitempty"`
	Finished string   `json:"finished,omitempty"`
	// Seconds is from Started to Finished, or so far.
	Seconds *float64 `json:"seconds,omitempty"`
	// Outputs are the names of those that it has given.
	Outputs []string              `json:"outputs"`
	Pod     *crdv1.NamespacedName `json:"pod,omitempty"`
	Reason  string                `json:"reason,omitempty"`
	Message string                `json:"message,omitempty"`

	depth int
}

// reportOf returns what there is to say of a resource; called is how this program is.
func reportOf(r *crdv1.Resource, called string, now time.Time) report {
	out := report{
		Name: r.Name, Sandbox: sandboxOf(r), Resource: r.Spec.Name, Plugin: r.Spec.PluginName,
		CreatedAt: r.CreationTimestamp.UTC().Format(time.RFC3339), Deleting: r.DeletionTimestamp != nil,
		Reason: crdv1.ReasonPending, Message: "the operator has not reported on it yet",
		Create: stepsOf(r.Spec.OLM.PreStart, r.Status.Create, now), Delete: stepsOf(r.Spec.OLM.PostStop, r.Status.Delete, now),
	}
	if c := crdv1.FindCondition(r.Status.Conditions, crdv1.ConditionReady); c != nil && c.ObservedGeneration >= r.Generation {
		out.Ready, out.Reason, out.Message = c.Status == string(metav1.ConditionTrue), c.Reason, c.Message
	}
	out.ToDo = toDo(out, called)
	return out
}

// sandboxOf returns the name of the sandbox that a resource was made for.
func sandboxOf(r *crdv1.Resource) string {
	for _, o := range r.OwnerReferences {
		if o.Kind == crdv1.KindSandbox {
			return o.Name
		}
	}
	return cmp.Or(r.Labels[crdv1.LabelSandbox], r.Annotations[crdv1.AnnotationSandboxName])
}

// stepsOf returns the steps of a graph in an order in which they can run.
func stepsOf(units []crdv1.WorkUnit, known []crdv1.WorkUnitStatus, now time.Time) []step {
	out := []step{}
	for _, place := range engine.Picture(units) {
		one := step{Name: place.Unit, WaitsFor: append([]string{}, place.WaitsFor...), Phase: crdv1.UnitPending, Outputs: []string{}, depth: place.Depth}
		at := slices.IndexFunc(known, func(s crdv1.WorkUnitStatus) bool { return s.Name == place.Unit })
		if at >= 0 {
			one.seen(known[at], now)
		}
		out = append(out, one)
	}
	return out
}

// seen adds what was recorded of a step.
func (s *step) seen(st crdv1.WorkUnitStatus, now time.Time) {
	s.Phase, s.Attempt, s.Pod = cmp.Or(st.Phase, crdv1.UnitPending), st.Attempt, st.ExecUnit
	s.Reason, s.Message, s.Outputs = st.Reason, st.Message, append(s.Outputs, st.Outputs...)
	if st.Started == nil {
		return
	}
	s.Started = st.Started.UTC().Format(time.RFC3339)
	if st.Finished != nil {
		s.Finished, now = st.Finished.UTC().Format(time.RFC3339), st.Finished.Time
	}
	s.Seconds = new(max(0, now.Sub(st.Started.Time).Round(time.Second).Seconds()))
}

// trouble reports whether a step ended so that nothing goes on without a person.
func (s step) trouble() bool { return s.Phase == crdv1.UnitFailed || s.Phase == crdv1.UnitLost }

// runs reports whether a step has a pod that has not ended yet.
func (s step) runs() bool { return s.Phase == crdv1.UnitRunning || s.Phase == crdv1.UnitStarting }

// retries reports whether another attempt of a step can help.
func (s step) retries() bool { return s.trouble() && s.Reason != engine.ReasonInputMissing }

// waits reports whether a step starts only after a change by a user.
func (s step) waits() bool {
	return s.Phase == crdv1.UnitStarting && s.Message != "" || s.Phase == crdv1.UnitRunning && execunit.Blocked(s.Reason)
}

// unblock returns the next command for a step that waits.
func (s step) unblock() string {
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

// done reports whether a step has ended as it is to.
func (s step) done() bool { return s.Phase == crdv1.UnitSucceeded || s.Phase == crdv1.UnitSkipped }

// present returns the steps that count now: those that remove the resource once it is being
// deleted.
func (r report) present() []step {
	if r.Deleting {
		return r.Delete
	}
	return r.Create
}

// ended reports whether no step runs or is going to, unless somebody asks for it.
func (r report) ended() bool {
	steps := r.present()
	if slices.ContainsFunc(slices.Concat(r.Create, r.Delete), step.runs) {
		return false
	}
	return slices.ContainsFunc(steps, step.trouble) || !r.Deleting && !slices.ContainsFunc(steps, func(s step) bool { return !s.done() })
}

// toDo returns what a person does next, in sentences; empty when there is nothing.
func toDo(r report, called string) []string {
	out := []string{}
	logs := func(s step) string {
		return fmt.Sprintf("%s logs --sandbox %s --resource %s --step %s", called, r.Sandbox, r.Resource, s.Name)
	}
	for _, s := range r.present() {
		switch {
		case s.Reason == engine.ReasonInputMissing:
			out = append(out, "Step "+s.Name+" cannot run, since an earlier step has not given its input: remove by hand what that step made.")
		case s.waits():
			out = append(out, s.unblock())
		case s.Phase == crdv1.UnitLost:
			out = append(out, "Nobody can say whether the script of step "+s.Name+" came to its end: look at what it made before you have it run again.")
		case s.Phase == crdv1.UnitFailed && s.Pod != nil:
			out = append(out, "See what step "+s.Name+" wrote: "+logs(s))
		case s.Phase == crdv1.UnitFailed:
			out = append(out, "Step "+s.Name+" never ran: mend what its message says.")
		case s.Phase == crdv1.UnitRunning && s.Pod != nil:
			out = append(out, "Follow step "+s.Name+": "+logs(s)+" -f")
		}
	}
	retries := slices.ContainsFunc(r.present(), step.retries)
	if retries {
		out = append(out, "When the cause is outside of the script, run it again: "+called+" resource retry "+r.Name)
	}
	if retries && !r.Deleting {
		out = append(out, "When the script is the cause, apply the next version of the plugin ("+called+" resourceplugin apply), and sandbox "+r.Sandbox+" with that version")
	}
	if retries && r.Deleting {
		out = append(out, "When the script is the cause, run a mended one: "+called+" resource retry "+r.Name+" --with plugin.yaml")
	}
	if r.Deleting && (retries || slices.ContainsFunc(r.present(), func(s step) bool { return s.trouble() || s.waits() })) {
		out = append(out, "Or let the resource go, with whatever its steps have not removed: "+called+" resource give-up "+r.Name)
	}
	return out
}

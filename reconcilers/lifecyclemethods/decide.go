package lifecyclemethods

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
)

// Input has all inputs for one object. It must not be changed.
type Input struct {
	// Object is the object.
	Object *crdv1.SignadotObjectLifecycleMethods
	// Pods are all pods of its units, including those of previous attempts.
	Pods []*corev1.Pod
	// Kept are the keys of values that there are; nil while the object is not being deleted.
	Kept map[string]bool
	// Settings have the pod template of units.
	Settings execunit.Settings
	// AtOnce is the maximum number of units of one graph that run at the same time.
	AtOnce int
	// Now is the time.
	Now metav1.Time
}

// Decision has the next actions for one object, and the status to record.
type Decision struct {
	// Accepted is whether its units can be run at all.
	Accepted condition.Condition
	// Pre and Post are the graphs. Post is the zero Decision until the object is being deleted
	// and nothing of Pre is active.
	Pre, Post engine.Decision
	// Posts: it is the turn of postStop.
	Posts bool
	// Over: the object may go; LeftBehind are the units of postStop that did not run.
	Over       bool
	LeftBehind []string
	// After is the delay until the next reconciliation; 0: never.
	After time.Duration
}

// Decide returns the decision about an object.
func Decide(in Input) Decision {
	o := in.Object
	d := Decision{Accepted: accept(in)}
	going := o.DeletionTimestamp != nil
	d.Pre = engine.Plan(engine.Input{
		Units: o.Spec.PreStart, Status: o.Status.PreCreate, Pods: in.pods(o.Status.PreCreate), Ending: going || !d.Accepted.IsTrue(),
		Retry: o.Annotations[crdv1.AnnotationRetry], AtOnce: in.AtOnce, Deadline: in.Settings.Deadline, Now: in.Now,
	})
	d.After = d.Pre.After
	if !going || d.Pre.Active {
		return d
	}
	d.Posts = true
	d.Post = engine.Plan(engine.Input{
		Units: o.Spec.PostStop, Status: o.Status.PostStop, Pods: in.pods(o.Status.PostStop), Ending: !d.Accepted.IsTrue(),
		Made: o.Spec.PreStart, MadeStatus: d.Pre.Status, Kept: in.Kept,
		Retry: o.Annotations[crdv1.AnnotationRetry], AtOnce: in.AtOnce, Deadline: in.Settings.Deadline, Now: in.Now,
	})
	d.After = d.Post.After
	begun := slices.ContainsFunc(slices.Concat(d.Pre.Status, d.Post.Status), func(st crdv1.WorkUnitStatus) bool { return st.Attempt > 0 })
	switch {
	case d.Post.Done, !d.Accepted.IsTrue() && !begun:
		d.Over = true
	case o.Annotations[crdv1.AnnotationGiveUp] == "true":
		d.Over = true
		for _, st := range d.Post.Status {
			if st.Phase != crdv1.UnitSucceeded && st.Phase != crdv1.UnitSkipped {
				d.LeftBehind = append(d.LeftBehind, st.Name)
			}
		}
	}
	return d
}

// accept returns the condition Accepted: whether the units can be run. If the object is being deleted,
// only the units of postStop count.
func accept(in Input) condition.Condition {
	o := in.Object
	if problems := engine.Check(o.Spec.OLM); len(problems) > 0 {
		return condition.False(baseline.ReasonInvalidSpec, strings.Join(problems[:min(2, len(problems))], ". ")+".")
	}
	units := slices.Concat(o.Spec.PreStart, o.Spec.PostStop)
	if o.DeletionTimestamp != nil {
		units = o.Spec.PostStop
	}
	for _, u := range units {
		if p := execunit.Accept(u, o.Spec.IOContextName, in.Settings); p != nil {
			return condition.False(p.Reason, engine.Sentence(p.Message))
		}
	}
	return condition.True("Accepted", "The spec is valid.")
}

// pods returns the pods of the attempts that are recorded, by unit.
func (in Input) pods(recorded []crdv1.WorkUnitStatus) map[string]engine.Pod {
	out := map[string]engine.Pod{}
	for _, p := range in.Pods {
		st := engine.StatusOf(recorded, p.Labels[crdv1.LabelUnit])
		if u := in.unit(p.Labels[crdv1.LabelUnit]); st != nil && u != nil && st.PodUID == string(p.UID) {
			out[st.Name] = engine.Pod{UID: string(p.UID), Deleting: p.DeletionTimestamp != nil, Observation: execunit.Observe(execunit.ObservedOf(*u, p), p)}
		}
	}
	return out
}

// unit returns the unit of this name; nil when there is none.
func (in Input) unit(name string) *crdv1.WorkUnit {
	for _, units := range [][]crdv1.WorkUnit{in.Object.Spec.PreStart, in.Object.Spec.PostStop} {
		for i := range units {
			if units[i].Name == name {
				return &units[i]
			}
		}
	}
	return nil
}

// identity names an attempt of a unit.
func (in Input) identity(unit string, attempt int32) execunit.Identity {
	o := in.Object
	return execunit.Identity{
		Lifecycle: o.Name, UID: o.UID, Unit: unit, Attempt: attempt,
		Sandbox: o.Labels[crdv1.LabelSandbox], Resource: o.Labels[crdv1.LabelResource],
	}
}

// Fate is the action to take on a pod.
type Fate int

// Fates of pods.
const (
	// Keep: its attempt runs.
	Keep Fate = iota
	// Release: its end is recorded, so it need not be held.
	Release
	// Remove: it is no longer needed.
	Remove
)

// FateOf returns the action to take on a pod after its status has been recorded. all are the statuses of
// both graphs.
func FateOf(p *corev1.Pod, all []crdv1.WorkUnitStatus) Fate {
	st := engine.StatusOf(all, p.Labels[crdv1.LabelUnit])
	switch {
	case st == nil:
		return Remove
	case st.PodUID == string(p.UID) && st.Phase == crdv1.UnitRunning:
		return Keep
	case st.PodUID == string(p.UID) && st.Reason == engine.ReasonDeadlineExceeded:
		return Remove
	case st.PodUID == string(p.UID):
		return Release
	default:
		return Remove
	}
}

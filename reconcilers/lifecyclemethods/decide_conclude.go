package lifecyclemethods

import (
	"fmt"
	"slices"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
)

// Phases of an object, in addition to crdv1.PhaseOLMFailed.
const (
	PhasePending  = "Pending"
	PhaseStarting = "Starting"
	PhaseStarted  = "Started"
	PhaseStopping = "Stopping"
	PhaseStopped  = "Stopped"
)

// Reasons of conditions, in addition to those of units.
const (
	// ReasonRunning: the script of a unit runs.
	ReasonRunning = "Running"
	// ReasonWaiting: no script runs yet, or none at the moment.
	ReasonWaiting = "Waiting"
	// ReasonNotDeleted: the units of postStop wait until the object is deleted.
	ReasonNotDeleted = "NotDeleted"
	// ReasonEnding: the object is being deleted.
	ReasonEnding = "Ending"
)

// Conclude returns the object with its new status.
func Conclude(in Input, d Decision) *crdv1.SignadotObjectLifecycleMethods {
	o := in.Object.DeepCopy()
	s := &o.Status
	s.ObservedGeneration, s.PreCreate = o.Generation, d.Pre.Status
	if d.Posts {
		s.PostStop = d.Post.Status
	}
	pre := done(engine.FieldPreStart, d.Pre)
	post := condition.Unknown(ReasonNotDeleted, "Delete steps run once the object is deleted.")
	if d.Posts {
		post = done(engine.FieldPostStop, d.Post)
	}
	conditions := condition.Set{
		crdv1.ConditionAccepted: d.Accepted, crdv1.ConditionPreStartDone: pre, crdv1.ConditionPostStopDone: post,
	}
	conditions[crdv1.ConditionReady] = conditions.Ready("Every create step has succeeded.", crdv1.ConditionAccepted, crdv1.ConditionPreStartDone)
	if o.DeletionTimestamp != nil {
		conditions[crdv1.ConditionReady] = ending(o.Name, d)
	}
	s.Phase, s.FailedPhase = phase(in, d)
	condition.Write(o, conditions, in.Now)
	return o
}

// ending returns the condition Ready of an object that is being deleted.
func ending(name string, d Decision) condition.Condition {
	annotate := "Annotate " + crdv1.KindLifecycleMethods + " " + name + " with "
	switch {
	case !d.Accepted.IsTrue():
		return condition.False(d.Accepted.Reason, condition.Advise("Delete steps cannot run: "+d.Accepted.Message, annotate+giveUp))
	case !d.Posts:
		return condition.False(ReasonEnding, "Delete steps run once the create steps have ended: "+running(d.Pre)+".")
	case d.Post.Trouble != nil && d.Post.Trouble.Reason == engine.ReasonInputMissing: // Another attempt has no input either.
		return condition.False(d.Post.Trouble.Reason, condition.Advise(d.Post.Trouble.Message, "Delete manually the objects that the earlier step created, and annotate "+crdv1.KindLifecycleMethods+" "+name+" with "+giveUp))
	case d.Post.Trouble != nil:
		c := done(engine.FieldPostStop, d.Post)
		return condition.False(c.Reason, condition.Advise(c.Message, annotate+crdv1.AnnotationRetry+": TIME to run it again, or with "+giveUp))
	case waiting(d.Post) != nil:
		st := waiting(d.Post)
		return condition.False(st.Reason, condition.Advise(st.Message, "Or annotate "+crdv1.KindLifecycleMethods+" "+name+" with "+giveUp))
	default:
		return condition.False(ReasonEnding, "Delete steps under way: "+running(d.Post)+".")
	}
}

// giveUp is the part of messages that describes how to delete the object without its cleanup.
const giveUp = crdv1.AnnotationGiveUp + `: "true" to leave the objects that it would delete.`

// stepsOf names the steps of a field of the specification.
var stepsOf = map[string]string{engine.FieldPreStart: "create steps", engine.FieldPostStop: "delete steps"}

// done returns whether every unit of a graph has succeeded.
func done(field string, d engine.Decision) condition.Condition {
	switch st := d.Trouble; {
	case st != nil:
		return condition.False(st.Reason, st.Message)
	case d.Done && len(d.Status) == 0:
		return condition.True("NoUnits", "There are no "+stepsOf[field]+".")
	case d.Done:
		message := fmt.Sprintf("Ended %s: %d of %d.", stepsOf[field], len(d.Status), len(d.Status))
		if len(d.Stale) > 0 {
			message += fmt.Sprintf(" These ran in an earlier form, and do not run again: %s.", condition.List(d.Stale, mostNamed, ", "))
		}
		return condition.True("Done", message)
	}
	if st := waiting(d); st != nil {
		return condition.False(st.Reason, "Steps under way: "+running(d)+".")
	}
	reason := ReasonWaiting
	if slices.ContainsFunc(d.Status, func(st crdv1.WorkUnitStatus) bool { return st.Phase == crdv1.UnitRunning && st.Message == "" }) {
		reason = ReasonRunning
	}
	return condition.False(reason, "Steps under way: "+running(d)+".")
}

// waiting returns the first unit that waits for a change by a user: its pod is refused or does not
// start. nil when there is none.
func waiting(d engine.Decision) *crdv1.WorkUnitStatus {
	for i := range d.Status {
		if st := &d.Status[i]; st.Message != "" && (st.Phase == crdv1.UnitStarting && st.Reason != apply.ReasonNameTaken ||
			st.Phase == crdv1.UnitRunning && execunit.Blocked(st.Reason)) {
			return st
		}
	}
	return nil
}

// mostNamed is the maximum number of units in a message.
const mostNamed = 3

// running returns the names of running units, the first with its message, others with the reason.
func running(d engine.Decision) string {
	var names []string
	ended, told := 0, false
	add := func(st crdv1.WorkUnitStatus) {
		switch {
		case st.Message == "":
			names = append(names, st.Name)
		case told:
			names = append(names, st.Name+" ("+st.Reason+")")
		default:
			told = true
			names = append(names, st.Name+" ("+strings.TrimSuffix(st.Message, ".")+")")
		}
	}
	for _, st := range d.Status {
		switch st.Phase {
		case crdv1.UnitSucceeded, crdv1.UnitSkipped:
			ended++
		case crdv1.UnitRunning, crdv1.UnitStarting:
			add(st)
		case crdv1.UnitPending:
			if st.Reason != "" {
				add(st)
			}
		}
	}
	if len(names) == 0 {
		names = []string{"none yet"}
	}
	return fmt.Sprintf("%s; ended: %d of %d", condition.List(names, mostNamed, ", "), ended, len(d.Status))
}

// phase returns the phase of the object, and the spec field of the graph that failed.
func phase(in Input, d Decision) (phase, failed string) {
	going := in.Object.DeletionTimestamp != nil
	switch {
	case going && d.Posts && d.Post.Trouble != nil:
		return crdv1.PhaseOLMFailed, engine.FieldPostStop
	case going && d.Posts && d.Post.Done:
		return PhaseStopped, ""
	case going:
		return PhaseStopping, ""
	case d.Pre.Trouble != nil:
		return crdv1.PhaseOLMFailed, engine.FieldPreStart
	case !d.Accepted.IsTrue():
		return PhasePending, ""
	case d.Pre.Done:
		return PhaseStarted, ""
	}
	return PhaseStarting, ""
}

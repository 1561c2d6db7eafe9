package engine

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/execunit"
)

// Input is the observed state of one graph.
type Input struct {
	// Units are the graph, without problems that Check would return.
	Units []crdv1.WorkUnit
	// Status is the recorded status of the units.
	Status []crdv1.WorkUnitStatus
	// Made are the units that ran before, which may produce inputs of Units, and MadeStatus is
	// their recorded status. They do not run again.
	Made       []crdv1.WorkUnit
	MadeStatus []crdv1.WorkUnitStatus
	// Kept are the keys of stored values of Made.
	Kept map[string]bool
	// Pods are those of the units' present attempts, by the name of the unit.
	Pods map[string]Pod
	// Ending: no further unit begins, and one with a script that has not begun ends.
	Ending bool
	// Retry is the request to try again; empty when there is none.
	Retry string
	// AtOnce is how many units run at the same time; 0: as many as there are.
	AtOnce int
	// Deadline is how long an attempt may take until its script has ended; 0: no limit.
	Deadline time.Duration
	// Now is the time.
	Now metav1.Time
}

// Pod is the pod of a unit's attempt.
type Pod struct {
	// UID is its UID.
	UID string
	// Deleting: it is being deleted.
	Deleting bool
	execunit.Observation
}

// Decision is what to record, and what to do once it is recorded.
type Decision struct {
	// Status is that of each unit, in their order.
	Status []crdv1.WorkUnitStatus
	// Begin are the units to create a pod for, for the attempt after the one in Status; Began
	// returns the status to record then.
	Begin []string
	// End are the units with a pod to delete.
	End []string
	// Active: a unit runs, or is about to.
	Active bool
	// Done: every unit has succeeded, or has nothing to do.
	Done bool
	// Trouble is the first unit that failed or was lost; nil when there is none.
	Trouble *crdv1.WorkUnitStatus
	// Stale are the units that have succeeded in another form than they have now.
	Stale []string
	// After is when to call Plan again although nothing happens; 0: never.
	After time.Duration
}

// Plan returns the next step for a graph.
func Plan(in Input) Decision {
	p := planning{Input: in, at: map[string]int{}}
	for _, u := range in.Units {
		st := StatusOf(in.Status, u.Name)
		if st == nil {
			st = &crdv1.WorkUnitStatus{Name: u.Name, Phase: crdv1.UnitPending}
		}
		p.out.Status = append(p.out.Status, *st.DeepCopy())
		p.at[u.Name] = len(p.out.Status) - 1
	}
	for i := range in.Units {
		p.restart(in.Units[i], &p.out.Status[i])
		p.step(in.Units[i], &p.out.Status[i])
	}
	for i := range in.Units {
		p.begin(in.Units[i], &p.out.Status[i])
	}
	p.conclude()
	return p.out
}

// planning is one call of Plan.
type planning struct {
	Input
	at  map[string]int
	out Decision
}

// StatusOf returns the recorded status of the unit of this name; nil when there is none.
func StatusOf(all []crdv1.WorkUnitStatus, unit string) *crdv1.WorkUnitStatus {
	if i := slices.IndexFunc(all, func(s crdv1.WorkUnitStatus) bool { return s.Name == unit }); i >= 0 {
		return &all[i]
	}
	return nil
}

// status returns the new status of a unit.
func (p *planning) status(unit string) *crdv1.WorkUnitStatus { return &p.out.Status[p.at[unit]] }

// begin starts a waiting unit, when its inputs are available and AtOnce permits.
func (p *planning) begin(u crdv1.WorkUnit, st *crdv1.WorkUnitStatus) {
	if p.Ending || st.Phase != crdv1.UnitPending && st.Phase != crdv1.UnitStarting {
		return
	}
	if st.Phase == crdv1.UnitPending && !p.ready(u, st) {
		return
	}
	if wait := p.pause(st); wait > 0 {
		p.after(wait)
		return
	}
	if p.failed() || p.AtOnce > 0 && p.active() >= p.AtOnce {
		return
	}
	p.out.Begin = append(p.out.Begin, u.Name)
}

// ready reports whether the inputs of a unit are available. It skips a unit that has nothing to
// do, and fails one with an input that will never be available.
func (p *planning) ready(u crdv1.WorkUnit, st *crdv1.WorkUnitStatus) bool {
	if len(p.Made) > 0 && !slices.ContainsFunc(p.MadeStatus, begun) {
		skip(st, p.Now, fmt.Sprintf("Step %q has nothing to do, since no step of preStart has begun.", u.Name))
		return false
	}
	for _, key := range keys(u) {
		if need := producer(p.Units, key); need != nil {
			switch have := p.status(need.Name); have.Phase {
			case crdv1.UnitSucceeded:
			case crdv1.UnitSkipped:
				skip(st, p.Now, fmt.Sprintf("Step %q has nothing to do, as step %q, which it reads, has not.", u.Name, need.Name))
				return false
			default:
				return false
			}
			continue
		}
		if p.Kept[key] {
			continue
		}
		if made := producer(p.Made, key); made != nil {
			if have := StatusOf(p.MadeStatus, made.Name); have == nil || !begun(*have) {
				skip(st, p.Now, fmt.Sprintf("Step %q has nothing to do, since step %q, which it reads, has not begun.", u.Name, made.Name))
				return false
			}
			fail(st, p.Now, ReasonInputMissing, fmt.Sprintf("Step %q reads %q, which step %q has not given. Delete manually the objects that it created.", u.Name, key, made.Name))
			return false
		}
	}
	return true
}

// active returns how many units run, or are about to.
func (p *planning) active() int {
	n := len(p.out.Begin)
	for _, st := range p.out.Status {
		if st.Phase == crdv1.UnitRunning {
			n++
		}
	}
	return n
}

// failed reports whether a unit has failed or was lost, so that no other begins.
func (p *planning) failed() bool { return slices.ContainsFunc(p.out.Status, inTrouble) }

// conclude sets the overall result.
func (p *planning) conclude() {
	p.out.Done = true
	for i := range p.out.Status {
		st := &p.out.Status[i]
		p.out.Done = p.out.Done && ended(*st)
		if inTrouble(*st) && p.out.Trouble == nil {
			p.out.Trouble = st.DeepCopy()
		}
		if st.Phase == crdv1.UnitSucceeded && st.Form != "" && st.Form != Form(p.Units[i]) {
			p.out.Stale = append(p.out.Stale, st.Name)
		}
	}
	p.out.Active = p.active() > 0
}

// after requests another call of Plan after this time at the latest.
func (p *planning) after(d time.Duration) {
	if p.out.After == 0 || d < p.out.After {
		p.out.After = max(d, time.Millisecond)
	}
}

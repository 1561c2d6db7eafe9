package workflows

import (
	"slices"
	"strings"
	"testing"

	"switchyard.dev/tests/sweep/workflows/kubelet"
	"switchyard.dev/tests/sweep/workflows/ledger"
	"switchyard.dev/workflows/execunit"
)

// undisturbed is the evidence of a run in which each unit ran once, in a pod of its name.
func undisturbed() evidence {
	e := evidence{held: map[string]Held{}}
	for _, u := range slices.Concat(creates, deletes) {
		e.attempts = append(e.attempts, kubelet.Attempt{Unit: u.name, Number: "1", Pod: u.name, Kept: true})
		e.lines = append(e.lines, ledger.Line{Pod: u.name, Entry: ledger.Begun}, ledger.Line{Pod: u.name, Entry: ledger.Done})
	}
	return e
}

// again adds an attempt of unit b, with these lines in the ledger.
func (e *evidence) again(entries ...string) {
	e.attempts = append(e.attempts, kubelet.Attempt{Unit: "b", Number: "2", Pod: "b-2", Kept: true})
	for _, s := range entries {
		e.lines = append(e.lines, ledger.Line{Pod: "b-2", Entry: s})
	}
}

func TestARunIsJudgedByTheActionsOfItsScripts(t *testing.T) {
	at := slices.IndexFunc(creates, func(u unit) bool { return u.name == "b" })
	for name, tt := range map[string]struct {
		change func(e *evidence)
		found  string
	}{
		"undisturbed":               {func(*evidence) {}, ""},
		"a pod in vain":             {func(e *evidence) { e.again() }, ""},
		"it runs again":             {func(e *evidence) { e.again(ledger.Begun, ledger.Done) }, "unit b: its script has come to its end 2 times"},
		"it begins again":           {func(e *evidence) { e.again(ledger.Begun) }, "unit b: attempt 2 was begun and not finished"},
		"it never runs":             {func(e *evidence) { e.lines = slices.Delete(e.lines, 2*at, 2*at+2) }, "unit b: its script has come to its end 0 times"},
		"a script of another run":   {func(e *evidence) { e.lines = append(e.lines, ledger.Line{Pod: "other", Entry: ledger.Begun}) }, "none of the run's"},
		"twice in one pod":          {func(e *evidence) { e.lines = append(e.lines, ledger.Line{Pod: "b", Entry: ledger.Begun}) }, "begun twice"},
		"held though its pod lives": {func(e *evidence) { e.held["b"] = Held{}; e.again(ledger.Begun, ledger.Done) }, "though its pod was let live"},
		"held though all of it is in": {func(e *evidence) {
			e.pods, e.attempts[at].Way, e.held["b"] = true, kubelet.Killed, Held{}
			e.again(ledger.Begun, ledger.Done)
		}, "its outputs are kept, and it is held"},
		"held in another's words": {func(e *evidence) {
			e.pods, e.attempts[at].Way, e.attempts[at].Kept, e.held["b"] = true, kubelet.Killed, false, Held{Reason: "PodDeleted"}
			e.again(ledger.Begun, ledger.Done)
		}, "its outputs were lost; the status is"},
		"held for its outputs": {func(e *evidence) {
			e.pods, e.attempts[at].Way, e.attempts[at].Kept, e.held["b"] = true, kubelet.Killed, false, Held{Reason: execunit.ReasonOutputsLost}
			e.again(ledger.Begun, ledger.Done)
		}, ""},
	} {
		e := undisturbed()
		tt.change(&e)
		got := strings.Join(judge(e), "\n")
		if (got == "") != (tt.found == "") || !strings.Contains(got, tt.found) {
			t.Errorf("%s: found %q, want %q", name, got, tt.found)
		}
	}
}

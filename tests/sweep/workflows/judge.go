package workflows

import (
	"fmt"
	"slices"

	"switchyard.dev/tests/sweep/workflows/kubelet"
	"switchyard.dev/tests/sweep/workflows/ledger"
	"switchyard.dev/workflows/execunit"
)

// evidence is what a run is judged by.
type evidence struct {
	// attempts are what became of pods, oldest first, and lines what their scripts did.
	attempts []kubelet.Attempt
	lines    []ledger.Line
	// held are units that waited for a person, by pod.
	held map[string]Held
	// pods reports whether pods were to die.
	pods bool
}

// judge returns the errors of a run: a unit has run again without a request, or is held without a
// reason, or has not run.
func judge(e evidence) []string {
	var out []string
	entries := map[string][]string{}
	for _, line := range e.lines {
		if !slices.ContainsFunc(e.attempts, func(a kubelet.Attempt) bool { return a.Pod == line.Pod }) {
			out = append(out, fmt.Sprintf("a script has run in pod %s, which is none of the run's", line.Pod))
		}
		if slices.Contains(entries[line.Pod], line.Entry) {
			out = append(out, fmt.Sprintf("the script of pod %s has %s twice", line.Pod, line.Entry))
		}
		entries[line.Pod] = append(entries[line.Pod], line.Entry)
	}
	for _, u := range slices.Concat(creates, deletes) {
		out = append(out, e.judgeUnit(u, entries)...)
	}
	return out
}

// judgeUnit judges what became of a unit.
func (e evidence) judgeUnit(u unit, entries map[string][]string) []string {
	var out []string
	wrong := func(format string, args ...any) {
		out = append(out, "unit "+u.name+": "+fmt.Sprintf(format, args...))
	}
	finished := 0
	for _, a := range e.attempts {
		if a.Unit != u.name {
			continue
		}
		begun, done := slices.Contains(entries[a.Pod], ledger.Begun), slices.Contains(entries[a.Pod], ledger.Done)
		held, is := e.held[a.Pod]
		switch {
		case is && a.Way == "":
			wrong("attempt %s is held though its pod was let live: %s, %s", a.Number, held.Reason, held.Message)
		case is && a.Code == 0 && (a.Kept || len(u.gives) == 0) && a.Way != kubelet.Lost:
			wrong("attempt %s has ended with 0 and its outputs are kept, and it is held: %s, %s", a.Number, held.Reason, held.Message)
		case is && !begun && a.Way != kubelet.Lost && a.Code < 0:
			wrong("attempt %s never began, and it is held: %s, %s", a.Number, held.Reason, held.Message)
		case is && a.Code == 0 && a.Way != kubelet.Lost && held.Reason != execunit.ReasonOutputsLost:
			wrong("attempt %s ended with 0 and its outputs were lost; the status is: %s, %s", a.Number, held.Reason, held.Message)
		case is: // A person knows, and has asked for another attempt.
		case begun && done:
			finished++
		case begun:
			wrong("attempt %s was begun and not finished (exit code %d, pod %s), and no user was asked", a.Number, a.Code, a.Way)
		}
	}
	if finished != 1 {
		wrong("its script has come to its end %d times unasked", finished)
	}
	if !e.pods {
		runs := 0
		for _, a := range e.attempts {
			if a.Unit == u.name && slices.Contains(entries[a.Pod], ledger.Begun) {
				runs++
			}
		}
		if runs != 1 {
			wrong("its script was begun %d times though no pod died", runs)
		}
	}
	return out
}

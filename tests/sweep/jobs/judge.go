package jobs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// asked is a job as it was submitted.
type asked struct {
	// code is the exit code of its script, and retries how often it may run again.
	code, retries int
	// shown: it was submitted to the control plane, which shows it.
	shown bool
}

// shown is a job as the control plane shows it.
type shown struct {
	phase      string
	executions int
	// output is the standard output of its script; empty: it is not stored.
	output string
}

func (s shown) ended() bool {
	return s.phase == string(v2.JobsPhaseSucceeded) || s.phase == string(v2.JobsPhaseFailed) || s.phase == string(v2.JobsPhaseCanceled)
}

// did is what the script of a job has written to the ledger.
type did struct {
	// begun is the number of its starts, and ends are the exit codes of those that came to their end.
	begun int
	ends  []int
}

// read reads the ledger: lines "JOB begun" and "JOB end CODE".
func read(ledger string) (map[string]did, error) {
	out := map[string]did{}
	for line := range strings.Lines(ledger) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 2 && fields[1] == "begun":
			d := out[fields[0]]
			d.begun++
			out[fields[0]] = d
		case len(fields) == 3 && fields[1] == "end":
			code, err := strconv.Atoi(fields[2])
			if err != nil {
				return nil, fmt.Errorf("the ledger has the line %q", line)
			}
			d := out[fields[0]]
			d.ends = append(d.ends, code)
			out[fields[0]] = d
		default:
			return nil, fmt.Errorf("the ledger has the line %q", line)
		}
	}
	return out, nil
}

// evidence is what a run is judged by.
type evidence struct {
	asked  map[string]asked
	ledger map[string]did
	jobs   map[string]crdv1.JobStatus
	shown  map[string]shown
	// struck has the UIDs of pods of which the executor was killed, or that were killed or evicted.
	struck map[string]bool
}

// outcome is what a run came to.
type outcome struct {
	// findings are its errors; falseSuccesses is the number of jobs that succeeded without having done their work.
	findings       []string
	falseSuccesses int
	// lost is the number of jobs without a proved outcome, and again of those that ran more than once.
	lost, again int
	// unread is the number of jobs of a control plane without output.
	unread int
}

func (e evidence) judge() (out outcome) {
	for name := range e.ledger {
		if _, is := e.asked[name]; !is {
			out.findings = append(out.findings, "a script has run for job "+name+", which was not submitted")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.asked)) {
		st, is := e.jobs[name]
		if !is || st.State == nil || st.State.Terminated == nil {
			out.findings = append(out.findings, fmt.Sprintf("job %s has not ended: %+v", name, st.State))
			continue
		}
		e.judgeJob(&out, name, st)
	}
	return out
}

// judgeJob judges a job that has ended.
func (e evidence) judgeJob(out *outcome, name string, st crdv1.JobStatus) {
	want, ran, end := e.asked[name], e.ledger[name], st.State.Terminated
	wrong := func(format string, args ...any) {
		out.findings = append(out.findings, fmt.Sprintf("job %s (%s: %s; ledger: %+v): ", name, end.Reason, end.Message, ran)+fmt.Sprintf(format, args...))
	}
	count, pod := 0, ""
	if st.Execution != nil {
		count, pod = int(st.Execution.Count), st.Execution.PodUID
	}
	if ran.begun > count {
		wrong("its script has begun %d times, and its status has %d executions", ran.begun, count)
	}
	if count > 1+want.retries {
		wrong("it has %d executions, and may have %d", count, 1+want.retries)
	}
	if len(ran.ends) > 1 && want.retries == 0 {
		wrong("its script came to its end %d times", len(ran.ends))
	}
	if ran.begun > 1 {
		out.again++
	}
	if seen := e.shown[name]; want.shown {
		if seen.phase != phaseOf(end) || seen.executions != count {
			wrong("the control plane shows it as %s with %d executions, and its status has %d", seen.phase, seen.executions, count)
		}
		if seen.output == "" {
			out.unread++
		}
		if end.Success && seen.output != name+"\n" && !lostOutput(st) {
			wrong("the control plane has the output %q, and its status states no loss: %+v", seen.output, st.Execution.Output)
		}
	}
	switch {
	case end.Success:
		if !slices.Contains(ran.ends, 0) {
			out.falseSuccesses++
			wrong("it succeeded, and its script has not done its work")
		}
	case end.ExitCode != nil && int(*end.ExitCode) == want.code && want.code != 0:
		if !slices.Contains(ran.ends, want.code) {
			wrong("its script failed by itself, and has not come to its end")
		}
	case !e.struck[pod]:
		wrong("it failed, and nothing of its pod %q was killed", pod)
	default:
		out.lost++
		if end.Reason == "" || end.Message == "" {
			wrong("it failed without a reason")
		}
	}
}

// phaseOf returns the phase of a job that has ended, as a control plane has to show it.
func phaseOf(end *crdv1.JobTerminated) string {
	switch {
	case end.Success:
		return string(v2.JobsPhaseSucceeded)
	case end.Canceled, end.TimedOut:
		return string(v2.JobsPhaseCanceled)
	}
	return string(v2.JobsPhaseFailed)
}

// lostOutput reports whether a status states that the output is lost, and why.
func lostOutput(s crdv1.JobStatus) bool {
	o := s.Execution.Output
	return o != nil && o.State == crdv1.OutputLost && o.Message != ""
}

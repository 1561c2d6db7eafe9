package smarttests

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/smarttest"
)

// mostChecks bounds the checks of a side in a row, in bytes of JSON. The output of the job has all.
const mostChecks = 256 << 10

// Printed is what the job of a side has printed: the results of its runs.
type Printed struct {
	Runs []smarttest.Result
	// Problem is why there are none; empty: there are some.
	Problem string
}

// mostPrinted is how many bytes are read of a side: each member can make a job print, and all share the memory of the control plane.
const mostPrinted = 20 << 20

// Read reads the document that a job has printed. One that was cut off, or is longer than mostPrinted, has the runs before.
func Read(from io.Reader) (p Printed) {
	d := json.NewDecoder(io.LimitReader(from, mostPrinted))
	for range 3 { // {, "tests" and [
		if _, err := d.Token(); err != nil {
			p.Problem = "it has printed no results"
			return p
		}
	}
	for d.More() {
		var r smarttest.Result
		if err := d.Decode(&r); err != nil {
			break
		}
		r.Output = "" // the job has it
		p.Runs = append(p.Runs, r)
	}
	if len(p.Runs) == 0 {
		p.Problem = "it has ended before its first result"
	}
	return p
}

// fault returns why a side is not whole; empty: each run has completed.
func (p Printed) fault() string {
	for _, r := range p.Runs {
		if r.Reason != smarttest.Completed {
			return fmt.Sprintf("%s: %s", r.Reason, r.Message)
		}
	}
	return p.Problem
}

// checks returns the checks of the first run, and how many of them have failed.
func (p Printed) checks(job string) (out []v2.TestexecutionsCheck, failed int) {
	if len(p.Runs) == 0 {
		return nil, 0
	}
	all := p.Runs[0].Checks
	for size, i := 0, 0; i < len(all); i++ {
		text, err := json.Marshal(all[i])
		var c v2.TestexecutionsCheck
		if err == nil {
			err = json.Unmarshal(text, &c)
		}
		if size += len(text); err != nil || size > mostChecks {
			rest := v2.TestexecutionsCheck{Name: fmt.Sprintf("(%d more: see the output of job %s)", len(all)-i, job)}
			for _, c := range all[i:] {
				if len(c.Errors) > 0 {
					failed++
					rest.Errors = []v2.TestexecutionsCheckError{{Message: "some of them have failed"}}
				}
			}
			return append(out, rest), failed
		}
		if len(c.Errors) > 0 {
			failed++
		}
		out = append(out, c)
	}
	return out, failed
}

// Conclude returns an execution of which all jobs have ended, from their output.
func Conclude(x model.TestExecution, printed map[Side]Printed, now time.Time) model.TestExecution {
	checks, failed, target := &v2.TestexecutionsChecks{}, 0, printed[Target]
	if checks.Baseline, failed = printed[Baseline].checks(JobName(x.ID, Baseline)); x.RoutingKey != "" {
		checks.Sandbox, failed = target.checks(JobName(x.ID, Target))
	} else { // clients show the checks of the side that counts
		checks.Sandbox, checks.Baseline = checks.Baseline, nil
	}
	var faults []string
	for _, side := range Sides(x) {
		if fault := printed[side].fault(); fault != "" {
			faults = append(faults, fmt.Sprintf("The run on the %s has not completed: %s.", side, strings.TrimSuffix(fault, ".")))
		}
	}
	if failed > 0 {
		faults = append(faults, fmt.Sprintf("%d of %d checks have failed.", failed, len(checks.Sandbox)))
	}
	x.Results = &v2.TestExecutionResults{Checks: checks, TrafficDiff: Diff(x, printed)}
	switch {
	case !x.CanceledAt.IsZero():
		x.Status.Phase = model.TestCanceled
	case len(faults) > 0:
		x.Status.Phase, x.Status.FinalState = model.TestFailed, &v2.TestExecutionState{Failed: &v2.TestExecutionFailedState{Message: new(strings.Join(faults, " "))}}
	default:
		x.Status.Phase = model.TestSucceeded
	}
	return Finished(x, now)
}

// Finished returns an execution with the time of its end.
func Finished(x model.TestExecution, now time.Time) model.TestExecution {
	x.Status.FinishedAt = new(now.UTC().Format(time.RFC3339))
	return x
}

// Failed returns an execution that has failed for a reason.
func Failed(x model.TestExecution, message string, now time.Time) model.TestExecution {
	x.Status.Phase, x.Status.FinalState = model.TestFailed, &v2.TestExecutionState{Failed: &v2.TestExecutionFailedState{Message: &message}}
	return Finished(x, now)
}

package smarttests

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/show"
)

// test is the name of the test of an execution.
func test(x v2.TestExecution) string {
	if x.Spec.Hosted != nil {
		return ptr.Deref(x.Spec.Hosted.TestName, "")
	}
	return ptr.Deref(ptr.Deref(x.Spec.External, v2.ExternalSpec{}).TestName, "")
}

// environment is what a test runs on.
func environment(x v2.TestExecution) string {
	c := ptr.Deref(x.Spec.ExecutionContext, v2.TestExecutionContext{})
	switch r := ptr.Deref(c.Routing, v2.JobRoutingContext{}); {
	case r.Sandbox != nil:
		return "sandbox " + *r.Sandbox
	case r.Routegroup != nil:
		return "route group " + *r.Routegroup
	}
	return "baseline"
}

// checks returns how many checks have passed and failed on the sandbox.
func checks(x v2.TestExecution) (passed, failed int) {
	if x.Results == nil || x.Results.Checks == nil {
		return 0, 0
	}
	for _, c := range x.Results.Checks.Sandbox {
		if len(c.Errors) > 0 {
			failed++
		} else {
			passed++
		}
	}
	return passed, failed
}

func table(all []v2.TestExecution) string {
	grid := show.Grid{{"ID", "TEST", "ON", "CREATED", "DURATION", "PASSED", "FAILED", "PHASE"}}
	for _, x := range all {
		passed, failed := checks(x)
		grid = append(grid, []string{x.ID, test(x), environment(x), x.CreatedAt, duration(x), fmt.Sprint(passed), fmt.Sprint(failed), string(x.Status.Phase)})
	}
	return grid.String()
}

// message is why an execution has ended so.
func message(x v2.TestExecution) string {
	s := ptr.Deref(x.Status.FinalState, v2.TestExecutionState{})
	switch {
	case s.Failed != nil:
		return ptr.Deref(s.Failed.Message, "")
	case s.Canceled != nil:
		return ptr.Deref(s.Canceled.Message, "")
	}
	return ""
}

// details describes an execution.
func details(x v2.TestExecution) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s on %s: %s", x.ID, test(x), environment(x), x.Status.Phase)
	if why := message(x); why != "" {
		fmt.Fprintf(&b, " (%s)", why)
	}
	b.WriteString("\n")
	for _, job := range []*string{x.Status.TargetJob, x.Status.BaselineJob} {
		if job != nil {
			fmt.Fprintf(&b, "  job %s\n", *job)
		}
	}
	for _, c := range x.Status.Captures {
		fmt.Fprintf(&b, "  recorded requests of sandbox %s: %s\n", c.Sandbox, cmp.Or(ptr.Deref(c.Message, ""), "capture "+c.Name))
	}
	if x.Results == nil || x.Results.Checks == nil {
		return b.String()
	}
	for _, of := range []struct {
		side string
		all  []v2.TestexecutionsCheck
	}{{"", x.Results.Checks.Sandbox}, {"baseline: ", x.Results.Checks.Baseline}} {
		for _, c := range of.all {
			fmt.Fprintf(&b, "  %s %s%s\n", map[bool]string{true: "passed", false: "failed"}[len(c.Errors) == 0], of.side, c.Name)
			for _, e := range c.Errors {
				at := ""
				if p := e.SourcePosition; p != nil {
					at = fmt.Sprintf("line %d: ", ptr.Deref(p.Line, 0))
				}
				fmt.Fprintf(&b, "    %s%s\n", at, e.Message)
			}
		}
	}
	if d := x.Results.TrafficDiff; d != nil {
		fmt.Fprintf(&b, "  captured calls: %d red, %d yellow, %d green, %d unpaired\n", d.Red.Captures, d.Yellow.Captures, d.Green.Captures, len(d.UnpairedCaptures))
	}
	return b.String()
}

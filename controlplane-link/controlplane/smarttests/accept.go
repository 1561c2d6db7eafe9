package smarttests

import (
	"cmp"
	"regexp"
	"time"

	"k8s.io/utils/ptr"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/smarttest"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// usual is the timeout of a test that sets none.
const usual = "5m"

var testName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,127}$`)

// Timeout reads a timeout, in the published form or in that of Go; empty: 5 minutes.
func Timeout(text string) (time.Duration, bool) {
	d, err := spec.Lifetime(cmp.Or(text, usual))
	if err != nil {
		d, err = time.ParseDuration(text)
	}
	return d, err == nil && d > 0 && d <= longest
}

// Script adds the problems of a script.
func Script(path, script string, problems *specfile.Problems) {
	switch {
	case script == "":
		problems.Add(path, "is missing: write the script of the test")
	case len(script) > smarttest.MaxScript:
		problems.Add(path, "has %d bytes; it can have %d", len(script), smarttest.MaxScript)
	}
}

// Accept returns the problems of a test, as specfile.Problems.
func Accept(t model.Test) error {
	var problems specfile.Problems
	if !testName.MatchString(t.Name) || t.Name == "executions" {
		problems.Add("name", "is %q: it has at most 128 letters, digits, dots, - and _, and is not executions", t.Name)
	}
	Script("script", ptr.Deref(t.Spec.Script, ""), &problems)
	if text := ptr.Deref(t.Spec.DefaultTimeout, ""); text != "" {
		timeout("defaultTimeout", text, &problems)
	}
	ids := map[string]bool{}
	for _, one := range t.Spec.Triggers {
		const path = "triggers"
		w := ptr.Deref(one.SandboxOf, v2.WorkloadWorkload{})
		id := cmp.Or(ptr.Deref(one.ID, ""), TriggerID(w))
		switch {
		case w.Kind == "" || w.Namespace == "" || w.Name == "":
			problems.Add(path, "has one without a workload: write sandboxOf with kind, namespace and name")
		case ids[id]:
			problems.Add(path, "has id %q twice: use another one", id)
		}
		ids[id] = true
		if e := one.ExecutionTemplate; e != nil {
			timeout(path+".executionTemplate.timeout", ptr.Deref(e.Timeout, ""), &problems)
		}
	}
	return problems.OrNil()
}

func timeout(path, text string, problems *specfile.Problems) {
	if _, is := Timeout(text); !is {
		problems.Add(path, "is %q: write a number and m, h or d, such as 5m, of at most %s", text, longest)
	}
}

// Execution returns the execution that a specification asks for, of a script with a timeout, and its problems as specfile.Problems.
// Its cluster and its place are the caller's.
func Execution(s v2.TestExecutionSpec, script, usualTimeout string) (model.TestExecution, error) {
	var problems specfile.Problems
	c := ptr.Deref(s.ExecutionContext, v2.TestExecutionContext{})
	x := model.TestExecution{Spec: s, Script: script, RunID: ptr.Deref(c.RunID, ""), Cluster: ptr.Deref(c.Cluster, "")}
	x.Spec.ExecutionContext = &c
	if s.Hosted != nil {
		x.Test = ptr.Deref(s.Hosted.TestName, "")
	} else if s.External != nil {
		x.Test = ptr.Deref(s.External.TestName, "")
	}
	text, is := cmp.Or(ptr.Deref(c.Timeout, ""), usualTimeout), false
	if x.Timeout, is = Timeout(text); !is {
		timeout("spec.executionContext.timeout", text, &problems)
	}
	if x.Test == "" || len(x.Test) > 1024 {
		problems.Add("spec.external.testName", "has %d bytes: name the test, with at most 1024", len(x.Test))
	}
	Script("spec.external.script", script, &problems)
	if r := c.Routing; r != nil && ptr.Deref(r.Sandbox, "") != "" && ptr.Deref(r.Routegroup, "") != "" {
		problems.Add("spec.executionContext.routing", "has a sandbox and a route group: name one of them")
	}
	return x, problems.OrNil()
}

package work

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/rest/decode"
	"switchyard.dev/controlplane-link/controlplane/rest/encode"
	"switchyard.dev/controlplane-link/controlplane/rest/failure"
	"switchyard.dev/controlplane-link/controlplane/smarttests"
	"switchyard.dev/controlplane-link/controlplane/teststore"
	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/workflows/specfile"
)

var (
	testMissing      = failure.Missing("test not found")
	executionMissing = failure.Missing("test execution not found")
)

// ofTest fails for a job of an execution of a test.
func (w Work) ofTest(r *Call, job string) error {
	id, is := smarttests.IDOf(job)
	if !is {
		return nil
	}
	if _, err := w.tests().Execution(r.Context(), r.Org(), id); err != nil {
		return nil //nolint:nilerr // it is another job of such a name, or its execution has expired
	}
	return failure.New(http.StatusConflict, "job %q is of test execution %q: cancel that", job, id)
}

// ListTests returns all tests.
func (w Work) ListTests(r *Call) (any, error) {
	return encode.List(encode.Test)(w.tests().Tests(r.Context(), r.Org()))
}

// test returns the test in the path.
func (w Work) test(r *Call) (model.Test, error) {
	t, err := w.tests().Test(r.Context(), r.Org(), r.Vars["testName"])
	return t, testMissing(err)
}

// GetTest returns the test in the path.
func (w Work) GetTest(r *Call) (any, error) {
	return encode.One(encode.Test)(w.test(r))
}

// ApplyTest creates or changes the test in the path.
func (w Work) ApplyTest(r *Call, in v2.TestSpec, _ decode.Tree) (any, error) {
	t := model.Test{Org: r.Org(), Name: r.Vars["testName"], Spec: in, UpdatedAt: r.Now}
	if err := smarttests.Accept(t); err != nil {
		return nil, err
	}
	for i := range t.Spec.Triggers {
		if one := &t.Spec.Triggers[i]; ptr.Deref(one.ID, "") == "" {
			one.ID = new(smarttests.TriggerID(*one.SandboxOf))
		}
	}
	return encode.One(encode.Test)(w.tests().PutTest(r.Context(), t, r.Event("test.apply", map[string]any{"name": t.Name})))
}

// RemoveTest deletes the test in the path.
func (w Work) RemoveTest(r *Call) (any, error) {
	name := r.Vars["testName"]
	return nil, testMissing(w.tests().DeleteTest(r.Context(), r.Org(), name, r.Event("test.delete", map[string]any{"name": name})))
}

// RunTest runs the script in the body.
func (w Work) RunTest(r *Call, in decode.Specification[v2.TestExecutionSpec], _ decode.Tree) (any, error) {
	if in.Spec.External == nil || in.Spec.Hosted != nil {
		return nil, specfile.Problems{{Path: "spec.external", Text: "is missing; write the name and the script of the test, and no spec.hosted"}}
	}
	return w.run(r, in.Spec, ptr.Deref(in.Spec.External.Script, ""), "")
}

// RunHosted runs the test in the path.
func (w Work) RunHosted(r *Call, in decode.Specification[v2.TestExecutionSpec], _ decode.Tree) (any, error) {
	t, err := w.test(r)
	if err != nil {
		return nil, err
	}
	in.Spec.Hosted, in.Spec.External = &v2.HostedSpec{TestName: &t.Name}, nil
	return w.run(r, in.Spec, ptr.Deref(t.Spec.Script, ""), ptr.Deref(t.Spec.DefaultTimeout, ""))
}

// run adds an execution, which is pending.
func (w Work) run(r *Call, s v2.TestExecutionSpec, script, timeout string) (any, error) {
	if w.Kept == nil {
		return nil, failure.New(http.StatusNotImplemented, "tests are not run by this control plane: it stores no output of jobs; configure artifacts")
	}
	x, err := smarttests.Execution(s, script, timeout)
	if err != nil {
		return nil, err
	}
	x.Org, x.ID, x.CreatedAt, x.Author = r.Org(), strings.ToLower(rand.Text()[:13]), r.Now, r.Caller.Author()
	if err := w.locate(r, &x); err != nil {
		return nil, err
	}
	ev := r.Event("testexecution.submit", map[string]any{"id": x.ID, "test": x.Test, "cluster": x.Cluster, "sandbox": x.Sandbox})
	return encode.One(encode.TestExecution)(w.tests().Submit(r.Context(), x, ev))
}

// locate sets the sandbox and the cluster of an execution.
func (w Work) locate(r *Call, x *model.TestExecution) error {
	routing := ptr.Deref(x.Spec.ExecutionContext.Routing, v2.JobRoutingContext{})
	sandbox, of, err := w.target(r, "spec.executionContext.routing", routing, x.Cluster)
	if err != nil {
		return err
	}
	x.Cluster, x.Sandbox, x.RoutingKey = cmp.Or(x.Cluster, of.Cluster), sandbox, of.RoutingKey
	if x.Spec.ExecutionContext.Cluster = &x.Cluster; sandbox != "" {
		x.Revision = of.Generation
	}
	if x.Cluster == "" {
		return specfile.Problems{{Path: "spec.executionContext.cluster", Text: "is missing; name a registered cluster"}}
	}
	_, err = w.Cluster(r.Context(), r.Org(), x.Cluster)
	return failure.As(err, model.ErrNotFound, http.StatusNotFound, fmt.Sprintf("spec.executionContext.cluster: cluster %q not found", x.Cluster))
}

// executionIn returns the execution in the path.
func (w Work) executionIn(r *Call) (model.TestExecution, error) {
	x, err := w.tests().Execution(r.Context(), r.Org(), r.Vars["executionID"])
	return x, executionMissing(err)
}

// GetExecution returns the execution in the path.
func (w Work) GetExecution(r *Call) (any, error) {
	return encode.One(encode.TestExecution)(w.executionIn(r))
}

// CancelExecution cancels the execution in the path.
func (w Work) CancelExecution(r *Call) (any, error) {
	id := r.Vars["executionID"]
	err := w.tests().Cancel(r.Context(), r.Org(), id, r.Now, r.Event("testexecution.cancel", map[string]any{"id": id}))
	return nil, failure.As(executionMissing(err), teststore.ErrEnded, http.StatusConflict, "test execution is already finished")
}

// Sizes of pages.
const usualPage, mostPage = 100, 200

// QueryExecutions returns the executions that the query is for, with cursors.
func (w Work) QueryExecutions(r *Call) (any, error) {
	q := r.URL.Query()
	var tests []model.Test
	var err error
	if q.Get("skipDeletedTests") == "true" {
		if tests, err = w.tests().Tests(r.Context(), r.Org()); err != nil {
			return nil, err
		}
	}
	l := teststore.List{RunID: q.Get("runID"), Newest: q.Get("orderDir") == "desc"}
	if l.Keep, err = smarttests.Filter(q, func(name string) bool {
		return slices.ContainsFunc(tests, func(t model.Test) bool { return t.Name == name })
	}); err != nil {
		return nil, err
	}
	if l.Most, err = decode.Number(q, "pageSize", usualPage, 1, mostPage); err != nil {
		return nil, err
	}
	after, err := decode.Number(q, "cursor", 0, 1, 1<<62-1)
	if err != nil {
		return nil, err
	}
	l.After = int64(after)
	return encode.List(func(x model.TestExecution) (v2.TestexecutionsQueryResult, error) {
		out, err := encode.TestExecution(x)
		return v2.TestexecutionsQueryResult{Cursor: strconv.FormatInt(x.Sequence, 10), Execution: out}, err
	})(w.tests().Executions(r.Context(), r.Org(), l))
}

// ListExecutions returns the newest executions of the test in the path.
func (w Work) ListExecutions(r *Call) (any, error) {
	t, err := w.test(r)
	if err != nil {
		return nil, err
	}
	hosted := func(x model.TestExecution) bool { return x.Spec.Hosted != nil && x.Test == t.Name }
	return encode.List(encode.TestExecution)(w.tests().Executions(r.Context(), r.Org(), teststore.List{Most: mostPage, Newest: true, Keep: hosted}))
}

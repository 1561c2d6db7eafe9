// Package work serves the operations of the REST API for runner groups, jobs and Smart Tests.
//
//	jobs.go    runner groups, and jobs: submission, cancellation
//	output.go  output streams and artifacts of jobs
//	captures.go  captures of requests
//	tests.go   Smart Tests and their executions
//	diffs.go   comparisons of the two sides of an execution
package work

import (
	"log/slog"
	"net/http"
	"time"

	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/jobs"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/teststore"
	"switchyard.dev/workflows/jobexec/results"
)

// Work serves operations. Each returns a value for JSON, or Raw. failure.Status has the status and the text of its error.
type Work struct {
	jobstore.Store
	// Streams serves the output of jobs, and Kept has their files; nil: such requests answer 501.
	Streams *jobs.Streams
	Kept    *results.Kept
	// Captures records requests; nil: such requests answer 501.
	Captures *captures.Recorder
	// Comparing admits comparisons. Required.
	Comparing *Comparing
	Logger    *slog.Logger
}

// Call is a request of a caller that may call the operation.
type Call struct {
	*http.Request
	Now time.Time
	// Vars are the variables of the path.
	Vars   map[string]string
	Caller model.Caller
}

// tests has the Smart Tests.
func (w Work) tests() teststore.Store { return teststore.Store{Store: w.Store.Store} }

// Org is the organisation in the path.
func (r *Call) Org() string { return r.Vars["orgName"] }

// Event returns the entry of a write in the audit trail. data has no secret.
func (r *Call) Event(what string, data map[string]any) model.Event {
	return store.Entry(r.Caller, what, r.Now, data)
}

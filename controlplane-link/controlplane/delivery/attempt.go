package delivery

import (
	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs"
	"switchyard.dev/workflows/jobs/published"
)

// usual are the reasons for waiting that are not recorded: jobs have them for a while, and the status of their runner group
// has the cause.
var usual = map[string]bool{"": true, jobs.ReasonNoIdlePod: true, jobs.ReasonNoPods: true, jobs.ReasonPodsNotReady: true, jobs.ReasonRunnerGroupNotFound: true}

// AttemptOf returns the state of a job that its object reports.
func AttemptOf(o *crdv1.Job, j model.Job) model.Attempt {
	a := published.AttemptOf(o)
	if a.CanceledBy == model.CanceledInternally && !j.CanceledAt.IsZero() {
		a.CanceledBy = model.CanceledByRequest
	}
	return a
}

package work

import (
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// The reason why nothing is stored of a job.
func TestNothing(t *testing.T) {
	for want, a := range map[string]model.Attempt{
		"has not ended":           {Phase: model.PhaseRunning, Executions: 1},
		"not collected yet":       {Phase: model.PhaseFailed, Executions: 1, Output: crdv1.OutputKept},
		"was lost":                {Phase: model.PhaseFailed, Executions: 1, Output: crdv1.OutputLost},
		"of the executions":       {Phase: model.PhaseCanceled, Executions: 1},
		"the job has never begun": {Phase: model.PhaseCanceled},
	} {
		if got := nothing(model.Job{Cluster: "prod", Attempt: a}); !strings.Contains(got, want) {
			t.Errorf("%s: %q", want, got)
		}
	}
}

package encode

import (
	"cmp"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// Test returns a test as the API has it.
func Test(t model.Test) (v2.Test, error) {
	return v2.Test{Name: t.Name, CreatedAt: stamp(t.CreatedAt), UpdatedAt: stamp(t.UpdatedAt), Spec: t.Spec, Status: v2.TestStatus{}}, nil
}

// TestExecution returns an execution as the API has it.
func TestExecution(x model.TestExecution) (v2.TestExecution, error) {
	return v2.TestExecution{ID: x.ID, CreatedAt: stamp(x.CreatedAt), Spec: x.Spec, Status: x.Status, Results: x.Results}, nil
}

// TestCounts returns the numbers of the executions of a sandbox; nil: there are none.
func TestCounts(s model.Summary) *v2.SandboxTestExecutionsSummary {
	var all model.Numbers
	out := &v2.SandboxTestExecutionsSummary{}
	for _, phase := range []v2.TestexecutionsPhase{model.TestPending, model.TestInProgress, model.TestFailed, model.TestSucceeded, model.TestCanceled} {
		n := s[phase]
		if n.Executions > 0 {
			out.PhaseCounts = append(out.PhaseCounts, v2.TestexecutionsPhaseCount{Count: &n.Executions, Phase: &phase})
		}
		all.Passed, all.Failed = all.Passed+n.Passed, all.Failed+n.Failed
		all.Green, all.Yellow, all.Red = all.Green+n.Green, all.Yellow+n.Yellow, all.Red+n.Red
	}
	if out.PhaseCounts == nil {
		return nil
	}
	out.Checks = &v2.SandboxTestExecutionsSummaryChecks{Passed: &all.Passed, Failed: &all.Failed}
	if cmp.Or(all.Green, all.Yellow, all.Red) > 0 {
		out.TrafficDiffs = &v2.SandboxTestExecutionsSummaryTrafficDiffs{Green: &all.Green, Yellow: &all.Yellow, Red: &all.Red}
	}
	return out
}

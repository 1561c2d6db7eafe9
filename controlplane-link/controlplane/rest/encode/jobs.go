package encode

import (
	"encoding/json"
	"fmt"

	"switchyard.dev/controlplane-link/controlplane/model"
	v2 "switchyard.dev/protos/controlplane/v2"
)

// RunnerGroup returns a runner group as the API has it, with how many of its jobs there are in each phase.
func RunnerGroup(g model.RunnerGroup, phases map[model.Phase]int) (v2.JobRunnerGroup, error) {
	out := v2.JobRunnerGroup{
		Name: g.Name, CreatedAt: stamp(g.CreatedAt), UpdatedAt: stamp(g.UpdatedAt), DeletedAt: when(g.DeletedAt),
		Status: v2.JobRunnerGroupStatus{
			Executions: v2.JobRunnerGroupExecutionsStatus{Queued: phases[model.PhaseQueued], Running: phases[model.PhaseRunning]},
			Pods:       v2.JobRunnerGroupPodsStatus{Ready: g.Status.Ready, NotReady: g.Status.NotReady, Idle: g.Status.Idle},
			Message:    text(groupMessage(g)),
		},
	}
	if err := json.Unmarshal(g.Spec, &out.Spec); err != nil {
		return out, fmt.Errorf("read runner group %s: %w", g.Name, err)
	}
	return out, nil
}

// groupMessage returns why the pods of a group are not ready; empty: they are.
func groupMessage(g model.RunnerGroup) string {
	if g.Status.Message == "" && g.Status.Applied < g.Generation && g.DeletedAt.IsZero() {
		return fmt.Sprintf("The runner group was not written to cluster %s yet.", g.Cluster)
	}
	return g.Status.Message
}

// Job returns a job as the API has it. group is its runner group; the zero value if that does not exist any more.
func Job(j model.Job, group model.RunnerGroup) (v2.Job, error) {
	out := v2.Job{Name: j.Name, CreatedAt: stamp(j.CreatedAt), DeletedAt: when(j.DeletedAt), Status: v2.JobsStatus{
		RoutingKey: text(j.RoutingKey), RunnerGroupDeletionCompletedAt: when(j.GroupDeletedAt), Attempts: []v2.JobsAttempt{attempt(j, group)},
	}}
	if err := json.Unmarshal(j.Spec, &out.Spec); err != nil {
		return out, fmt.Errorf("read job %s: %w", j.Name, err)
	}
	return out, nil
}

// attempt returns the only attempt of a job. There is no other one, whether or not it could succeed.
func attempt(j model.Job, group model.RunnerGroup) v2.JobsAttempt {
	a := j.Attempt
	if a.Retryable = false; a.Phase == model.PhaseQueued {
		a.Message = waits(j, group)
	}
	return a.Report(j.CreatedAt)
}

// waits returns why a job waits.
func waits(j model.Job, group model.RunnerGroup) string {
	switch {
	case j.Attempt.Message != "":
		return j.Attempt.Message
	case j.Attempted.IsZero():
		return fmt.Sprintf("The job was not written to cluster %s yet.", j.Cluster)
	case groupMessage(group) != "":
		return fmt.Sprintf("The job waits for an idle pod of runner group %s. %s", j.Group, groupMessage(group))
	}
	return fmt.Sprintf("The job waits for an idle pod of runner group %s.", j.Group)
}

// PhaseCounts returns how many jobs of a sandbox there are in each phase; nil: none.
func PhaseCounts(phases map[model.Phase]int) *v2.SandboxesJobsSummary {
	var out v2.SandboxesJobsSummary
	for _, phase := range []model.Phase{model.PhaseQueued, model.PhaseRunning, model.PhaseFailed, model.PhaseSucceeded, model.PhaseCanceled} {
		if n := phases[phase]; n > 0 {
			of := v2.JobsPhase(phase)
			out.PhaseCounts = append(out.PhaseCounts, v2.JobsPhaseCount{Count: &n, Phase: &of})
		}
	}
	if out.PhaseCounts == nil {
		return nil
	}
	return &out
}

package jobs

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/reconcilers/job"
)

// The faults that a manager can have for a job.
const (
	invents = "a lost outcome is reported as a success"
	repeats = "a lost execution begins again, without a fence"
	stops   = "a script that a manager finds running is stopped"
)

// plant has a manager's faults. Each is done between it and the runners.
type plant struct {
	mu     sync.Mutex
	faults map[types.UID]string
	// ran are the last requests by job.
	ran map[types.UID]*jobexecv1.RunRequest
}

func newPlant() *plant {
	return &plant{faults: map[types.UID]string{}, ran: map[types.UID]*jobexecv1.RunRequest{}}
}

// is plants a fault for a job.
func (p *plant) is(of types.UID, fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[of] = fault
}

// of returns the fault for a job, and the request that began it.
func (p *plant) of(job string) (fault string, ran *jobexecv1.RunRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[types.UID(job)], p.ran[types.UID(job)]
}

// planted are runners as a faulty manager calls them.
type planted struct {
	job.Runners
	plant *plant
}

func (p planted) Runner(of *corev1.Pod) (job.Runner, error) {
	r, err := p.Runners.Runner(of)
	return plantedRunner{r, p.plant}, err
}

type plantedRunner struct {
	job.Runner
	plant *plant
}

// Run remembers the request, and stops a script that runs.
func (p plantedRunner) Run(ctx context.Context, r *jobexecv1.RunRequest) (*jobexecv1.Status, error) {
	uid := r.GetRef().GetJobUid()
	fault, before := p.plant.of(uid)
	if fault == stops && before != nil {
		return p.Runner.Stop(ctx, &jobexecv1.StopRequest{Ref: r.GetRef()})
	}
	p.plant.mu.Lock()
	p.plant.ran[types.UID(uid)] = r
	p.plant.mu.Unlock()
	return p.Runner.Run(ctx, r)
}

// Watch changes the status of an execution with an outcome that is unknown.
func (p plantedRunner) Watch(ctx context.Context, ref *jobexecv1.ExecutionRef, each func(*jobexecv1.Status)) error {
	fault, ran := p.plant.of(ref.GetJobUid())
	lost := false
	err := p.Runner.Watch(ctx, ref, func(st *jobexecv1.Status) {
		if st.GetPhase() != jobexecv1.Status_TERMINATED || st.GetEnding().GetKnown() {
			each(st)
			return
		}
		switch fault {
		case invents:
			st.Ending = &jobexecv1.Ending{Known: true}
			each(st)
		case repeats:
			lost = true
		default:
			each(st)
		}
	})
	if !lost || ran == nil {
		return err
	}
	again := &jobexecv1.ExecutionRef{JobUid: ref.GetJobUid(), Execution: ref.GetExecution() + 100}
	if _, err := p.Runner.Run(ctx, &jobexecv1.RunRequest{
		Ref: again, Fence: &jobexecv1.Fence{PodUid: ran.GetFence().GetPodUid()}, JobName: ran.GetJobName(), Script: ran.GetScript(), Env: ran.GetEnv(), Grace: ran.GetGrace(),
	}); err != nil {
		return err
	}
	return p.Runner.Watch(ctx, again, each)
}

package job

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	runner "switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobs"
)

// released are executions of which the results were read and then deleted, by the UID of their job.
type released struct {
	mu    sync.Mutex
	known map[types.UID]uint32
}

// has reports whether an execution is one of them.
func (r *released) has(of types.UID, execution int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[of] == uint32(execution) //nolint:gosec // from 1
}

// ask asks a runner for them until ctx ends. One that does not answer is asked again.
func (r *released) ask(ctx context.Context, of *runner.Client) {
	for wake.Sleep(ctx, askReleased) {
		one, cancel := context.WithTimeout(ctx, call)
		st, err := of.Runner(one, &jobexecv1.RunnerRequest{})
		cancel()
		if err != nil {
			continue
		}
		r.mu.Lock()
		for _, ref := range st.GetReleased() {
			r.known[types.UID(ref.GetJobUid())] = ref.GetExecution()
		}
		r.mu.Unlock()
	}
}

// ask asks the runners of pods with results that clients can read and release without the controller.
func (a *acting) ask(steps []jobs.Step) {
	a.mu.Lock()
	defer a.mu.Unlock()
	kept := map[types.UID]bool{}
	for i, in := range a.in.Jobs {
		if e := steps[i].Execution; e != nil && e.Output != nil && e.Output.State == crdv1.OutputKept && !in.Runner.Released {
			kept[types.UID(e.PodUID)] = true
		}
	}
	for _, p := range a.in.Pods {
		if !kept[p.UID] {
			if one := a.memory.runners[p.UID]; one != nil {
				one.quiet()
			}
			continue
		}
		one, err := a.runner(p)
		if err != nil {
			a.errs = append(a.errs, err)
		} else if one.silence == nil {
			var ctx context.Context
			ctx, one.silence = context.WithCancel(a.calls)
			go a.memory.released.ask(ctx, one.Client)
		}
	}
}

package job

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobs"
)

// upload stores the results of jobs that are not stored yet, and ends attempts that are not needed any more.
func (a *acting) upload(ctx context.Context, steps []jobs.Step) {
	m, open := a.memory, map[types.UID]bool{}
	for i, in := range a.in.Jobs {
		j, e := m.jobs.newest(in.Job), steps[i].Execution
		if e == nil || e.Output == nil || e.Output.State != crdv1.OutputKept || !a.uploader.Stores(j) || j.DeletionTimestamp != nil {
			continue
		}
		pod := in.Runner.Pod
		if open[j.UID] = true; in.Runner.Gone {
			pod = nil
		}
		if u := m.uploads[j.UID]; u != nil {
			u.SetPod(pod)
			continue
		}
		m.uploads[j.UID] = a.uploader.Start(log.IntoContext(a.calls, log.FromContext(ctx)), j, pod)
	}
	for uid, u := range m.uploads {
		if !open[uid] {
			u.Cancel()
			delete(m.uploads, uid)
		}
	}
}

// discard deletes what a deleted job has in the bucket.
func (a *acting) discard(ctx context.Context, j *crdv1.Job) {
	if !a.uploader.Stores(j) {
		return
	}
	a.mu.Lock()
	u := a.memory.uploads[j.UID]
	a.mu.Unlock()
	a.uploader.Discard(log.IntoContext(a.calls, log.FromContext(ctx)), j, u)
}

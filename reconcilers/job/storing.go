package job

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobexec/results"
	"switchyard.dev/workflows/jobs"
)

const (
	// storesAtOnce is how many jobs are stored at the same time: each takes memory for a part of a file.
	storesAtOnce = 4
	// storeWithin bounds one attempt, and firstStore and lastStore the pause after a failed one.
	storeWithin           = 15 * time.Minute
	firstStore, lastStore = time.Second, 30 * time.Second
	// discardWithin bounds the deletion of what a job has in the bucket.
	discardWithin = time.Minute
)

// store puts what a job has left into the bucket of the operator.
type store struct {
	*Reconciler
	job    *crdv1.Job
	cancel context.CancelFunc
	// ended is closed at the end of the last attempt.
	ended chan struct{}

	mu sync.Mutex
	// pod is that of the job; nil: it does not exist.
	pod *corev1.Pod
	// stored: the bucket has everything. lost: it has not, and the pod does not exist.
	stored, lost bool
}

// known returns whether everything is in the bucket, and whether that is still open.
func (s *store) known() (stored, open bool) {
	if s == nil {
		return false, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored, !s.stored && !s.lost
}

// in records the pod of the job.
func (s *store) in(p *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pod = p
}

// run tries until the bucket has everything, or never will.
func (s *store) run(ctx context.Context) {
	defer close(s.ended)
	group := types.NamespacedName{Namespace: s.job.Spec.RunnerGroup.Namespace, Name: s.job.Spec.RunnerGroup.Name}
	for pause := firstStore; ; pause = min(2*pause, lastStore) {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err := s.once(ctx)
		<-s.slots
		if _, open := s.known(); !open {
			s.wake(group, time.Millisecond)
			return
		}
		log.FromContext(ctx).Info("the bucket does not have what a job has left; it is tried again", "job", s.job.Name, "in", pause.String(), "why", err)
		if !wake.Sleep(ctx, pause) {
			return
		}
	}
}

// once tries once. A pod that does not exist is known to be so before the bucket is read, so that nothing is stored after that.
func (s *store) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	s.mu.Lock()
	pod := s.pod
	s.mu.Unlock()
	what := results.Collection{Kept: s.config.Results, Org: results.Operator, Job: string(s.job.UID), Ref: jobs.Ref(s.job), Specs: s.job.Spec.Artifacts}
	m, err := what.Manifest(ctx, what.Org, what.Job)
	there := err == nil && m != nil && m.Execution == s.job.Status.Execution.Count
	if err == nil && !there && pod != nil {
		if what.From, err = s.config.Runners(pod); err == nil {
			err = what.Collect(ctx)
			_ = what.From.Close() // its calls have ended
			there = err == nil
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored, s.lost = there, err == nil && !there && pod == nil
	return err
}

// stores reports whether the operator stores what a job has left.
func (r *Reconciler) stores(j *crdv1.Job) bool {
	return r.config.Results != nil && results.OfOperator(j)
}

// store stores the results of jobs that are not stored yet, and ends attempts that are not needed any more.
func (a *acting) store(ctx context.Context, steps []jobs.Step) {
	m, open := a.memory, map[types.UID]bool{}
	for i, in := range a.in.Jobs {
		j, e := m.jobs.newest(in.Job), steps[i].Execution
		if e == nil || e.Output == nil || e.Output.State != crdv1.OutputKept || !a.stores(j) || j.DeletionTimestamp != nil {
			continue
		}
		pod := in.Runner.Pod
		if open[j.UID] = true; in.Runner.Gone {
			pod = nil
		}
		if s := m.stores[j.UID]; s != nil {
			s.in(pod)
			continue
		}
		s := &store{Reconciler: a.Reconciler, job: j, pod: pod, ended: make(chan struct{})}
		ctx := log.IntoContext(a.calls, log.FromContext(ctx))
		ctx, s.cancel = context.WithCancel(ctx)
		m.stores[j.UID] = s
		go s.run(ctx)
	}
	for uid, s := range m.stores {
		if !open[uid] {
			s.cancel()
			delete(m.stores, uid)
		}
	}
}

// discard deletes what a deleted job has in the bucket. The bucket is not awaited: it may not answer.
func (a *acting) discard(ctx context.Context, j *crdv1.Job) {
	if !a.stores(j) {
		return
	}
	a.mu.Lock()
	s := a.memory.stores[j.UID]
	a.mu.Unlock()
	logger := log.FromContext(ctx)
	go func() {
		if s != nil {
			s.cancel()
			<-s.ended
		}
		ctx, cancel := context.WithTimeout(a.calls, discardWithin)
		defer cancel()
		if err := a.config.Results.Delete(ctx, results.Operator, string(j.UID)); err != nil {
			logger.Error(err, "what a deleted job has left stays in the bucket: delete it there", "job", j.Name, "folder", results.Operator+"/"+string(j.UID))
		}
	}()
}

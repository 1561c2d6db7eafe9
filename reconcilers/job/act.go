package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	runner "switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobs"
)

// atOnce is the maximum number of concurrent writes for one group.
const atOnce = 16

// act writes the statuses, and beside them the finalizers of jobs that get a pod and the labels of these pods; then
// it begins executions and frees other pods; and then it removes finalizers and finished jobs. What depends on a
// failed write is left for the next reconciliation.
func (r *Reconciler) act(ctx context.Context, m *memory, in Input, d Decision) error {
	given := map[types.UID]bool{}
	for _, g := range d.Give {
		given[g.Job.UID] = true
	}
	a := &acting{Reconciler: r, memory: m, in: in, failed: map[types.UID]bool{}, claimed: map[types.UID]*crdv1.Job{}, marked: map[types.UID]*corev1.Pod{}}
	a.group.SetLimit(atOnce)
	for _, g := range d.Give {
		a.do(func() error { return a.claim(ctx, g.Job) })
		a.do(func() error { return a.reserve(ctx, g) })
	}
	for i := range in.Jobs {
		j := in.Jobs[i].Job
		if after := Conclude(j, d.Steps[i], stampOf(in.Now)); after != j && !given[j.UID] {
			a.do(func() error { return a.record(ctx, j, after) })
		}
	}
	a.wait()
	for i := range in.Jobs {
		if !a.failed[in.Jobs[i].Job.UID] {
			a.call(i, d.Steps[i])
		}
	}
	for _, g := range d.Give {
		a.do(func() error { return a.give(ctx, g) })
	}
	for _, f := range d.Free {
		a.do(func() error { return a.free(ctx, f) })
	}
	for _, p := range d.Released {
		a.do(func() error { return a.annotate(ctx, p) })
	}
	a.wait()
	for i := range in.Jobs {
		if j := in.Jobs[i].Job; j.DeletionTimestamp != nil {
			a.do(func() error { return a.letGo(ctx, j, d.Steps[i]) })
		}
	}
	for _, j := range d.Expired {
		a.do(func() error { return a.expire(ctx, j) })
	}
	a.wait()
	a.tidy()
	a.ask(d.Steps)
	a.upload(ctx, d.Steps)
	return errors.Join(a.errs...)
}

// acting is one call of act.
type acting struct {
	*Reconciler
	memory *memory
	in     Input
	group  errgroup.Group

	mu sync.Mutex
	// failed are the UIDs of jobs with a status that is not recorded.
	failed map[types.UID]bool
	// claimed are jobs that get a pod, and have the finalizer; marked are pods with the label, by the job that gets them.
	claimed map[types.UID]*crdv1.Job
	marked  map[types.UID]*corev1.Pod
	errs    []error
}

// do runs a function beside the others.
func (a *acting) do(f func() error) {
	a.group.Go(func() error {
		if err := f(); err != nil {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.errs = append(a.errs, err)
		}
		return nil
	})
}

// wait waits for all functions.
func (a *acting) wait() {
	_ = a.group.Wait() // do has the errors
	a.group = errgroup.Group{}
	a.group.SetLimit(atOnce)
}

// record writes the status of a job.
func (a *acting) record(ctx context.Context, j, after *crdv1.Job) error {
	err := a.writer.Status(ctx, j, after)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.failed[j.UID] = true
		return err
	}
	a.memory.jobs[j.UID] = after
	return nil
}

// call begins, stops or ends the calls to the runner of an execution.
func (a *acting) call(i int, s jobs.Step) {
	in := a.in.Jobs[i]
	j, m := in.Job, a.memory
	a.mu.Lock()
	defer a.mu.Unlock()
	f := m.followers[j.UID]
	if f != nil && (s.Settled && !s.Follow || s.Await != f.await || s.Execution == nil || !s.Execution.Begun || f.ref.GetExecution() != uint32(s.Execution.Count) ||
		s.Follow && a.moved(f, in.Runner.Pod)) {
		f.cancel()
		delete(m.followers, j.UID)
		f = nil
	}
	switch {
	case !s.Follow || in.Runner.Pod == nil:
	case f == nil:
		a.follow(j, in, s)
	case s.Stop != nil:
		f.end(s.Stop, in.Runner.Refused)
	}
}

// moved reports whether a follower calls a former address of a pod. The caller has locked a.mu.
func (a *acting) moved(f *follower, p *corev1.Pod) bool {
	if p == nil {
		return false
	}
	to, err := a.runner(p)
	return err == nil && to.Client != f.runner
}

// follow starts the calls to the runner of the recorded execution of a job: to begin it, unless it has
// ended or is to be stopped. The caller has locked a.mu. A runner without a client is tried again at the
// next reconciliation.
func (a *acting) follow(j *crdv1.Job, in jobs.Input, s jobs.Step) {
	to, err := a.runner(in.Runner.Pod)
	if err != nil {
		a.errs = append(a.errs, err)
		return
	}
	g, name := in.Group, types.NamespacedName{Namespace: j.Spec.RunnerGroup.Namespace, Name: j.Spec.RunnerGroup.Name}
	if g == nil {
		g = &crdv1.JobRunnerGroup{}
	}
	f := &follower{runner: to.Client, ref: jobs.Ref(j), stop: s.Stop, await: s.Await, changed: func() { a.wake(name, time.Millisecond) }}
	if s.State == nil || s.State.Terminated == nil {
		f.run = jobs.Request(j, g, in.Context)
	}
	a.memory.followers[j.UID] = follow(a.calls, f)
}

// runner returns the client of the runner in a pod, at its present address; a former client ends. The caller has locked
// a.mu.
func (a *acting) runner(p *corev1.Pod) (*reached, error) {
	known, is := a.memory.runners[p.UID]
	if is && (known.ip == p.Status.PodIP || p.Status.PodIP == "") {
		return known, nil
	}
	made, err := a.config.Runners(p)
	if err != nil {
		return nil, fmt.Errorf("reach the runner in pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	if is {
		known.close()
	}
	a.memory.runners[p.UID] = &reached{Client: made, ip: p.Status.PodIP}
	return a.memory.runners[p.UID], nil
}

// claim adds the finalizer to a job that gets a pod.
func (a *acting) claim(ctx context.Context, j *crdv1.Job) error {
	j = j.DeepCopy()
	if err := a.writer.AddFinalizer(ctx, j); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.claimed[j.UID] = j
	return nil
}

// reserve writes the label of a pod that a job gets.
func (a *acting) reserve(ctx context.Context, g Give) error {
	pod, err := a.mark(ctx, g.Pod, g.Job.UID, "", g.Kept)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.marked[g.Job.UID] = pod
	return nil
}

// give assigns a pod with the label of a job to that job, which has the finalizer: the status of the job, and then
// the request. Neither claim nor reserve runs any more. A pod with a label that is not used stays reserved until the
// next reconciliation.
func (a *acting) give(ctx context.Context, g Give) error {
	j, pod := a.claimed[g.Job.UID], a.marked[g.Job.UID]
	if j == nil || pod == nil || a.blocked(g.Pod) {
		return nil
	}
	after := j.DeepCopy()
	after.Status = jobs.Assigned(j, a.in.Group, pod, containerOf(pod))
	after = Conclude(j, jobs.Step{State: after.Status.State, Runner: after.Status.Runner, Execution: after.Status.Execution}, stampOf(a.in.Now))
	if err := a.writer.Status(ctx, j, after); err != nil {
		return err
	}
	if after.ResourceVersion == j.ResourceVersion {
		return nil // The job is deleted: the status was not written.
	}
	a.mu.Lock()
	a.memory.jobs[j.UID] = after
	a.mu.Unlock()
	a.begin(after, pod)
	return nil
}

// begin starts the calls for an execution that is recorded.
func (a *acting) begin(j *crdv1.Job, pod *corev1.Pod) {
	for _, in := range a.in.Jobs {
		if in.Job.UID == j.UID {
			in.Runner.Pod = pod
			a.mu.Lock()
			defer a.mu.Unlock()
			a.follow(j, in, jobs.Step{})
			return
		}
	}
}

// free takes a pod from its job.
func (a *acting) free(ctx context.Context, f Free) error {
	if a.blocked(f.Pod) {
		return nil
	}
	_, err := a.mark(ctx, f.Pod, "", f.Drain, f.Kept)
	return err
}

// blocked reports whether a job of a pod, or one with its last execution there, has a status that is not recorded.
func (a *acting) blocked(p *corev1.Pod) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed[types.UID(p.Labels[crdv1.AssignedJobLabel])] || len(a.failed) > 0 && slices.ContainsFunc(a.in.Jobs, func(in jobs.Input) bool {
		e := in.Job.Status.Execution
		return a.failed[in.Job.UID] && e != nil && e.PodUID == string(p.UID)
	})
}

// mark writes the job of a pod, empty for none, why it gets no other, and that it keeps results. It
// changes only the version of the pod that was read.
func (a *acting) mark(ctx context.Context, p *corev1.Pod, job types.UID, drain string, kept bool) (*corev1.Pod, error) {
	after := p.DeepCopy()
	if delete(after.Labels, crdv1.AssignedJobLabel); job != "" {
		after.Labels[crdv1.AssignedJobLabel] = string(job)
	}
	annotations := map[string]string{}
	if drain != "" && p.Annotations[crdv1.AnnotationDraining] == "" {
		annotations[crdv1.AnnotationDraining] = drain
	}
	if kept {
		annotations[crdv1.AnnotationJobResults] = crdv1.JobResultsKept
		annotations[crdv1.AnnotationJobResultsSince] = a.in.Now.UTC().Format(time.RFC3339)
	}
	return a.patch(ctx, p, after, annotations)
}

// annotate writes that the results in a pod need not be kept.
func (a *acting) annotate(ctx context.Context, p *corev1.Pod) error {
	_, err := a.patch(ctx, p, p.DeepCopy(), map[string]string{crdv1.AnnotationJobResults: crdv1.JobResultsReleased})
	return err
}

// patch writes a pod with further annotations.
func (a *acting) patch(ctx context.Context, p, after *corev1.Pod, annotations map[string]string) (*corev1.Pod, error) {
	after.Annotations = lists.Merged(after.Annotations, annotations)
	patch := client.MergeFromWithOptions(p, client.MergeFromWithOptimisticLock{})
	if err := a.config.Client.Patch(ctx, after, patch, apply.FieldOwner); err != nil {
		return nil, fmt.Errorf("mark pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.memory.pods[p.UID] = after
	return after, nil
}

// letGo removes the finalizer of a job that is being deleted, once no pod has it.
func (a *acting) letGo(ctx context.Context, j *crdv1.Job, s jobs.Step) error {
	if e := s.Execution; e != nil && e.Begun && !s.Settled {
		return nil
	}
	a.mu.Lock()
	waits := a.failed[j.UID] || slices.ContainsFunc(a.in.Pods, func(p *corev1.Pod) bool {
		return a.memory.pods.newest(p).Labels[crdv1.AssignedJobLabel] == string(j.UID)
	})
	now := a.memory.jobs.newest(j).DeepCopy()
	a.mu.Unlock()
	if waits {
		return nil
	}
	if err := a.writer.RemoveFinalizer(ctx, now); err != nil {
		return err
	}
	a.discard(ctx, now)
	return nil
}

// expire deletes a finished job, and then has its results dropped. The runner is not awaited: it may not answer.
func (a *acting) expire(ctx context.Context, j *crdv1.Job) error {
	e := j.Status.Execution
	if err := a.writer.Delete(ctx, j); err != nil || e == nil || e.Output == nil || e.Output.State != crdv1.OutputKept {
		return err
	}
	i := slices.IndexFunc(a.in.Pods, func(p *corev1.Pod) bool { return string(p.UID) == e.PodUID })
	if i < 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	in, err := a.runner(a.in.Pods[i])
	if err != nil {
		return err
	}
	ref, logger := jobs.Ref(j), log.FromContext(ctx)
	go func() {
		ctx, cancel := context.WithTimeout(a.calls, call)
		defer cancel()
		if _, err := in.Release(ctx, ref); err != nil {
			logger.Info("the results of a deleted job stay in its pod until a later job needs the space", "job", j.Name, "pod", e.PodUID, "why", err)
		}
	}()
	return nil
}

// tidy ends the calls for jobs that do not exist, and closes the clients of pods that do not.
func (a *acting) tidy() {
	m := a.memory
	used := map[*runner.Client]bool{}
	there := map[types.UID]bool{}
	for _, in := range a.in.Jobs {
		there[in.Job.UID] = true
	}
	for uid, f := range m.followers {
		if !there[uid] {
			f.cancel()
			delete(m.followers, uid)
			continue
		}
		used[f.runner] = true
	}
	for uid, one := range m.runners {
		if !used[one.Client] && !slices.ContainsFunc(a.in.Pods, func(p *corev1.Pod) bool { return p.UID == uid }) {
			one.close()
			delete(m.runners, uid)
		}
	}
}

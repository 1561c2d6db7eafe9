// Package upload copies the results of jobs from their pods to the bucket of the operator.
package upload

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/results"
	"switchyard.dev/workflows/jobs"
)

const (
	// atOnce is how many jobs are stored at the same time: each takes memory for a part of a file.
	atOnce = 4
	// within bounds one attempt, and firstPause and lastPause the pause after a failed one.
	within                = 15 * time.Minute
	firstPause, lastPause = time.Second, 30 * time.Second
	// discardWithin bounds the deletion of what a job has in the bucket.
	discardWithin = time.Minute
)

// Config configures an Uploader.
type Config struct {
	// Bucket is for the results of jobs that no control plane manages; nil: they stay in their pods.
	Bucket *results.Kept
	// Runners returns a client of the runner in a pod.
	Runners func(*corev1.Pod) (*client.Client, error)
	// Changed is called with the runner group of a job when its upload has ended, or could not be made more than once.
	Changed func(group types.NamespacedName)
}

// Uploader bounds how many uploads run at the same time. Create one with New.
type Uploader struct {
	config Config
	slots  chan struct{}
}

// New returns an Uploader.
func New(c Config) *Uploader {
	return &Uploader{config: c, slots: make(chan struct{}, atOnce)}
}

// Has reports whether the bucket is for what a job will have left.
func (u *Uploader) Has(j *crdv1.Job) bool {
	return u.config.Bucket != nil && results.OfOperator(j)
}

// Stores reports whether the operator stores what a job has left.
func (u *Uploader) Stores(j *crdv1.Job) bool {
	return u.Has(j) && results.Left(j)
}

// Upload puts what a job has left into the bucket.
type Upload struct {
	*Uploader
	job    *crdv1.Job
	cancel context.CancelFunc
	// ended is closed at the end of the last attempt.
	ended chan struct{}

	mu sync.Mutex
	// pod is that of the job; nil: it does not exist.
	pod *corev1.Pod
	// stored: the bucket has everything. lost: it has not, and the pod does not exist.
	stored, lost bool
	// problem is why more than one attempt has failed; empty: none, or one.
	problem string
}

// Start starts the upload of a job with this pod; nil: the pod does not exist. It ends with ctx, when it is canceled, or when the
// bucket has everything or never will.
func (u *Uploader) Start(ctx context.Context, j *crdv1.Job, pod *corev1.Pod) *Upload {
	out := &Upload{Uploader: u, job: j, pod: pod, ended: make(chan struct{})}
	ctx, out.cancel = context.WithCancel(ctx)
	go out.run(ctx)
	return out
}

// Cancel ends the upload; it does not wait.
func (u *Upload) Cancel() { u.cancel() }

// Known returns whether everything is in the bucket, whether that is still open, and why more than one attempt has failed. u may
// be nil: then it is open.
func (u *Upload) Known() (stored, open bool, problem string) {
	if u == nil {
		return false, true, ""
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stored, !u.stored && !u.lost, u.problem
}

// SetPod records the pod of the job; nil: it does not exist.
func (u *Upload) SetPod(p *corev1.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pod = p
}

// run tries until the bucket has everything, or never will.
func (u *Upload) run(ctx context.Context) {
	defer close(u.ended)
	group := types.NamespacedName{Namespace: u.job.Spec.RunnerGroup.Namespace, Name: u.job.Spec.RunnerGroup.Name}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		select {
		case u.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		err := u.once(ctx)
		<-u.slots
		if _, open, _ := u.Known(); !open {
			u.config.Changed(group)
			return
		}
		if pause > firstPause && err != nil {
			u.mu.Lock()
			u.problem = err.Error()
			u.mu.Unlock()
			u.config.Changed(group)
		}
		log.FromContext(ctx).Info("the bucket does not have what a job has left; it is tried again", "job", u.job.Name, "in", pause.String(), "why", err)
		if !wake.Sleep(ctx, pause) {
			return
		}
	}
}

// once tries once. A pod that does not exist is known to be so before the bucket is read, so that nothing is stored after that.
func (u *Upload) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	u.mu.Lock()
	pod := u.pod
	u.mu.Unlock()
	what := results.Collection{Kept: u.config.Bucket, Org: results.Operator, Job: string(u.job.UID), Ref: jobs.Ref(u.job), Specs: u.job.Spec.Artifacts}
	m, err := what.Manifest(ctx, what.Org, what.Job)
	there := err == nil && m != nil && m.Execution == u.job.Status.Execution.Count
	if err == nil && !there && pod != nil {
		if what.From, err = u.config.Runners(pod); err == nil {
			err = what.Collect(ctx)
			_ = what.From.Close() // its calls have ended
			there = err == nil
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stored, u.lost = there, err == nil && !there && pod == nil
	return err
}

// Discard deletes what a deleted job has in the bucket, after the end of its upload, which may be nil. It does not wait for the
// bucket, which may not answer; ctx bounds the deletion and has the logger.
func (u *Uploader) Discard(ctx context.Context, j *crdv1.Job, running *Upload) {
	go func() {
		if running != nil {
			running.cancel()
			<-running.ended
		}
		ctx, cancel := context.WithTimeout(ctx, discardWithin)
		defer cancel()
		if err := u.config.Bucket.Delete(ctx, results.Operator, string(j.UID)); err != nil {
			log.FromContext(ctx).Error(err, "what a deleted job has left stays in the bucket: delete it there", "job", j.Name, "folder", results.Operator+"/"+string(j.UID))
		}
	}()
}

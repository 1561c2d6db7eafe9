package job_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/bucket"
	"switchyard.dev/tests/port"
	"switchyard.dev/workflows/jobexec/results"
)

// What jobs have left is stored in the operator's bucket, also while the controller is killed and after its pod was deleted, and is
// deleted with the Job. A job of a control plane is not stored, and no job costs a write for it while its pod exists.
func TestWhatJobsLeaveIsStoredInTheBucket(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.results = bucket.Kept(t)
	s.gate.reset(0)
	s.manage()
	pod, process := s.pod("t-1")
	one := s.submit("one", "echo out; echo err >&2; echo file > a", "artifacts: [{path: a, meta: {k: v}}, {path: missing}]")
	managed := s.job("managed", "echo out")
	managed.Annotations = map[string]string{crdv1.AnnotationJobSequence: "1"}
	s.Create(managed)
	for _, j := range []*crdv1.Job{one, managed} {
		if got := s.ended(j); !got.Success {
			t.Errorf("%+v", got)
		}
	}
	s.free()
	m := s.inBucket(one)
	for path, want := range map[string]string{"stdout": "out\n", "stderr": "err\n", "a": "file\n"} {
		if f := m.File("", path); f == nil || s.stored(one, f) != want {
			t.Errorf("%s: %+v", path, f)
		}
	}
	if a, missing := m.File(results.User, "a"), m.File(results.User, "missing"); a.Meta["k"] != "v" || missing.Problem == "" {
		t.Errorf("%+v, %+v", a, missing)
	}
	if s.Get(one); one.Status.Execution.Output.State != crdv1.OutputKept || s.gate.count("PATCH /apis/signadot.com/v1/jobs/"+one.Name+"/status") > 3 {
		t.Errorf("%+v, %q", one.Status.Execution.Output, s.gate.writes)
	}
	s.stop()
	process.Kill()
	s.Remove(pod)
	s.manage()
	s.outputs(one, crdv1.OutputStored)
	s.outputs(managed, crdv1.OutputLost)
	if m, err := s.results.Manifest(s.Context(), results.Operator, string(managed.UID)); m != nil || err != nil {
		t.Errorf("a job of a control plane is stored: %+v, %v", m, err)
	}
	s.Remove(one)
	s.Gone(one)
	s.Eventually("it is deleted in the bucket", func() error {
		m, err := s.results.Manifest(s.Context(), results.Operator, string(one.UID))
		if m != nil {
			err = errors.New("it is not")
		}
		return err
	})
}

// A pod that is not reused is released once the bucket has what its job has left.
func TestAPodIsReleasedForTheBucket(t *testing.T) {
	s := newScene(t, "reusePods: false")
	s.results = bucket.Kept(t)
	s.gate.reset(0)
	s.manage()
	pod, _ := s.pod("t-1")
	j := s.submit("one", "echo out")
	s.ended(j)
	s.outputs(j, crdv1.OutputStored)
	s.Eventually("the pod is released", func() error {
		if s.Get(pod); pod.Annotations[crdv1.AnnotationJobResults] != crdv1.JobResultsReleased {
			return fmt.Errorf("%v", pod.Annotations)
		}
		return nil
	})
}

// A job costs no more writes where the operator has a bucket.
func TestWritesOfAJobWithABucket(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.results = bucket.Kept(t)
	s.writesOfAJob()
}

// A bucket that is away changes the end of no job and delays none: the status states it, by one write, and the results stay in the
// pod until they are stored.
func TestABucketThatIsAwayChangesNoEnd(t *testing.T) {
	s := newScene(t, "reusePods: true")
	t.Setenv("AWS_ACCESS_KEY_ID", "the-id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "the-secret")
	away, err := results.Open(results.Config{S3: results.S3{Bucket: "jobs", Endpoint: fmt.Sprintf("http://127.0.0.1:%d", port.Of(t)), Region: "here"}})
	s.Must(err)
	open := bucket.Kept(t)
	of := &switched{Backend: open.Backend}
	of.to.Store(&away.Backend)
	s.results = &results.Kept{Backend: of, Limits: open.Limits}
	s.gate.reset(0)
	s.manage()
	pod, process := s.pod("t-1")
	failed, good := s.submit("failed", "echo out; exit 3"), s.submit("good", "echo out", "artifacts: [{path: a}]")
	if got := s.ended(failed); got.Reason != "ScriptFailed" || *got.ExitCode != 3 {
		t.Errorf("%+v", got)
	}
	if got := s.ended(good); !got.Success {
		t.Errorf("%+v", got)
	}
	for _, j := range []*crdv1.Job{failed, good} {
		message := s.Condition(j, crdv1.ConditionCaveats, "True", crdv1.ConditionCaveats)
		if o := j.Status.Execution.Output; o.State != crdv1.OutputKept || o.Message != message || !strings.HasPrefix(message, "Output and artifacts could not be stored in the bucket of the operator: ") ||
			!strings.Contains(message, "connection refused") || strings.Contains(message, "the-id") || o.StoredUntil == nil {
			t.Errorf("%+v, %q", o, message)
		}
		if n := s.gate.count("PATCH /apis/signadot.com/v1/jobs/" + j.Name + "/status"); n > 4 {
			t.Errorf("%d writes of the status: %q", n, s.gate.writes)
		}
	}
	s.Remove(failed)
	s.Gone(failed)
	of.to.Store(nil)
	s.inBucket(good)
	s.Eventually("it is not stated any more", func() error {
		if s.Get(good); good.Status.Execution.Output.Message != "" || crdv1.FindCondition(good.Status.Conditions, crdv1.ConditionCaveats) != nil {
			return fmt.Errorf("%+v", good.Status)
		}
		return nil
	})
	process.Kill()
	s.Remove(pod)
	s.outputs(good, crdv1.OutputStored)
}

// switched is a bucket, or another one while there is one.
type switched struct {
	results.Backend
	to atomic.Pointer[results.Backend]
}

func (s *switched) now() results.Backend {
	if to := s.to.Load(); to != nil {
		return *to
	}
	return s.Backend
}

func (s *switched) Put(ctx context.Context, key string, from io.Reader) error {
	return s.now().Put(ctx, key, from)
}

func (s *switched) Open(ctx context.Context, key string) (io.ReadSeekCloser, error) {
	return s.now().Open(ctx, key)
}

func (s *switched) Delete(ctx context.Context, folder string) error {
	return s.now().Delete(ctx, folder)
}

// inBucket waits until the bucket has what a job has left; nil: there is no bucket.
func (s *scene) inBucket(j *crdv1.Job) (m *results.Manifest) {
	s.Helper()
	if s.results == nil {
		return nil
	}
	s.Eventually("what "+j.Name+" has left is stored", func() (err error) {
		if m, err = s.results.Manifest(s.Context(), results.Operator, string(j.UID)); err == nil && m == nil {
			err = errors.New("it is not")
		}
		return err
	})
	return m
}

// outputs waits for the state of a job's output.
func (s *scene) outputs(j *crdv1.Job, want string) {
	s.Helper()
	s.Eventually("the output of "+j.Name+" is "+want, func() error {
		if s.Get(j); j.Status.Execution.Output.State != want {
			return fmt.Errorf("%+v", j.Status.Execution.Output)
		}
		return nil
	})
}

// stored returns a stored file.
func (s *scene) stored(j *crdv1.Job, f *results.File) string {
	s.Helper()
	from, err := s.results.Open(s.Context(), results.Operator, string(j.UID), f)
	s.Must(err)
	text, err := io.ReadAll(from)
	s.Must(errors.Join(err, from.Close()))
	return string(text)
}

package job_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/bucket"
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
	var m *results.Manifest
	s.Eventually("it is stored", func() (err error) {
		if m, err = s.results.Manifest(s.Context(), results.Operator, string(one.UID)); err == nil && m == nil {
			err = errors.New("it is not")
		}
		return err
	})
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

package jobs

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/bucket"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/results"
)

// What the operator has stored of a job is read after its pod was deleted, by users who can read the logs of pods in the
// namespace of its group.
func TestWhatIsStoredIsReadWithoutAPod(t *testing.T) {
	w := world.Shared(t)
	kept, ns := bucket.Kept(t), w.NewNamespace("stored")
	service := runners.ServeStored(w, ns, kept).Runners()
	elsewhere := w.NewNamespace("elsewhere")
	w.Accounts(ns, "default", "ada", "eve")
	w.Accounts(elsewhere, "default")
	w.Grant("system:serviceaccount:"+ns+":eve", elsewhere, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods/log"}})
	w.Grant("system:serviceaccount:"+ns+":ada", ns, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods/log"}})
	as := func(account string) func(context.Context) (context.Context, error) {
		token := w.Token(ns, account, "", nil)
		return func(ctx context.Context) (context.Context, error) {
			return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), nil
		}
	}
	job := func(name string) *crdv1.Job {
		j := &crdv1.Job{}
		w.Make(j, "metadata: {name: "+ns+name+"}\nspec: {content: {command: [x]}, runnerGroup: {namespace: "+ns+", name: tests}}")
		j.Status.State = &crdv1.JobState{Terminated: &crdv1.JobTerminated{Success: true}}
		j.Status.Execution = &crdv1.JobExecution{Count: 2, PodUID: "gone", Begun: true, Output: &crdv1.JobOutput{State: crdv1.OutputStored}}
		w.Must(w.Client.Status().Update(t.Context(), j))
		return j
	}
	j, other := job("-one"), job("-other")
	m := results.Manifest{Execution: 2, At: time.Now()}
	for _, f := range []struct{ space, path, text string }{{results.System, "stdout", "one\ntwo\n"}, {results.System, "stderr", ""}, {results.User, "a", "file\n"}, {results.User, "lost", ""}} {
		of := results.File{Space: f.space, Path: f.path}
		w.Must(kept.Put(t.Context(), results.Operator, string(j.UID), &of, func(to io.Writer) error { _, err := io.WriteString(to, f.text); return err }))
		if f.path == "lost" {
			of.Problem = "It has too many bytes."
		}
		m.Files = append(m.Files, of)
	}
	w.Must(kept.Finish(t.Context(), results.Operator, string(j.UID), m))

	errs := &bytes.Buffer{}
	c := &cluster{s: command.New(command.Config{Name: "switchyard", Out: io.Discard, Err: errs})}
	of, err := stored(t.Context(), service, as("ada"), j.Name)
	w.Must(err)
	of.end = func() {}
	c.runner = of
	for _, tt := range []struct {
		of           stream
		want, cursor string
	}{
		{stream{name: "stdout", follow: true}, "one\ntwo\n", "2/8"}, {stream{name: "stdout", cursor: "2/4"}, "two\n", "2/8"}, {stream{name: "stdout", tail: 1}, "two\n", "2/8"}, {stream{name: "stderr"}, "", ""},
	} {
		var out bytes.Buffer
		if err := c.output(t.Context(), j.Name, &tt.of, &out); err != nil || out.String() != tt.want || tt.of.cursor != tt.cursor || tt.of.of != 2 {
			t.Errorf("%q at %q, %v, %q", out.String(), tt.of.cursor, err, errs)
		}
	}
	for path, want := range map[string]string{"a": "file\n", "@stdout": "one\ntwo\n", "b": "", "lost": "", "../a": "", "stdout": ""} {
		var out bytes.Buffer
		if err := c.download(t.Context(), j.Name, path, &out); (err == nil) != (want != "") || out.String() != want {
			t.Errorf("%s: %q, %v", path, out.String(), err)
		}
	}
	if _, err := stored(t.Context(), service, as("ada"), other.Name); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), "was deleted") {
		t.Errorf("a job of which nothing is stored: %v", err)
	}
	if _, err := stored(t.Context(), service, as("eve"), j.Name); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a user without the right gets a ticket: %v", err)
	}
	pod := w.RunPod(runners.Pod(group(w, elsewhere), "tests-1"), corev1.PodStatus{})
	for what, tt := range map[string]struct {
		token string
		want  codes.Code
	}{
		"a user with the right in another namespace":           {w.Token(ns, "eve", "", nil), codes.PermissionDenied},
		"a job of another namespace, with its pod's token":     {w.Token(elsewhere, "default", "", pod), codes.PermissionDenied},
		"a job of another namespace, with its runner's token":  {w.Token(elsewhere, "default", layout.Audience, pod), codes.Unauthenticated},
		"a job of the same namespace, without a right of logs": {w.Token(ns, "default", "", w.RunPod(runners.Pod(group(w, ns), "tests-1"), corev1.PodStatus{})), codes.PermissionDenied},
	} {
		stream, err := service.Stored(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+tt.token), &jobexecv1.StoredRequest{Job: j.Name, Path: "a"})
		w.Must(err)
		if chunk, err := stream.Recv(); status.Code(err) != tt.want {
			t.Errorf("%s reads it: %v, %v", what, chunk, err)
		}
	}
}

// group makes a runner group in a namespace.
func group(w *world.World, namespace string) *crdv1.JobRunnerGroup {
	w.Helper()
	g := &crdv1.JobRunnerGroup{}
	w.Make(g, "metadata: {name: tests, namespace: "+namespace+"}\nspec: {image: alpine}")
	return g
}

// stored returns the runner of a job with what the bucket has.
func stored(ctx context.Context, service jobexecv1.RunnersClient, as func(context.Context) (context.Context, error), job string) (*runner, error) {
	with, err := as(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := service.Ticket(with, &jobexecv1.TicketRequest{Job: job})
	if err != nil {
		return nil, err
	}
	return inBucket(service, as, job, answer), nil
}

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
	rbacv1 "k8s.io/api/rbac/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/bucket"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/workflows/jobexec/results"
)

// What the operator has stored of a job is read after its pod was deleted, by users who can read the logs of pods in the
// namespace of its group.
func TestWhatIsStoredIsReadWithoutAPod(t *testing.T) {
	w := world.Shared(t)
	kept, ns := bucket.Kept(t), w.NewNamespace("stored")
	service := runners.ServeStored(w, ns, kept).Runners()
	w.Accounts(ns, "ada", "eve")
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
	ctx, err := as("eve")(t.Context())
	w.Must(err)
	stream, err := service.Stored(ctx, &jobexecv1.StoredRequest{Job: j.Name, Path: "a"})
	w.Must(err)
	if _, err := stream.Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a user without the right reads it: %v", err)
	}
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

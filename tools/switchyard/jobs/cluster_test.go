package jobs

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/ticket"
)

func TestMain(m *testing.M) { world.Main(m) }

const pod = "11111111-2222-3333-4444-555555555555"

// ran returns the site of a real runner that has run a script as execution 2 of a job, for a user with a ticket to read
// it. The runner is reached at its address.
func ran(t *testing.T, script string, artifacts ...string) (*cluster, *bytes.Buffer) {
	t.Helper()
	t.Cleanup(runners.Clean)
	authority := runners.NewAuthority(t)
	r := runners.New(t, authority)
	r.Start(pod)
	ca, err := authority.PEM()
	if err != nil {
		t.Fatal(err)
	}
	as := func(c ticket.Claims) *client.Client {
		c.PodUID = pod
		to, err := client.New(client.Runner{Address: r.IP + ":" + strconv.Itoa(layout.Port), PodUID: pod, Authority: ca, Patience: time.Second,
			Ticket: func(context.Context) (string, time.Time, error) { return authority.Issue(c) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = to.Close() })
		return to
	}
	controller := as(ticket.Claims{JobUID: ticket.AnyJob, User: "controller", Verbs: []ticket.Verb{ticket.Run}})
	of := &jobexecv1.ExecutionRef{JobUid: "job", Execution: 2}
	request := &jobexecv1.RunRequest{Ref: of, Fence: &jobexecv1.Fence{PodUid: pod}, JobName: "j", Script: "#!/bin/sh\n" + script}
	for _, a := range artifacts {
		request.Artifacts = append(request.Artifacts, &jobexecv1.ArtifactSpec{Path: a})
	}
	wait.Eventually(t, time.Minute, "the script ends", func() error {
		if _, err := controller.Run(t.Context(), request); err != nil {
			return err
		}
		s, err := controller.Watch(t.Context(), of)
		for err == nil {
			var now *jobexecv1.Status
			if now, err = s.Recv(); now.GetArtifactsComplete() {
				return nil
			}
		}
		return err
	})
	errs := &bytes.Buffer{}
	c := &cluster{s: command.New(command.Config{Name: "switchyard", Out: io.Discard, Err: errs})}
	c.runner = &runner{Client: as(ticket.Claims{JobUID: "job", User: "ada", Verbs: []ticket.Verb{ticket.Read}}), of: "j", ref: of, end: func() {}}
	return c, errs
}

// A stream continues at its cursor in the same execution, and begins again in another one. A runner that fails is forgotten,
// so that its pod is determined again.
func TestTheOutputOfARunner(t *testing.T) {
	c, errs := ran(t, "echo one; echo two; echo err >&2; echo file >a; exit 4", "a", "b")
	for _, tt := range []struct {
		of                 stream
		want, cursor, says string
	}{
		{stream{name: "stdout"}, "one\ntwo\n", "2/8", ""},
		{stream{name: "stdout", follow: true}, "one\ntwo\n", "2/8", ""},
		{stream{name: "stdout", cursor: "2/4"}, "two\n", "2/8", ""},
		{stream{name: "stdout", cursor: "2/8"}, "", "2/8", ""},
		{stream{name: "stdout", cursor: "1/4"}, "one\ntwo\n", "2/8", "the script of job j runs again: this is the stdout of execution 2\n"},
		{stream{name: "stdout", cursor: "forged"}, "one\ntwo\n", "2/8", ""},
		{stream{name: "stdout", tail: 1}, "two\n", "2/8", ""},
		{stream{name: "stderr"}, "err\n", "2/4", ""},
	} {
		var out bytes.Buffer
		errs.Reset()
		of := tt.of
		if err := c.output(t.Context(), "j", &of, &out); err != nil || out.String() != tt.want || of.cursor != tt.cursor || errs.String() != tt.says || of.of != 2 {
			t.Errorf("%+v: %q at %q of execution %d, %q, %v", tt.of, out.String(), of.cursor, of.of, errs.String(), err)
		}
	}
	for path, want := range map[string]string{"a": "file\n", "@stdout": "one\ntwo\n", "b": "", "../a": ""} {
		var out bytes.Buffer
		if err := c.download(t.Context(), "j", path, &out); (err == nil) != (want != "") || out.String() != want {
			t.Errorf("%s: %q, %v", path, out.String(), err)
		}
	}
	ended := false
	c.runner.end, c.runner.ref = func() { ended = true }, &jobexecv1.ExecutionRef{JobUid: "of-another-user", Execution: 2}
	var out bytes.Buffer
	err := c.output(t.Context(), "j", &stream{name: "stdout"}, &out)
	if err == nil || !strings.Contains(err.Error(), `the ticket is for job "job"`) || out.Len() > 0 || c.runner != nil || !ended {
		t.Errorf("another job: %q, %v; kept %v", out.String(), err, c.runner)
	}
}

// siteOf returns the site of a user of an API server.
func siteOf(w *world.World, user, namespace string) *cluster {
	w.Helper()
	s := command.New(command.Config{Name: "switchyard", Out: io.Discard, Err: io.Discard})
	c, err := command.Client(w.As(user))
	w.Must(err)
	return &cluster{s: s, c: c, namespace: namespace}
}

func TestTheSiteOfAKubeconfig(t *testing.T) {
	w := world.Shared(t)
	one, two := w.NewNamespace("one"), w.NewNamespace("two")
	for ns, names := range map[string][]string{one: {one + "-own", one + "-both"}, two: {one + "-both"}} {
		for _, name := range names {
			w.Make(&crdv1.JobRunnerGroup{}, "metadata: {namespace: "+ns+", name: "+name+"}\nspec: {image: i}")
		}
	}
	all := siteOf(w, "", "")
	for _, tt := range []struct{ namespace, name, want, says string }{
		{"", one + "-own", one, ""}, {two, one + "-both", two, ""},
		{"", one + "-both", "", "choose one with --namespace"}, {"", "none", "", "there is no runner group none"}, {two, one + "-own", "", "in namespace " + two},
	} {
		g, err := siteOf(w, "", tt.namespace).found(t.Context(), tt.name)
		if (err == nil) != (tt.says == "") || err == nil && g.Namespace != tt.want || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s in %q: %v, %v", tt.name, tt.namespace, g, err)
		}
	}
	script := "#!/bin/sh\n"
	submitted, err := all.submit(t.Context(), v2.JobSpec{RunnerGroup: new(one + "-own"), Script: &script})
	w.Must(err)
	j, err := all.object(t.Context(), submitted.Name)
	w.Must(err)
	if of := j.Spec.RunnerGroup; of.Namespace != one || of.Name != one+"-own" || j.Spec.Content.Script != script {
		t.Errorf("submitted: %+v", j.Spec)
	}
	canceled, err := all.cancel(t.Context(), j.Name)
	w.Must(err)
	if now, err := all.object(t.Context(), j.Name); err != nil || !now.Spec.Canceled || canceled.Name != j.Name {
		t.Errorf("%+v, %v", now, err)
	}
	submitted, err = all.submit(t.Context(), v2.JobSpec{RunnerGroup: new(one + "-own"), Script: &script})
	w.Must(err)
	was, err := all.job(t.Context(), submitted.Name)
	w.Must(err)
	j, err = all.object(t.Context(), submitted.Name)
	w.Must(err)
	j.Status.State = &crdv1.JobState{Terminated: &crdv1.JobTerminated{Success: true}}
	w.Must(w.Client.Status().Update(t.Context(), j))
	if now, err := all.changed(t.Context(), was); err != nil || !final(now) {
		t.Errorf("after a change: %+v, %v", now, err)
	}
	if _, err := all.cancel(t.Context(), j.Name); err != nil {
		t.Error(err)
	}
	if w.Get(j); j.Spec.Canceled {
		t.Error("a job that has ended is canceled")
	}
	j.Finalizers = nil // There is no operator that removes it.
	w.Must(w.Client.Update(t.Context(), j))
	w.Remove(j)
	if _, err := all.changed(t.Context(), was); exit.Of(err) != exit.No {
		t.Errorf("a job that is deleted: %v", err)
	}
	w.Grant("ada", one, rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{"signadot.com"}, Resources: []string{"jobrunnergroups"}})
	if _, err := siteOf(w, "ada", "").submit(t.Context(), v2.JobSpec{RunnerGroup: new(one + "-own"), Script: &script}); err == nil || !strings.Contains(err.Error(), "--namespace") {
		t.Errorf("a user without rights in all namespaces: %v", err)
	}
	if _, err := siteOf(w, "ada", one).submit(t.Context(), v2.JobSpec{RunnerGroup: new(one + "-own"), Script: &script}); err == nil || !strings.Contains(err.Error(), "cannot create resource") {
		t.Errorf("a user without the right to create jobs: %v", err)
	}
}

package controlplane

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/controlplane-link/controlplane/jobs"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/registry"
	v2 "switchyard.dev/protos/controlplane/v2"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/client"
)

const podUID = "11111111-2222-3333-4444-555555555555"

// Dial is a jobs.Dial.
func (w *world) Dial(_ context.Context, _ registry.Cluster, _, pod string) (*client.Client, error) {
	if w.runner == nil || pod != podUID {
		return nil, model.ErrUnreachable
	}
	return w.runner.Client()
}

// attached is a client of "job submit --attach": it follows the requests of the published one. A job that is final at the
// first look has no logs.
type attached struct {
	*world
	name string
	// requests are those that it has sent, as METHOD PATH from the job on.
	requests []string
	// printed has the text of each stream, ended the streams that the server has ended after EOF.
	mu      sync.Mutex
	printed map[string]string
	ended   map[string]bool
	cursors map[string]string
}

func newAttached(w *world) *attached {
	return &attached{world: w, printed: map[string]string{}, ended: map[string]bool{}, cursors: map[string]string{}}
}

// submit submits a job with a script.
func (w *world) submit(script string, artifacts ...string) *attached {
	w.Helper()
	in := map[string]any{"namePrefix": "demo-job", "runnerGroup": "demo-jrg", "script": script, "command": nil, "routingContext": map[string]any{"sandbox": "demo-sb"}}
	var files []map[string]any
	for _, path := range artifacts {
		files = append(files, map[string]any{"path": path, "meta": map[string]string{"of": path}})
	}
	in["uploadArtifact"] = files
	a := newAttached(w)
	a.name = a.job("POST", orgPath+"/jobs", string(jsonOf(w.T, map[string]any{"spec": in}))).Name
	return a
}

// job sends a request that a job answers.
func (a *attached) job(method, path, body string) (out v2.Job) {
	a.Helper()
	a.mu.Lock()
	a.requests = append(a.requests, method+" "+strings.TrimPrefix(path, orgPath+"/jobs"))
	a.mu.Unlock()
	got := a.send(method, path, body)
	if err := json.Unmarshal(got.body, &out); err != nil || got.status != http.StatusOK || len(out.Status.Attempts) != 1 || out.Status.Attempts[0].ID != 0 {
		a.Errorf("%s %s: %d %s", method, path, got.status, got.body)
	}
	return out
}

func (a *attached) path() string { return orgPath + "/jobs/" + a.name }

// follow reads the job, and both streams while it runs, until it has ended. It returns the exit code of the client, and the
// message that it prints.
func (a *attached) follow() (exit int, message string) {
	a.Helper()
	for {
		at := a.job("GET", a.path(), "").Status.Attempts[0]
		switch at.Phase {
		case v2.JobsPhaseRunning:
			var both sync.WaitGroup
			for _, stream := range []string{"stdout", "stderr"} {
				both.Go(func() { a.read(stream) })
			}
			both.Wait()
			continue
		case v2.JobsPhaseSucceeded, v2.JobsPhaseCanceled:
			return 0, ""
		case v2.JobsPhaseFailed:
			if exit = 1; at.State.Failed.ExitCode != nil && *at.State.Failed.ExitCode != 0 {
				exit = *at.State.Failed.ExitCode
			}
			return exit, *at.State.Failed.Message
		}
		if wait.For(a.ctx(), 50*time.Millisecond) != nil {
			return 1, "the test has ended"
		}
	}
}

// read reads a stream to its end, from its last cursor on.
func (a *attached) read(stream string) {
	query := url.Values{"type": {stream}}
	a.mu.Lock()
	if c := a.cursors[stream]; c != "" {
		query.Set("cursor", c)
	}
	a.requests = append(a.requests, "GET /"+a.name+"/attempts/0/logs/stream?type="+stream)
	a.mu.Unlock()
	req, err := http.NewRequestWithContext(a.ctx(), http.MethodGet, a.url+a.path()+"/attempts/0/logs/stream?"+query.Encode(), nil)
	if err != nil {
		a.Error(err)
		return
	}
	req.Header.Set("Signadot-Api-Key", a.key)
	req.Header.Set("Accept", "text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		a.Error(err)
		return
	}
	defer res.Body.Close()
	if kind := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || kind != "text/event-stream" {
		a.Errorf("%s: %s, %s", stream, res.Status, kind)
	}
	events(res.Body, func(name, data string) { a.event(stream, name, data) })
}

// events reads server-sent events as the published client does: one without a name is dropped.
func events(from io.Reader, each func(name, data string)) {
	event := ""
	for lines := bufio.NewScanner(from); lines.Scan(); {
		switch name, value, _ := strings.Cut(lines.Text(), ": "); {
		case name == "event":
			event = value
		case name == "data" && event != "":
			each(event, value)
		case name == "":
			event = ""
		}
	}
}

// event takes an event of a stream.
func (a *attached) event(stream, event, data string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var m struct{ Message, Cursor string }
	switch {
	case a.ended[stream]:
		a.Errorf("%s has %s after its end", stream, data)
	case event == "message" && json.Unmarshal([]byte(data), &m) == nil && m.Message != "" && m.Cursor != "":
		a.printed[stream] += m.Message
		a.cursors[stream] = m.Cursor
	case event == "signal" && data == "EOF":
		a.ended[stream] = true
	default:
		a.Errorf("%s: event %q: %s", stream, event, data)
	}
}

// text returns what a stream has had so far.
func (a *attached) text(stream string) (text string, ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.printed[stream], a.ended[stream]
}

// row returns the row of the job.
func (a *attached) row() model.Job {
	a.Helper()
	j, err := jobstore.Store{Store: a.store}.Job(a.ctx(), org, a.name)
	a.must(err)
	return j
}

// object is what the cluster has of the job.
func (a *attached) object() *crdv1.Job {
	return &crdv1.Job{ObjectMeta: metav1.ObjectMeta{Name: a.name, UID: types.UID(a.name)}, Status: crdv1.JobStatus{Execution: &crdv1.JobExecution{Count: 1, PodUID: podUID, Begun: true}}}
}

// observe records a state as the delivery does for that of an object.
func (a *attached) observe(state model.Attempt) {
	a.Helper()
	j, in := a.row(), jobstore.Store{Store: a.store}
	_, err := in.Attempt(a.ctx(), j, a.now)
	a.must(err)
	state.Executions, state.UID, state.PodUID, state.PodName, state.PodNamespace = 1, a.name, podUID, "runner-0", "signadot"
	state.Output, state.StartedAt = crdv1.OutputKept, a.now
	if is, err := in.Observe(a.ctx(), j, state); !is || err != nil {
		a.Fatal(is, err)
	}
}

// run runs a script in the runner. It is recorded as running when it has begun.
func (a *attached) run(script string, artifacts ...string) {
	a.Helper()
	r := &jobexecv1.RunRequest{Ref: &jobexecv1.ExecutionRef{JobUid: a.name, Execution: 1}, JobName: a.name, Script: script}
	for _, path := range artifacts {
		r.Artifacts = append(r.Artifacts, &jobexecv1.ArtifactSpec{Path: path, Meta: map[string]string{"of": path}})
	}
	a.runner.Run(r)
	a.observe(model.Attempt{Phase: model.PhaseRunning})
}

// end records the end of the script, and collects its output and artifacts.
func (a *attached) end(state model.Attempt, artifacts ...string) {
	a.Helper()
	o := a.object()
	for _, path := range artifacts {
		o.Spec.Artifacts = append(o.Spec.Artifacts, crdv1.JobArtifact{Path: path, Meta: map[string]string{"of": path}})
	}
	state.FinishedAt = a.now.Add(time.Second)
	c := &jobs.Collector{Kept: a.kept, Dial: a.Dial}
	wait.Eventually(a, time.Minute, "the output is collected", func() error { return c.Collect(a.ctx(), registry.Cluster{Organisation: org, Name: "demo"}, a.row(), o) })
	a.observe(state)
}

// TestAttachedJobs follows jobs of a real runner with the requests of the recorded sessions. The test records the states
// that the delivery would, and tests of package delivery do the rest.
func TestAttachedJobs(t *testing.T) {
	w := newWorld(t)
	w.runner = runners.New(t, runners.NewAuthority(t))
	w.runner.Start(podUID)
	t.Run("that succeeds, with a late line on stderr", w.attachLate)
	for name, tt := range map[string]struct {
		script  string
		state   model.Attempt
		stdout  string
		exit    int
		message string
	}{
		"that fails":                     {"#!/bin/sh\necho hello\nexit 3\n", model.Attempt{Phase: model.PhaseFailed, ExitCode: new(int32(3)), Message: "The script has failed."}, "hello\n", 3, "The script has failed."},
		"that fails with a lost outcome": {"#!/bin/sh\nprintf hello\n", model.Attempt{Phase: model.PhaseFailed, Message: "Its pod was lost."}, "hello", 1, "Its pod was lost."},
		"that is canceled":               {"#!/bin/sh\necho hello\n", model.Attempt{Phase: model.PhaseCanceled, CanceledBy: model.CanceledByRequest, InCluster: true}, "hello\n", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			of := *w
			of.T = t
			a := of.submit(tt.script)
			a.run(tt.script)
			done := make(chan string, 1)
			go func() {
				exit, message := a.follow()
				done <- fmt.Sprint(exit, " ", message)
			}()
			wait.Eventually(t, time.Minute, "its output", func() error {
				if text, _ := a.text("stdout"); text != tt.stdout {
					return fmt.Errorf("%q", text)
				}
				return nil
			})
			a.end(tt.state)
			if got := <-done; got != fmt.Sprint(tt.exit, " ", tt.message) {
				t.Errorf("the client ends with %s", got)
			}
			if text, _ := a.text("stdout"); text != tt.stdout {
				t.Errorf("stdout is %q", text)
			}
		})
	}
}

// attachLate: no stream ends before both are written, also after the script has closed one, and everything is there afterwards.
func (w *world) attachLate(t *testing.T) {
	of := *w
	of.T = t
	dir := t.TempDir()
	report := filepath.Join(dir, "report.txt")
	script := "#!/bin/sh\necho hello\necho second line\nexec >&-\nwhile ! test -e " + dir + "/go; do sleep 0.05; done\necho a warning >&2\nprintf 'example artifact\\n' >" + report + "\n"
	a := of.submit(script, report)
	if at := a.job("GET", a.path(), "").Status.Attempts[0]; at.Phase != v2.JobsPhaseQueued || *at.State.Queued.Message == "" {
		t.Errorf("it is %+v", at)
	}
	a.run(script, report)
	done := make(chan int, 1)
	go func() { exit, _ := a.follow(); done <- exit }()
	wait.Eventually(t, time.Minute, "its output", func() error {
		if text, _ := a.text("stdout"); text != "hello\nsecond line\n" {
			return fmt.Errorf("%q", text)
		}
		return nil
	})
	_ = wait.For(t.Context(), 300*time.Millisecond) // a stream that ends too early does within that
	if _, ended := a.text("stdout"); ended {
		t.Error("stdout has ended before stderr")
	}
	w.must(os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	a.end(model.Attempt{Phase: model.PhaseSucceeded, ExitCode: new(int32(0))}, report)
	if exit := <-done; exit != 0 {
		t.Errorf("the client ends with %d", exit)
	}
	if text, _ := a.text("stderr"); text != "a warning\n" {
		t.Errorf("stderr is %q", text)
	}
	want := []string{"POST ", "GET /" + a.name, "GET /" + a.name, "GET /" + a.name + "/attempts/0/logs/stream?type=stdout", "GET /" + a.name + "/attempts/0/logs/stream?type=stderr", "GET /" + a.name}
	if len(a.requests) < len(want) {
		t.Errorf("the requests are %q", a.requests)
	}
	// What artifact download and logs read afterwards.
	files := "/artifacts/jobs/" + a.name + "/attempts/0"
	for request, want := range map[string]string{
		files: `"path":"stderr","size":10,"space":"system"`, files + "/objects/?path=" + report: `"metadata":{"of":"` + report + `"}`, files + "/objects/download?space=user&path=" + report: "example artifact",
		files + "/objects/download?space=system&path=stdout": "hello\nsecond line", "/jobs/" + a.name + "/attempts/0/logs/stream?type=stderr": `data: {"message":"a warning\n"`,
		"/jobs/" + a.name + "/attempts/0/logs/stream?type=stdout&tailLines=1": `data: {"message":"second line\n"`,
	} {
		if got := of.send("GET", orgPath+request, ""); got.status != http.StatusOK || !strings.Contains(string(got.body), want) {
			t.Errorf("%s: %d %s, want %s", request, got.status, got.body, want)
		}
	}
}

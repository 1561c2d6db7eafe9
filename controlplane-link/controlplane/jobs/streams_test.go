package jobs_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/controlplane-link/controlplane/jobs"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/registry"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/results"
)

func TestMain(m *testing.M) {
	code := m.Run()
	runners.Clean()
	os.Exit(code)
}

const (
	org    = "acme"
	podUID = "11111111-2222-3333-4444-555555555555"
	jobUID = "j-1"
)

// world is a store with a job, a real runner, and a server of its streams.
type world struct {
	*testing.T
	jobstore.Store
	runner *runners.Runner
	kept   *results.Kept
	job    model.Job
	at     string
	// streams are served at the address.
	streams *jobs.Streams
	// dials counts the attempts to reach the runner.
	dials atomic.Int32
}

func newWorld(t *testing.T) *world {
	w := &world{T: t}
	keys, err := seal.Parse("first " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	w.must(err)
	s, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "store.db"), Keys: keys})
	w.must(err)
	t.Cleanup(func() { _ = s.Close() })
	w.Store = jobstore.Store{Store: s}
	event := func(id string) model.Event { return model.Event{Org: org, ID: id, Type: "test"} }
	w.must(s.CreateOrganisation(t.Context(), model.Organisation{Name: org}, event("1")))
	_, err = w.PutGroup(t.Context(), model.RunnerGroup{Org: org, Name: "tests", Cluster: "demo", Namespace: "shop", Spec: []byte(`{}`)}, event("2"))
	w.must(err)
	w.job, err = w.Submit(t.Context(), model.Job{Org: org, Name: "j", Group: "tests", Spec: []byte(`{}`)}, event("3"))
	w.must(err)
	w.runner = runners.New(t, runners.NewAuthority(t))
	w.runner.Start(podUID)
	w.kept, err = results.Open(results.Config{Folder: t.TempDir()})
	w.must(err)
	t.Cleanup(func() { _ = w.kept.Close() })
	w.streams = &jobs.Streams{Store: w.Store, Keys: keys, Kept: w.kept, Dial: w.Dial}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		tail, _ := strconv.ParseUint(r.URL.Query().Get("tail"), 10, 32)
		serve, err := w.streams.Serve(jobs.Request{Job: w.job, Stream: r.URL.Query().Get("type"), Cursor: r.URL.Query().Get("cursor"), Tail: tail, Reader: "jo"})
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		serve(r.Context(), rw)
	}))
	t.Cleanup(server.Close)
	w.at = server.URL
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Dial is a jobs.Dial.
func (w *world) Dial(_ context.Context, _ registry.Cluster, _, pod string) (*client.Client, error) {
	w.dials.Add(1)
	if pod != podUID {
		return nil, fmt.Errorf("no pod %s", pod)
	}
	return w.runner.Client()
}

var ref = &jobexecv1.ExecutionRef{JobUid: jobUID, Execution: 1}

// run runs a script, which is recorded as running.
func (w *world) run(script string, files ...string) {
	w.Helper()
	r := &jobexecv1.RunRequest{Ref: ref, JobName: "j", Command: []string{"/bin/sh", "-c", script}}
	for _, f := range files {
		r.Artifacts = append(r.Artifacts, &jobexecv1.ArtifactSpec{Path: f})
	}
	w.runner.Run(r)
	w.observe(model.Attempt{Phase: model.PhaseRunning, Executions: 1, UID: jobUID, PodUID: podUID, Output: crdv1.OutputKept})
}

func (w *world) eventually(what string, check func() error) {
	w.Helper()
	wait.Eventually(w, time.Minute, what, check)
}

func (w *world) observe(a model.Attempt) {
	w.Helper()
	if is, err := w.Observe(w.Context(), w.job, a); !is || err != nil {
		w.Fatal(is, err)
	}
}

// collect ends the job, and collects its output.
func (w *world) collect(files ...string) *results.Manifest {
	w.Helper()
	o := &crdv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: types.UID(jobUID)}, Status: crdv1.JobStatus{Execution: &crdv1.JobExecution{Count: 1, PodUID: podUID}}}
	for _, f := range files {
		o.Spec.Artifacts = append(o.Spec.Artifacts, crdv1.JobArtifact{Path: f, Meta: map[string]string{"of": f}})
	}
	w.observe(model.Attempt{Phase: model.PhaseSucceeded, Executions: 1, UID: jobUID, PodUID: podUID, Output: crdv1.OutputKept})
	c := &jobs.Collector{Kept: w.kept, Dial: w.Dial}
	w.eventually("the output is collected", func() error { return c.Collect(w.Context(), registry.Cluster{}, w.job, o) })
	m, err := w.kept.Manifest(w.Context(), org, "j")
	w.must(err)
	return m
}

// read reads a stream until its end, or until it has a text.
func (w *world) read(query, until string) (text, cursor string, signals []string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.at+"?"+query, nil)
	w.must(err)
	answer, err := http.DefaultClient.Do(r)
	w.must(err)
	defer answer.Body.Close() //nolint:errcheck // it was only read
	if answer.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(answer.Body)
		return string(body), "", []string{answer.Status}
	}
	var all strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := answer.Body.Read(buffer)
		all.Write(buffer[:n])
		text, cursor, signals = parsed(w, all.String())
		if until != "" && strings.Contains(text, until) || errors.Is(err, io.EOF) {
			return text, cursor, signals
		}
		w.must(err)
	}
}

// parsed returns the text of events that are complete, the last cursor and the signals and errors.
func parsed(w *world, of string) (text, cursor string, signals []string) {
	blocks := strings.Split(of, "\n\n")
	for _, b := range blocks[:len(blocks)-1] {
		_, data, _ := strings.Cut(b, "data: ")
		switch {
		case strings.Contains(b, "event: message"):
			var e struct{ Message, Cursor string }
			w.must(json.Unmarshal([]byte(data), &e))
			text, cursor = text+e.Message, e.Cursor
		case strings.Contains(b, "event: "):
			signals = append(signals, data)
		}
	}
	return text, cursor, signals
}

// TestStreamsAreLiveAndEndTogether with a real runner: both streams end after the job, and the stored output is the same.
func TestStreamsAreLiveAndEndTogether(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	w.run("echo first; while ! test -e "+dir+"/go; do sleep 0.05; done; echo late >&2; echo data >"+dir+"/report; seq 1 5000", dir+"/report", dir+"/missing")
	if text, cursor, _ := w.read("type=stdout", "first\n"); text != "first\n" || cursor == "" {
		t.Fatalf("%q, %q", text, cursor)
	}
	_, cursor, _ := w.read("type=stdout", "first\n")
	var all sync.WaitGroup
	type end struct {
		text    string
		signals []string
	}
	ends := make([]end, 2)
	for i, of := range []string{"type=stdout&cursor=" + strings.NewReplacer("+", "%2B", "/", "%2F", "=", "%3D").Replace(cursor), "type=stderr"} {
		all.Go(func() { ends[i].text, _, ends[i].signals = w.read(of, "") })
	}
	w.must(os.WriteFile(dir+"/go", nil, 0o600))
	m := w.collect(dir+"/report", dir+"/missing")
	all.Wait()
	for i, e := range ends {
		if len(e.signals) != 1 || e.signals[0] != "EOF" {
			t.Errorf("stream %d ends with %q", i, e.signals)
		}
	}
	if ends[1].text != "late\n" || strings.Contains(ends[0].text, "first") || !strings.HasPrefix(ends[0].text, "1\n2\n") || !strings.HasSuffix(ends[0].text, "\n5000\n") {
		t.Errorf("%.40q, %.40q", ends[0].text, ends[1].text)
	}

	report, missing := m.File(results.User, dir+"/report"), m.File(results.User, dir+"/missing")
	if report == nil || report.Size != 5 || report.Meta["of"] != dir+"/report" || missing == nil || missing.Problem == "" {
		t.Errorf("%+v, %+v", report, missing)
	}
	w.runner.Kill() // the collected output remains
	whole, _, signals := w.read("type=stdout", "")
	if whole != "first\n"+ends[0].text || len(signals) != 1 {
		t.Errorf("stored: %d bytes, %q", len(whole), signals)
	}
	if text, _, _ := w.read("type=stdout&tail=2", ""); text != "4999\n5000\n" {
		t.Errorf("the tail: %q", text)
	}
	if text, _, signals := w.read("type=stderr&cursor=first.AAAA", ""); signals[0] != "400 Bad Request" || !strings.Contains(text, "the cursor is not one of this stream") {
		t.Errorf("a forged cursor: %q, %q", text, signals)
	}
}

// A stream without output has comments while the script runs, so that proxies keep its connection.
func TestASilentStreamHasComments(t *testing.T) {
	w := newWorld(t)
	w.streams.Quiet = time.Millisecond
	w.run("echo first; exec sleep 1000")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.at+"?type=stdout", nil)
	w.must(err)
	answer, err := http.DefaultClient.Do(r)
	w.must(err)
	defer answer.Body.Close() //nolint:errcheck // it was only read
	dials := int32(0)
	for lines, comments := bufio.NewScanner(answer.Body), 0; comments < 3; {
		if !lines.Scan() {
			t.Fatalf("it has ended after %d comments: %v", comments, lines.Err())
		}
		switch {
		case strings.Contains(lines.Text(), "first"):
			dials = w.dials.Load()
		case dials > 0 && lines.Text() == ": no output":
			comments++
		}
	}
	if now := w.dials.Load(); now != dials {
		t.Errorf("the runner is dialled %d times, not %d", now, dials)
	}
}

// deadlines is a response that counts its writes, and those without a deadline.
type deadlines struct {
	*httptest.ResponseRecorder
	set               bool
	writes, unbounded int
}

// SetWriteDeadline is that of a http.ResponseController.
func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.set = !at.IsZero()
	return nil
}

// Flush implements http.Flusher. Writes after it need another deadline.
func (d *deadlines) Flush() { _, _ = d.Write(nil); d.set = false }

// Write implements http.ResponseWriter.
func (d *deadlines) Write(part []byte) (int, error) {
	if d.writes++; !d.set {
		d.unbounded++
	}
	return d.ResponseRecorder.Write(part)
}

// Each write has a deadline, so that a reader that reads nothing does not keep a stream and its runner.
func TestWritesOfAStreamHaveADeadline(t *testing.T) {
	w := newWorld(t)
	w.run("seq 1 5000")
	w.collect()
	serve, err := w.streams.Serve(jobs.Request{Job: w.job, Stream: results.Stdout, Reader: "jo"})
	w.must(err)
	d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	serve(t.Context(), d)
	if text, _, signals := parsed(w, d.Body.String()); !strings.HasSuffix(text, "\n5000\n") || len(signals) != 1 || d.unbounded > 0 || !d.set {
		t.Errorf("of %d writes %d have no deadline, the end has one: %t; %q", d.writes, d.unbounded, d.set, signals)
	}
}

// TestAnotherExecutionRestartsTheStream.
func TestAnotherExecutionRestartsTheStream(t *testing.T) {
	w := newWorld(t)
	w.run("echo first; exec sleep 1000")
	done := make(chan string)
	go func() {
		text, _, signals := w.read("type=stdout", "")
		done <- fmt.Sprint(text, signals)
	}()
	if text, _, _ := w.read("type=stdout", "first\n"); text != "first\n" {
		t.Fatal(text)
	}
	w.runner.Kill()
	w.observe(model.Attempt{Phase: model.PhaseQueued, Executions: 1, Seen: true})
	w.observe(model.Attempt{Phase: model.PhaseFailed, Executions: 2, UID: jobUID, Output: crdv1.OutputLost})
	if got := <-done; !strings.HasPrefix(got, "first\n[RESTART the output of the job was lost") || !strings.HasSuffix(got, "EOF]") {
		t.Errorf("%q", got)
	}
}

// A runner that is not reached is dialled with growing pauses.
func TestARunnerThatIsNotReachedIsDialledSeldom(t *testing.T) {
	w := newWorld(t)
	w.observe(model.Attempt{Phase: model.PhaseRunning, Executions: 1, UID: jobUID, PodUID: "another", Output: crdv1.OutputKept})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.at+"/?type=stdout", nil)
	w.must(err)
	answer, err := http.DefaultClient.Do(r)
	w.must(err)
	_, _ = io.Copy(io.Discard, answer.Body) // until the request ends
	w.must(answer.Body.Close())
	if n := w.dials.Load(); n < 1 || n > 3 {
		t.Errorf("it was dialled %d times in five seconds", n)
	}
}

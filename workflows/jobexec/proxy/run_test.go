package proxy_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/client"
)

const (
	stdout = jobexecv1.LogsRequest_STDOUT
	stderr = jobexecv1.LogsRequest_STDERR
)

func TestAnExecutionIsRunReadAndReleased(t *testing.T) {
	w, c := begin(t)
	r := request("job-1", "echo out $A", "echo err >&2", `echo '{"ok": true}' > report.json`, "exit 3")
	r.Env = []*jobexecv1.Variable{{Name: "A", Value: "b"}}
	r.Artifacts = []*jobexecv1.ArtifactSpec{{Path: "report.json", Meta: map[string]string{"k": "v"}}, {Path: "none"}}
	w.run(c, r)
	end := w.end(c, r.Ref)
	if e := end.GetEnding(); !e.GetKnown() || e.GetExitCode() != 3 || e.GetReason() != "ScriptFailed" || end.GetStartedAt() == nil || end.GetFinishedAt() == nil {
		t.Errorf("it ended with %v", end)
	}
	if out, err := w.logs(c, r.Ref, stdout), w.logs(c, r.Ref, stderr); out != "out b\n" || err != "err\n" || end.GetStdout().GetTotal() != 6 || end.GetStderr().GetTotal() != 4 {
		t.Errorf("%q and %q were printed: %v", out, err, end)
	}
	sum := sha256.Sum256([]byte("{\"ok\": true}\n"))
	if a := end.GetArtifacts(); len(a) != 2 || string(a[0].GetSha256()) != string(sum[:]) || a[0].GetSize() != 13 || a[0].GetContentType() != "application/json" || a[0].GetMeta()["k"] != "v" || a[1].GetProblem() == "" {
		t.Errorf("the artifacts are %v", a)
	}
	for path, want := range map[string]string{"report.json": "{\"ok\": true}\n", "@stdout": "out b\n", "@stderr": "err\n"} {
		var text strings.Builder
		if _, err := c.Artifact(t.Context(), &jobexecv1.ArtifactRequest{Ref: r.Ref, Path: path}, client.To(&text, 0, true)); err != nil || text.String() != want {
			t.Errorf("%s: %q, %v", path, text.String(), err)
		}
	}
	if again, err := c.Run(t.Context(), r); err != nil || again.GetEnding().GetExitCode() != 3 {
		t.Errorf("begun again: %v, %v", again, err)
	}
	if s := w.ready(c); len(s.GetReleased()) != 0 || s.GetFence().GetContainerId() == "" {
		t.Errorf("the runner has %v", s)
	}
	if s, err := c.Release(t.Context(), r.Ref); err != nil || !s.GetReleased() || s.GetEnding().GetExitCode() != 3 {
		t.Errorf("released: %v, %v", s, err)
	}
	if _, err := c.Artifacts(t.Context(), r.Ref); status.Code(err) != codes.NotFound {
		t.Errorf("artifacts of a released execution: %v", err)
	}
	w.proxy.Kill()
	w.startProxy()
	if s := w.ready(c); len(s.GetReleased()) != 1 || s.GetReleased()[0].GetJobUid() != r.Ref.GetJobUid() {
		t.Errorf("the runner has released %v", s)
	}
	if s := w.end(c, r.Ref); !s.GetReleased() || s.GetEnding().GetExitCode() != 3 || len(s.GetArtifacts()) != 2 {
		t.Errorf("after a restart: %v", s)
	}
}

// A request for another pod or another moment begins nothing.
func TestAnExecutionBeginsOnlyWhereItMay(t *testing.T) {
	w, c := begin(t)
	for what, change := range map[string]func(*jobexecv1.RunRequest){
		"OtherPod":   func(r *jobexecv1.RunRequest) { r.Fence.PodUid = "another" },
		"BadRequest": func(r *jobexecv1.RunRequest) { r.Command = []string{"true"} },
		"UID of a Job": func(r *jobexecv1.RunRequest) {
			r.Ref.JobUid = "../../etc"
		},
		"10000 artifacts": func(r *jobexecv1.RunRequest) {
			for range 10_000 {
				r.Artifacts = append(r.Artifacts, &jobexecv1.ArtifactSpec{Path: "x"})
			}
		},
		"a variable has no name": func(r *jobexecv1.RunRequest) { r.Env = []*jobexecv1.Variable{{Value: "x"}} },
	} {
		r := request("refused", "touch $WORLD/begun")
		change(r)
		if _, err := c.Run(t.Context(), r); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	slow := request("slow", "while [ ! -e $WORLD/go ]; do sleep 0.1; done")
	w.run(c, slow)
	if _, err := c.Run(t.Context(), request("next", "touch $WORLD/begun")); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "Busy") {
		t.Errorf("beside another one: %v", err)
	}
	if s, err := c.Run(t.Context(), &jobexecv1.RunRequest{Ref: slow.Ref}); err != nil || s.GetPhase() != jobexecv1.Status_RUNNING {
		t.Errorf("an execution that has begun is refused: %v, %v", s, err)
	}
	w.must(os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o600))
	if end := w.end(c, slow.Ref); !end.GetEnding().GetKnown() || end.GetEnding().GetReason() != "" {
		t.Errorf("it ended with %v", end)
	}
	next := request("next", "exit 7")
	w.run(c, next)
	if end := w.end(c, next.Ref); end.GetEnding().GetExitCode() != 7 {
		t.Errorf("the next ended with %v", end)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "begun")); err == nil {
		t.Error("a refused execution has begun")
	}
	if files, err := os.ReadDir(w.store); err != nil || len(files) != 2 {
		t.Errorf("the store has %v, %v", files, err)
	}
}

func TestAnExecutionIsStopped(t *testing.T) {
	w, c := begin(t)
	r := request("stopped", "echo before", "sleep 1000")
	r.Grace = durationpb.New(time.Second)
	w.run(c, r)
	wait.Holds(t, "it prints", func() bool { return w.logs(c, r.Ref, stdout) != "" })
	if _, err := c.Stop(t.Context(), &jobexecv1.StopRequest{Ref: r.Ref, Cause: jobexecv1.StopRequest_CANCELED}); err != nil {
		t.Fatal(err)
	}
	if end := w.end(c, r.Ref).GetEnding(); !end.GetKnown() || !end.GetCanceled() || end.GetReason() != "Canceled" {
		t.Errorf("it ended with %v", end)
	}
	never := request("never", "touch $WORLD/begun")
	s, err := c.Stop(t.Context(), &jobexecv1.StopRequest{Ref: never.Ref})
	if err != nil || !s.GetEnding().GetCanceled() {
		t.Errorf("stopped before it began: %v, %v", s, err)
	}
	w.run(c, never)
	if end := w.end(c, never.Ref).GetEnding(); !end.GetCanceled() || !end.GetKnown() {
		t.Errorf("begun after it was stopped: %v", end)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "begun")); err == nil {
		t.Error("it has begun")
	}
	timed := request("timed", "sleep 1000")
	timed.Timeout, timed.Grace = durationpb.New(200*time.Millisecond), durationpb.New(time.Second)
	w.run(c, timed)
	if end := w.end(c, timed.Ref).GetEnding(); !end.GetTimedOut() || end.GetReason() != "TimedOut" {
		t.Errorf("it ended with %v", end)
	}
}

// When the pod is terminated, the proxy stays until the controller has received the end of the script.
func TestATerminatedPodReportsTheEnd(t *testing.T) {
	w, c := begin(t)
	w.more = []string{"-linger", "10m"}
	w.proxy.Kill()
	w.startProxy()
	w.ready(c)
	r := request("evicted", "trap 'echo bye; exit 5' TERM", "echo up", "while :; do sleep 0.1; done")
	w.run(c, r)
	wait.Holds(t, "it prints", func() bool { return w.logs(c, r.Ref, stdout) != "" })
	ended := make(chan error)
	go func() { ended <- w.proxy.Terminate(10 * time.Minute) }()
	if err := w.executor.Terminate(time.Minute); err != nil {
		t.Log(err)
	}
	wait.Holds(t, "the result is stored", func() bool {
		_, err := os.Stat(filepath.Join(w.store, "evicted_1", "result"))
		return err == nil
	})
	if _, err := c.Run(t.Context(), request("late", "true")); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("an execution begins in a terminated pod: %v", err)
	}
	time.Sleep(time.Second) // in which it would end
	select {
	case err := <-ended:
		t.Fatalf("the proxy ends before the controller knows: %v", err)
	default:
	}
	if out := w.logs(c, r.Ref, stdout); out != "up\nbye\n" {
		t.Errorf("printed: %q", out)
	}
	if end := w.end(c, r.Ref).GetEnding(); !end.GetKnown() || end.GetReason() != "PodTerminated" {
		t.Errorf("it ended with %v", end)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Readiness is that of the whole: a certificate and an executor.
func TestARunnerIsReadyWithCertificateAndExecutor(t *testing.T) {
	w := newWorld(t)
	w.startProxy()
	readiness := func() (int, error) {
		answer, err := http.Get("http://" + w.health + "/readyz") //nolint:noctx // A test.
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	wait.Holds(t, "it is enrolled", func() bool { w.manager.mu.Lock(); defer w.manager.mu.Unlock(); return w.manager.enrolled > 0 })
	wait.Holds(t, "it is not ready without an executor", func() bool { code, _ := readiness(); return code == http.StatusServiceUnavailable })
	c := w.controller()
	wait.Eventually(t, time.Minute, "the controller reaches it", func() error { _, err := c.Runner(t.Context(), &jobexecv1.RunnerRequest{}); return err })
	if _, err := c.Run(t.Context(), request("early", "true")); status.Code(err) != codes.Unavailable {
		t.Errorf("an execution begins without an executor: %v", err)
	}
	w.startExecutor()
	wait.Holds(t, "it is ready", func() bool { code, _ := readiness(); return code == http.StatusOK })
	w.executor.Kill()
	wait.Holds(t, "it is not ready after the executor", func() bool { code, _ := readiness(); return code == http.StatusServiceUnavailable })
}

// The requests of a script get the routing key, and are counted.
func TestRequestsOfAScriptGetTheKey(t *testing.T) {
	app := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(out, "%s has %s\n", r.URL.Path, r.Header.Get("Baggage"))
	}))
	t.Cleanup(app.Close)
	w := newWorld(t)
	w.executorEnv = []string{"no_proxy=other.test,.svc.cluster.local"}
	w.startExecutor()
	w.startProxy()
	c := w.controller()
	w.ready(c)
	for _, one := range []struct {
		what     string
		routing  *jobexecv1.RoutingContext
		output   string
		with     uint64
		without  uint64
		noCaveat bool
	}{
		{"auto", &jobexecv1.RoutingContext{RoutingKey: "mine", Inject: true}, "/1 has sd-routing-key=mine\n/2 has sd-routing-key=own\n", 2, 0, false},
		{"enabled", &jobexecv1.RoutingContext{RoutingKey: "mine", TrafficManager: true}, "/1 has \n/2 has sd-routing-key=own\n", 1, 1, false},
		{"none", &jobexecv1.RoutingContext{RoutingKey: "mine"}, "/1 has \n/2 has sd-routing-key=own\n", 0, 0, true},
	} {
		r := request(one.what, "curl -s "+app.URL+"/1", "curl -s -H 'baggage: sd-routing-key=own' "+app.URL+"/2")
		r.Routing = one.routing
		w.run(c, r)
		w.end(c, r.Ref)
		w.proxy.Kill() // the counts are stored
		w.startProxy()
		w.ready(c)
		got := w.end(c, r.Ref).GetRouting()
		if out := w.logs(c, r.Ref, stdout); out != one.output || got.GetWithKey() != one.with || got.GetWithoutKey() != one.without {
			t.Errorf("%s: the script printed %q, and the counts are %v", one.what, out, got)
		}
		if strings.Contains(got.GetCaveat(), ".svc.cluster.local") == one.noCaveat {
			t.Errorf("%s: the caveat is %q", one.what, got.GetCaveat())
		}
	}
	if answer, err := http.Get("http://" + w.routing); err != nil || answer.StatusCode != http.StatusServiceUnavailable { //nolint:noctx,bodyclose // A test.
		t.Errorf("without a job, the proxy responds with %v, %v", answer, err)
	}
}

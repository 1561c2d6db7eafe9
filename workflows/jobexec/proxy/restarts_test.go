package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/socket"
)

// relay is between the proxy and its executor.
type relay struct {
	path string
	// cut makes responses with output fail, and failed counts them; ended counts the responses that report an end.
	cut           atomic.Bool
	failed, ended atomic.Int64
}

// relayed starts both, with a relay between them.
func relayed(w *world) *relay {
	r := &relay{path: filepath.Join(w.dir, "relay")}
	to := filepath.Join(w.volume, "run/executor.sock")
	const end = "Relay-End"
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "executor"})
	forward.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", to)
	}}
	forward.ModifyResponse = func(answer *http.Response) error {
		if strings.HasSuffix(answer.Request.URL.Path, "/stdout") || strings.HasSuffix(answer.Request.URL.Path, "/stderr") {
			if r.cut.Load() {
				return errors.New("output is cut")
			}
			return nil
		}
		text, err := io.ReadAll(answer.Body)
		if bytes.Contains(text, []byte(`"phase":"`+socket.PhaseTerminated)) {
			answer.Header.Set(end, "true")
		}
		answer.Body = io.NopCloser(bytes.NewReader(text))
		return err
	}
	forward.ErrorHandler = func(to http.ResponseWriter, _ *http.Request, _ error) {
		r.failed.Add(1)
		to.WriteHeader(http.StatusBadGateway)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(to http.ResponseWriter, q *http.Request) {
		forward.ServeHTTP(to, q)
		if to.Header().Get(end) != "" && http.NewResponseController(to).Flush() == nil && strings.Contains(q.URL.RawQuery, "after=") {
			r.ended.Add(1)
		}
	})}
	l, err := net.Listen("unix", r.path)
	w.must(err)
	go func() { _ = server.Serve(l) }()
	w.Cleanup(func() { _ = server.Close() })
	w.more = append(w.more, "-socket", r.path)
	w.startExecutor()
	w.startProxy()
	return r
}

// An ending that is known stays known when the main container is restarted before the rest of the output was read. The
// loss is stated.
func TestAKnownEndingOutlivesItsOutput(t *testing.T) {
	w := newWorld(t)
	between, c := relayed(w), w.controller()
	w.ready(c)
	r := request("job", "echo one", "while [ ! -e $WORLD/go ]; do sleep 0.05; done", "echo two")
	w.run(c, r)
	wait.Holds(t, "the first line is stored", func() bool { return w.logs(c, r.Ref, stdout) == "one\n" })
	between.cut.Store(true)
	w.must(os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o600))
	wait.Holds(t, "the proxy knows the end", func() bool { return between.ended.Load() > 0 })
	w.executor.Kill()
	w.startExecutor()
	failed := between.failed.Load()
	wait.Holds(t, "the proxy has tried to read more", func() bool { return between.failed.Load() > failed+4 })
	between.cut.Store(false)
	end := w.end(c, r.Ref)
	if e := end.GetEnding(); !e.GetKnown() || e.GetReason() != "" || e.GetExitCode() != 0 || !strings.Contains(e.GetMessage(), "the rest is lost") || end.GetFinishedAt() == nil {
		t.Errorf("it ended with %v", end)
	}
	if out := w.logs(c, r.Ref, stdout); !strings.HasPrefix(out, "one\n") || strings.Contains(out, "two") {
		t.Errorf("printed: %q", out)
	}
	w.ready(c)
}

// Output that was deleted for an execution is reported by it, also after a restart while it runs, and by later ones.
func TestDeletedOutputIsReportedAfterARestart(t *testing.T) {
	w, c := begin(t)
	waits := "while [ ! -e $WORLD/go-%s ]; do sleep 0.05; done"
	goes := func(job string) { w.must(os.WriteFile(filepath.Join(w.dir, "go-"+job), nil, 0o600)) }
	first, second, third := request("first", fmt.Sprintf(waits, "first")), request("second", fmt.Sprintf(waits, "second")), request("third", "exit 0")
	w.run(c, first)
	large := filepath.Join(w.store, "first_1", "files", "0")
	w.must(errors.Join(os.MkdirAll(filepath.Dir(large), 0o700), os.WriteFile(large, nil, 0o600), os.Truncate(large, 3*layout.StreamBytes*layout.KeptExecutions)))
	goes("first")
	w.end(c, first.Ref)
	w.run(c, second)
	w.proxy.Kill()
	w.startProxy()
	w.ready(c)
	goes("second")
	for _, r := range []*jobexecv1.RunRequest{second, third} {
		w.run(c, r)
		if drops := w.end(c, r.Ref).GetDrops(); len(drops) != 1 || drops[0].GetJobUid() != "first" {
			t.Errorf("%s reports %v", r.GetJobName(), drops)
		}
	}
	if s := w.end(c, first.Ref); s.GetDropped() == "" {
		t.Errorf("the first has %v", s)
	}
}

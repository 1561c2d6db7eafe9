package proxy_test

import (
	"bytes"
	"context"
	"errors"
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

	"switchyard.dev/tools/wait"
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

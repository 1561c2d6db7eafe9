package captures_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
)

// screen is the output of a command that runs.
type screen struct {
	mu sync.Mutex
	bytes.Buffer
}

// Write implements io.Writer.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(b)
}

// shows returns an error until a text was printed.
func (s *screen) shows(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !strings.Contains(s.String(), text) {
		return fmt.Errorf("it has printed %s", s.String())
	}
	return nil
}

// command begins the command line with the key of ada, and returns its output and its end.
func (s *site) command(ctx context.Context, args ...string) (*screen, <-chan exit.Code) {
	out, ended := &screen{}, make(chan exit.Code, 1)
	env := map[string]string{"SIGNADOT_API_KEY": ada}
	args = append(args, "--control-plane", "https://"+s.main.Listeners["api"].Addr().String(), "--control-plane-ca", filepath.Join(s.dir, trust.BundleFile))
	go func() {
		ended <- switchyard.Main(ctx, command.Config{Name: "switchyard", In: strings.NewReader(""), Out: out, Err: out, Getenv: func(name string) string { return env[name] }}, args)
	}()
	return out, ended
}

// commandLine: `switchyard traffic record` has the control plane record, and downloads the archive.
func (s *site) commandLine(t *testing.T) {
	t.Helper()
	s.does(http.MethodPut, "sandboxes/"+s.Namespace, fmt.Sprintf(`{"name": %q, "spec": {"cluster": "prod", "forks": [{"forkOf": {"kind": "Deployment", "namespace": %q, "name": "cart"}, "customizations": {"env": [{"name": "A", "value": "b"}]}}]}}`, s.Namespace, s.Namespace), nil)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	har := filepath.Join(t.TempDir(), "out.har")
	out, ended := s.command(ctx, "traffic", "record", "--sandbox", s.Namespace, "--workload", "cart", "--har", har)
	in := s.Created()
	s.Attached(in, "True", "every request is recorded")
	s.Eventually("it records", func() error { return out.shows("recording") })
	s.Deliver("one", in, 3, 1, 2)
	s.Eventually("the requests are printed", func() error { return out.shows("/2 ") })
	interrupt()
	s.Detached(in)
	if code := <-ended; code != exit.OK {
		t.Errorf("exit code %d: %s", code, out)
	}
	if err := out.shows("3 seen = 2 stored + 0 sampled out + 0 evicted + 1 lost (memory 1); 2 are kept by the control plane"); err != nil || strings.Count(out.String(), "/1 ") != 1 {
		t.Error(err)
	}
	var archive struct{ Log struct{ Entries []any } }
	text, err := os.ReadFile(har)
	s.Must(err)
	if s.Must(json.Unmarshal(text, &archive)); len(archive.Log.Entries) != 2 {
		t.Errorf("the archive is %s", text)
	}

	out, ended = s.command(t.Context(), "traffic", "record", "--sandbox", s.Namespace, "--workload", "search")
	if code := <-ended; code != exit.No || out.shows("and none of search") != nil {
		t.Errorf("exit code %d: %s", code, out)
	}
	out, ended = s.command(t.Context(), "traffic", "record", "--sandbox", s.Namespace, "--out-dir", t.TempDir())
	if code := <-ended; code != exit.Usage || out.shows("needs a kubeconfig") != nil {
		t.Errorf("exit code %d: %s", code, out)
	}
}

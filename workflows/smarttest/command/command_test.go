package command_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/workflows/jobexec/routing"
	"switchyard.dev/workflows/smarttest"
	"switchyard.dev/workflows/smarttest/child"
	"switchyard.dev/workflows/smarttest/command"
	"switchyard.dev/xds/routingkey"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == command.Interpret {
		if err := child.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// document is what the program prints.
type document struct {
	Tests []smarttest.Result `json:"tests"`
	// Passed can be missing.
	Passed *bool `json:"passed"`
}

// run runs the program on scripts, by their names, in a folder.
func run(ctx context.Context, t *testing.T, scripts map[string]string, proxy string, args ...string) (document, int, string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name+".star"), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	m := command.Main{Executable: self, Stdout: &stdout, Stderr: &stderr, Getenv: func(name string) string { return map[string]string{"http_proxy": proxy}[name] }}
	code := m.Run(ctx, append(args, dir))
	var out document
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil && stdout.Len() > 0 {
		t.Fatalf("%v: %s", err, stdout.String())
	}
	return out, code, stderr.String()
}

const passes, fails, breaks = `smart_test.check("a")`, `smart_test.check("a").error("b")`, `{}["x"]`

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		scripts map[string]string
		want    int
	}{
		{map[string]string{"a": passes, "b": passes}, command.Passed},
		{map[string]string{"a": fails, "b": passes}, command.Failed},
		{map[string]string{"a": breaks, "b": fails, "c": passes}, command.Ended},
		{map[string]string{"a": fails, "b": breaks}, command.Ended},
		{nil, command.CannotRun},
	} {
		out, code, _ := run(t.Context(), t, c.scripts, "")
		if code != c.want || len(out.Tests) != len(c.scripts) {
			t.Errorf("%v: code %d, %d results", c.scripts, code, len(out.Tests))
		}
		for i, r := range out.Tests {
			script := c.scripts[strings.TrimSuffix(filepath.Base(r.Path), ".star")]
			if r.Passed != (script == passes) || (r.Reason == smarttest.Completed) != (script != breaks) || filepath.Base(r.Path) != string(rune('a'+i))+".star" {
				t.Errorf("%+v", r)
			}
		}
		if len(out.Tests) > 0 && *out.Passed != (code == command.Passed) {
			t.Errorf("%v: %+v", c.scripts, out)
		}
	}
}

func TestWrongArgumentsAreNamed(t *testing.T) {
	one, two := map[string]string{"a": passes}, map[string]string{"a": passes, "b": passes}
	for _, c := range []struct {
		scripts map[string]string
		proxy   string
		args    []string
		want    string
	}{
		{one, "", []string{"-timeout", "0s"}, "limits are positive"},
		{one, "", []string{"-allow", "localhost:80"}, "-allow"},
		{one, "", []string{"-traces", "0123456789ABCDEF"}, "16 hexadecimal digits"},
		{one, "", []string{"-unknown"}, "-unknown"},
		{one, "socks5://127.0.0.1:1", nil, "http://HOST:PORT"},
		{two, "", []string{"-name", "x"}, "-name is for one test, and 2 are found"},
		{nil, "", nil, "no *.star file is found"},
	} {
		if _, code, text := run(t.Context(), t, c.scripts, c.proxy, c.args...); code != command.CannotRun || !strings.Contains(text, c.want) {
			t.Errorf("%v: code %d: %s", c.args, code, text)
		}
	}
	if out, code, text := run(t.Context(), t, one, "", "-name", "repo/a"); code != command.Passed || out.Tests[0].Name != "repo/a" || !strings.Contains(text, "repo/a passed Completed") {
		t.Errorf("code %d: %+v %s", code, out, text)
	}
}

func TestACanceledRunStillHasAResultForEachTest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer s.Close()
	waits := fmt.Sprintf("smart_test.check(\"before\").error(\"kept\")\nhttp.get(%q)", s.URL)
	out, code, _ := run(ctx, t, map[string]string{"a": waits, "b": passes}, "", "-allow", s.Listener.Addr().String())
	if code != command.Ended || len(out.Tests) != 2 || out.Tests[0].Reason != smarttest.Canceled || out.Tests[1].Reason == smarttest.Completed || len(out.Tests[0].Checks) != 1 {
		t.Errorf("code %d: %+v", code, out)
	}
}

func TestCallsOfASandboxCarryItsKeyThroughTheProxyOfJobs(t *testing.T) {
	var (
		mu   sync.Mutex
		keys []string
		host string
	)
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		keys, host = append(keys, routingkey.Of(r.Header.Values, nil)), r.Host
		if r.URL.Path == "/metadata" {
			http.Redirect(out, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
			return
		}
		_, _ = io.WriteString(out, "ok")
	}))
	defer s.Close()
	proxy, err := routing.New(routing.Config{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	background.Run(t, proxy.Run)
	e := proxy.Begin(&jobexecv1.RunRequest{Routing: &jobexecv1.RoutingContext{Inject: true, RoutingKey: "key-of-the-sandbox"}}, nil, false)
	defer proxy.End(e)
	script := fmt.Sprintf("ck = smart_test.check(\"ok\")\nif http.get(%q).body() != \"ok\":\n    ck.error(\"no\")\n", s.URL)
	at := func(address string) string {
		return fmt.Sprintf("http.try_get(%q)\nprint(\"the test goes on\")", address)
	}
	out, code, text := run(t.Context(), t, map[string]string{"a": script, "b": at(s.URL + "/metadata"), "c": at("http://" + proxy.Address()), "d": at("http://169.254.169.254/")},
		"http://"+proxy.Address(), "-allow", s.Listener.Addr().String())
	if code != command.Ended || len(out.Tests) != 4 || !out.Tests[0].Passed {
		t.Fatalf("code %d: %s", code, text)
	}
	for _, r := range out.Tests[1:] {
		if r.Reason != smarttest.AddressRefused || r.Output != "" {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(keys) != 2 || keys[0] != "key-of-the-sandbox" || keys[1] != keys[0] || host != s.Listener.Addr().String() {
		t.Errorf("keys %q, host %q", keys, host)
	}
	if n := e.Count(); n.GetWithKey() != 2 || n.GetWithoutKey() != 0 {
		t.Errorf("the proxy counted %v", n)
	}
}

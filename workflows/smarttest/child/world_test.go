package child_test

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"switchyard.dev/tests/process"
	"switchyard.dev/workflows/smarttest"
	"switchyard.dev/workflows/smarttest/child"
)

// program is the path of smart-test.
var program string

func TestMain(m *testing.M) {
	if process.Role() == "parent" {
		debug.SetGCPercent(100) // whatever the variables of the test are
		if err := process.Answer(parent{}); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "smart-test")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a folder of the test
		program = filepath.Join(dir, "smart-test")
		cmd := exec.Command("go", "build", "-trimpath", "-o", program, "switchyard.dev/workflows/cmd/smart-test") //nolint:noctx // it ends
		if text, err := cmd.CombinedOutput(); err != nil {
			panic(fmt.Sprintf("%v: %s", err, text))
		}
		return m.Run()
	}())
}

// parent runs tests in a process that does nothing else, so that its memory is that of the product.
type parent struct{}

// Job is a test, and how it runs.
type Job struct {
	Runner child.Runner
	Test   smarttest.Test
}

// Run runs a test.
func (parent) Run(in Job, out *smarttest.Result) error {
	*out = *in.Runner.Run(context.Background(), in.Test)
	return nil
}

// startParent returns a function that runs tests in the parent, and one that returns its largest memory, in MiB.
func startParent(t *testing.T) (run func(child.Runner, smarttest.Test) *smarttest.Result, memory func() float64) {
	t.Helper()
	p, err := process.Start("parent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	run = func(r child.Runner, test smarttest.Test) *smarttest.Result {
		out := &smarttest.Result{}
		if err := p.Call("Run", Job{Runner: r, Test: test}, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	return run, func() float64 {
		_, most, err := p.Memory()
		if err != nil {
			t.Fatal(err)
		}
		return most
	}
}

// server is a server with hostile answers, and a listener that counts connections.
type server struct {
	url, port string
	allowed   netip.AddrPort
	requests  func() []*http.Request
}

func serve(t *testing.T) server {
	t.Helper()
	var seen = make(chan *http.Request, 100_000)
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		select {
		case seen <- r:
		default:
		}
		answer(out, r)
	}))
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return server{url: s.URL, port: port, allowed: netip.MustParseAddrPort(s.Listener.Addr().String()), requests: func() (all []*http.Request) {
		for {
			select {
			case r := <-seen:
				all = append(all, r)
			default:
				return all
			}
		}
	}}
}

// answer answers as the path demands.
func answer(out http.ResponseWriter, r *http.Request) {
	n, _ := strconv.ParseInt(r.URL.Query().Get("n"), 10, 64) // 0 without
	switch r.URL.Path {
	case "/bytes":
		_, _ = io.CopyN(out, endless{}, n) // the client goes
	case "/zip":
		out.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(out)
		_, _ = io.CopyN(z, endless{}, n) // the client goes
		_ = z.Close()
	case "/headers":
		out.Header().Set("X-Large", strings.Repeat("x", int(n)))
	case "/slow":
		for r.Context().Err() == nil {
			if _, err := io.WriteString(out, "x"); err != nil {
				return
			}
			_ = http.NewResponseController(out).Flush()
		}
	case "/silent":
		<-r.Context().Done()
	case "/redirect":
		to := r.URL.Query().Get("to")
		if to == "loop" {
			to = r.URL.RequestURI()
		}
		http.Redirect(out, r, to, http.StatusFound)
	case "/secret":
		out.Header().Set("Set-Cookie", "canary-response")
		out.Header().Set("X-Elided", "canary-response")
		out.Header().Set("X-Kept", "kept")
		_, _ = io.WriteString(out, `{"name": "jane", "size": 10}`)
	default:
		http.NotFound(out, r)
	}
}

// endless reads zeros.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(b []byte) (int, error) { return len(b), nil }

// limits are those of a test here: enough time for a busy machine, and little of all else.
func limits() smarttest.Limits {
	l := smarttest.Defaults()
	l.Memory, l.Steps, l.Answer, l.Report = 128<<20, 5_000_000, 8<<20, 512<<10
	return l
}

func runner(s server) child.Runner {
	return child.Runner{Command: []string{program, "interpret"}, Settings: smarttest.Settings{Limits: limits(), Allowed: []netip.AddrPort{s.allowed}}}
}

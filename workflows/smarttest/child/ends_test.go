package child_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/smarttest"
	"switchyard.dev/workflows/smarttest/child"
)

// patience is the time for a condition on a busy machine.
const patience = 2 * time.Minute

// waiting is a test that reports a check, makes a call, and then is in a step that does not end.
func waiting(s server) smarttest.Test {
	return smarttest.Test{Name: "waiting", Script: fmt.Sprintf("smart_test.check(\"before\").error(\"kept\")\nhttp.get(%q)\nmax(range(1 << 45))", s.url+"/bytes?n=1")}
}

// interpreter waits for the call of the test, and returns the process that runs it.
func interpreter(t *testing.T, s server, of int) (pid int) {
	t.Helper()
	wait.Eventually(t, patience, "the test makes its call", func() error {
		if len(s.requests()) == 0 {
			return fmt.Errorf("no request")
		}
		return nil
	})
	for _, pid := range process.Children(of) {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.HasSuffix(string(line), "\x00interpret\x00") {
			return pid
		}
	}
	t.Fatalf("process %d runs no interpreter", of)
	return 0
}

func TestAnInterpreterThatTheKernelKillsIsOutOfMemory(t *testing.T) {
	s := serve(t)
	r := runner(s)
	ended := make(chan *smarttest.Result, 1)
	go func() { ended <- r.Run(t.Context(), waiting(s)) }()
	if err := syscall.Kill(interpreter(t, s, os.Getpid()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	result := <-ended
	if result.Reason != smarttest.OutOfMemory || !strings.Contains(result.Message, "the kernel has killed") || len(result.Checks) != 1 || result.Passed {
		t.Errorf("%+v", result)
	}
}

func TestACanceledTestKeepsItsReports(t *testing.T) {
	s := serve(t)
	r := runner(s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan *smarttest.Result, 1)
	go func() { ended <- r.Run(ctx, waiting(s)) }()
	interpreter(t, s, os.Getpid())
	cancel()
	if result := <-ended; result.Reason != smarttest.Canceled || len(result.Checks) != 1 || result.Checks[0].Errors[0].Message != "kept" {
		t.Errorf("%+v", result)
	}
}

func TestAnInterpreterEndsWithItsParent(t *testing.T) {
	s := serve(t)
	p, err := process.Start("parent")
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan error, 1)
	go func() { called <- p.Call("Run", Job{Runner: runner(s), Test: waiting(s)}, &smarttest.Result{}) }()
	pid := interpreter(t, s, p.ID())
	p.Kill()
	if err := <-called; err == nil {
		t.Error("the parent has answered")
	}
	wait.Eventually(t, patience, "the interpreter ends", func() error {
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && len(line) > 0 {
			return fmt.Errorf("process %d runs", pid)
		}
		return nil
	})
}

func TestAProgramThatIsNoInterpreterHasCrashed(t *testing.T) {
	for command, want := range map[string]string{
		"/no/such/program":   "the interpreter cannot be run: fork/exec /no/such/program",
		"true":               "without a result (<nil>)",
		"echo x >&2; exit 7": "without a result (exit status 7): x",
		"echo nonsense":      "without a result (<nil>)",
		"kill -TERM $$":      "signal: terminated",
	} {
		r := child.Runner{Command: []string{"/bin/sh", "-c", command}, Settings: smarttest.Settings{Limits: limits()}}
		if strings.HasPrefix(command, "/") {
			r.Command = []string{command}
		}
		if result := r.Run(t.Context(), smarttest.Test{Name: "a"}); result.Reason != smarttest.Crashed || !strings.Contains(result.Message, want) {
			t.Errorf("%s: %+v", command, result)
		}
	}
}

// TestReportsOfAProgramAreBounded: the parent reads a limited part of them, whatever the process is.
func TestReportsOfAProgramAreBounded(t *testing.T) {
	r := child.Runner{Command: []string{"/bin/sh", "-c", `yes '{"output":"x"}'`}, Settings: smarttest.Settings{Limits: limits()}}
	r.Limits.Timeout = time.Second
	result := r.Run(t.Context(), smarttest.Test{Name: "a"})
	if result.Reason != smarttest.TimedOut || len(result.Output) > r.Limits.Report+2<<20 {
		t.Errorf("%s, %d bytes", result.Reason, len(result.Output))
	}
}

package child

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"switchyard.dev/workflows/smarttest"
)

// Runner runs tests, one after the other.
type Runner struct {
	smarttest.Settings
	// Command is the program and the arguments of the process that calls Serve.
	Command []string
}

const (
	// grace is the time of the process, after that of the test, to end by itself.
	grace = time.Second
	// framing is the size of reports beyond their limit: the last one has the end, and is not counted.
	framing = 1 << 20
	// maxErrors bounds the standard error that is kept, in bytes.
	maxErrors = 8 << 10
)

// Run runs a test. ctx ends it.
func (r *Runner) Run(ctx context.Context, t smarttest.Test) *smarttest.Result {
	out := smarttest.ResultOf(t)
	if len(t.Script) > smarttest.MaxScript {
		out.Add(ended(smarttest.ScriptTooLarge, "the script has more than %d bytes", smarttest.MaxScript))
		return out
	}
	request, err := json.Marshal(smarttest.Request{Settings: r.Settings, Name: t.Name, Script: t.Script})
	if err == nil {
		err = r.process(ctx, request, out)
	}
	if err != nil {
		out.Add(ended(smarttest.Crashed, "the interpreter cannot be run: %v", err))
	}
	return out
}

func ended(reason smarttest.Reason, format string, args ...any) smarttest.Event {
	return smarttest.Event{End: &smarttest.End{Reason: reason, Message: smarttest.Cut(fmt.Sprintf(format, args...))}}
}

// process runs the process, and adds its reports and its end to a result.
func (r *Runner) process(ctx context.Context, request []byte, out *smarttest.Result) error {
	inTime, cancel := context.WithTimeout(ctx, r.Limits.Timeout+grace)
	defer cancel()
	cmd := exec.CommandContext(inTime, r.Command[0], r.Command[1:]...)
	failure := &head{fatal: cancel}
	cmd.Env, cmd.Stderr, cmd.WaitDelay = []string{"GOTRACEBACK=none"}, failure, grace
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close() // it stays open while the process runs, which ends with it
	reports, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _, _ = in.Write(request) }() // the process ends if it gets none
	for read := json.NewDecoder(io.LimitReader(reports, int64(r.Limits.Report+framing))); out.Reason == ""; {
		var e smarttest.Event
		if read.Decode(&e) != nil {
			break
		}
		out.Add(e)
	}
	_, _ = io.Copy(io.Discard, reports) // until it ends
	err = cmd.Wait()
	if usage, is := cmd.ProcessState.SysUsage().(*syscall.Rusage); is {
		out.PeakMemory = usage.Maxrss << 10
	}
	if out.Reason == "" {
		out.Add(end(ctx, inTime, err, failure.String(), r.Limits))
	}
	return nil
}

// head keeps the beginning of a standard error. A process with a fatal error can hang instead of ending, so it is killed.
type head struct {
	bytes.Buffer
	fatal func()
}

// Write implements io.Writer.
func (h *head) Write(b []byte) (int, error) {
	h.Buffer.Write(b[:min(len(b), maxErrors-h.Len())])
	if _, after, fatal := strings.Cut(h.String(), "fatal error: "); fatal && strings.Contains(after, "\n") {
		h.fatal()
	}
	return len(b), nil
}

// end returns the end of a process that has not reported one: err is that of Wait, and text its standard error.
func end(ctx, inTime context.Context, err error, text string, l smarttest.Limits) smarttest.Event {
	has := func(marks ...string) (found bool) {
		for _, mark := range marks {
			found = found || strings.Contains(text, mark)
		}
		return found
	}
	exit, killed := err.(*exec.ExitError) //nolint:errorlint // as Wait returns it
	if killed {
		status, is := exit.Sys().(syscall.WaitStatus)
		killed = is && status.Signaled() && status.Signal() == syscall.SIGKILL
	}
	switch {
	case has("out of memory", "cannot allocate memory", "failed to create new OS thread"):
		return ended(smarttest.OutOfMemory, "the script needs more than %d MiB of memory", l.Memory>>20)
	case has("stack exceeds", "stack overflow"):
		return ended(smarttest.TooDeep, "the script or its data is nested too deeply: the stack has more than %d MiB", maxStack>>20)
	case ctx.Err() != nil:
		return ended(smarttest.Canceled, "the run was canceled")
	case inTime.Err() != nil:
		return ended(smarttest.TimedOut, "the test ran for longer than %s, and did not end by itself", l.Timeout)
	case killed:
		return ended(smarttest.OutOfMemory, "the kernel has killed the interpreter, as it does when the container has no more memory")
	}
	return ended(smarttest.Crashed, "the interpreter has ended without a result (%v): %s", err, text)
}

package executor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"switchyard.dev/eventbus/wake"
	"switchyard.dev/workflows/jobexec/socket"
	"switchyard.dev/workflows/script"
)

// executor runs one execution at a time. It is safe for concurrent use.
type executor struct {
	volume   volume
	environ  []string
	instance string
	procs    *processes
	log      func(format string, args ...any)
	// restore restores the socket and the folders, which a script can have changed. It is set before anything begins.
	restore func()

	mu      sync.Mutex
	changed wake.Signal
	current *execution
	// stopping reports whether the pod is being terminated, leftover whether there are processes of an earlier execution.
	stopping, leftover bool
}

func newExecutor(v volume, environ []string, log func(string, ...any)) (*executor, error) {
	procs, err := newProcesses()
	if err != nil {
		return nil, err
	}
	return &executor{volume: v, environ: environ, instance: rand.Text(), procs: procs, log: log}, nil
}

// state returns the state of the executor.
func (e *executor) state() socket.Executor {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := socket.Executor{Instance: e.instance, Problem: e.problem()}
	for _, v := range e.environ {
		if name, value, _ := strings.Cut(v, "="); strings.EqualFold(name, "no_proxy") && value != "" {
			s.NoProxy = append(s.NoProxy, value)
		}
	}
	if e.current != nil {
		now := e.current.now()
		s.Current = &now
	}
	return s
}

// problem returns why nothing can begin, apart from another execution; nil: it can.
func (e *executor) problem() *socket.Refusal {
	switch {
	case e.stopping:
		return refusal(socket.Stopping, "the pod is being terminated, and begins no execution")
	case e.leftover:
		return refusal(socket.Leftover, "processes of an earlier execution cannot be killed: replace the pod")
	}
	return nil
}

func refusal(reason, format string, args ...any) *socket.Refusal {
	return &socket.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// is reports whether an error is a refusal with a reason.
func is(err error, reason string) bool {
	why, is := errors.AsType[*socket.Refusal](err)
	return is && why.Reason == reason
}

// known returns the execution of a name, if it is the current one; else the status of one that was stopped before it
// began, or why there is none.
func (e *executor) known(ref socket.Ref) (*execution, socket.Status, error) {
	if e.current != nil && e.current.now().Ref == ref {
		return e.current, e.current.now(), nil
	}
	stopped, err := e.volume.stopped(ref)
	if err != nil {
		return nil, socket.Status{}, err
	}
	if !stopped {
		return nil, socket.Status{}, refusal(socket.Lost, "execution %d of job %s has begun here, and its outcome is unknown", ref.Execution, ref.Job)
	}
	return nil, socket.Status{Ref: ref, Phase: socket.PhaseTerminated, Version: 1, Stopped: true, Stdout: socket.Extent{Ended: true}, Stderr: socket.Extent{Ended: true},
		Ending: &socket.Ending{Canceled: true, Reason: socket.Canceled, Message: "the job was canceled before its script began"}}, nil
}

// begin begins an execution, or returns the status of that one if it has begun.
func (e *executor) begin(ref socket.Ref, r socket.Request) (socket.Status, error) {
	if why := invalid(r); why != "" {
		return socket.Status{}, refusal(socket.BadRequest, "the execution cannot begin: %s", why)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, s, err := e.known(ref)
	if !is(err, socket.NotBegun) {
		return s, err
	}
	if why := e.problem(); why != nil {
		return s, why
	}
	if e.current != nil {
		other := e.current.now().Ref
		return s, refusal(socket.Busy, "execution %d of job %s runs here, or was not deleted yet", other.Execution, other.Job)
	}
	record, err := e.volume.begin(ref, r.Script)
	if err != nil {
		return s, err
	}
	e.current = newExecution(e.procs, e.restore, ref, r, record)
	e.log("execution %d of job %s begins", ref.Execution, ref.Job)
	go e.run(e.current)
	return e.current.now(), nil
}

// invalid returns why a request is not valid.
func invalid(r socket.Request) string {
	switch {
	case (r.Script == "") == (len(r.Command) == 0):
		return "it has neither a script nor a command, or both"
	case len(r.Command) > 0 && r.Command[0] == "", strings.Contains(strings.Join(r.Command, ""), "\x00"):
		return "its command has no program, or a NUL byte"
	case slices.ContainsFunc(r.Env, func(v socket.Variable) bool {
		return v.Name == "" || strings.ContainsAny(v.Name, "=\x00") || strings.Contains(v.Value, "\x00")
	}):
		return `a variable has no name, one with "=", or a NUL byte`
	}
	return ""
}

// run runs an execution.
func (e *executor) run(x *execution) {
	if command, wrong := e.command(x.request); wrong != nil {
		x.unstarted(*wrong)
	} else {
		x.run(command)
	}
	end := x.now()
	e.log("execution %d of job %s has ended: exit code %d %s %s", end.Execution, end.Job, end.Ending.ExitCode, end.Ending.Reason, end.Ending.Message)
}

// command returns the command of a request, or why it cannot start.
func (e *executor) command(r socket.Request) (command *exec.Cmd, wrong *script.Ending) {
	environ := slices.Clone(e.environ)
	for _, v := range r.Env {
		environ = append(environ, v.Name+"="+v.Value)
	}
	if r.Script != "" {
		command, wrong = script.Script(e.volume.script(), environ)
	} else {
		command, wrong = script.Program(r.Command, environ)
	}
	if wrong == nil {
		command.Dir = home(e.environ)
	}
	return command, wrong
}

// stop ends an execution. One that has not begun never begins.
func (e *executor) stop(ref socket.Ref) (socket.Status, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, s, err := e.known(ref)
	if is(err, socket.NotBegun) {
		if err := e.volume.stop(ref); err != nil {
			return s, err
		}
		_, s, err = e.known(ref)
	}
	if x == nil {
		return s, err
	}
	x.end(socket.Canceled)
	return x.now(), nil
}

// status returns the status of an execution, after it has another version.
func (e *executor) status(ctx context.Context, ref socket.Ref, after uint64) (socket.Status, error) {
	e.mu.Lock()
	x, s, err := e.known(ref)
	e.mu.Unlock()
	if x == nil {
		return s, err
	}
	return x.after(ctx, after), nil
}

// output returns a stream of an execution.
func (e *executor) output(ref socket.Ref, name socket.Stream) (*stream, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, _, err := e.known(ref)
	switch {
	case err != nil:
		return nil, err
	case x == nil:
		return nil, refusal(socket.NotBegun, "execution %d of job %s was canceled before it began", ref.Execution, ref.Job)
	}
	return x.streams[name], nil
}

// forget drops an execution that has ended.
func (e *executor) forget(ref socket.Ref) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == nil || e.current.now().Ref != ref {
		return nil
	}
	end := e.current.now().Ending
	if end == nil {
		return refusal(socket.Running, "execution %d of job %s has not ended", ref.Execution, ref.Job)
	}
	err := e.current.forget()
	e.leftover = e.leftover || end.Leftover
	e.current = nil
	e.changed.Send()
	return err
}

// terminate ends the current execution, and returns once it was read and deleted.
func (e *executor) terminate(ctx context.Context) {
	e.mu.Lock()
	e.stopping = true
	if e.current != nil {
		e.current.end(socket.PodTerminated)
	}
	e.mu.Unlock()
	_ = e.changed.Until(ctx, func() bool { // it ends either way
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.current == nil
	})
}

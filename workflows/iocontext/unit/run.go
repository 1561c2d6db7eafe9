package unit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"switchyard.dev/eventbus/lists"
	values "switchyard.dev/protos/crd/variable"
	"switchyard.dev/workflows/iocontext"
	"switchyard.dev/workflows/script"
)

// Main is the wrapper of a script. Apart from its additions, the script runs as if the container
// ran it directly.
type Main struct {
	// Volume has the script, its inputs and, in the end, its outputs.
	Volume Volume
	// Command is run instead of a script, with its arguments.
	Command []string
	// Environ is the environment; inputs are added to it.
	Environ []string
	// Stdout and Stderr receive the output of the script.
	Stdout, Stderr io.Writer
	// Signals are forwarded to the script.
	Signals <-chan os.Signal
}

// stillHeld is how long the output is read after the script has ended, from processes that it left behind.
const stillHeld = 2 * time.Second

// Run runs the script to its end and leaves the result in the volume. It returns the ending of
// the container.
func (m Main) Run() iocontext.Ending {
	// The reader of the script's output may have closed; the script continues. A signal that is received, not ignored,
	// has its effect in scripts.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	alive, err := script.Begin(m.Volume.in(begunPath), "")
	if errors.Is(err, fs.ErrExist) {
		return iocontext.Ending{Reason: iocontext.BegunBefore, ExitCode: script.NotBegun,
			Message: "the script was begun in this pod before, and is not begun twice: let the step have another pod"}
	}
	if err != nil {
		r := result{Ending: notStarted(iocontext.VolumeFailed, "the volume at %s cannot be written: %v", iocontext.Root, err)}
		// Deliver waits for a result. If it cannot be written either, the controller reports the ending, and deletes the pod.
		_ = putJSON(m.Volume.in(iocontext.ResultPath), r)
		return r.Ending
	}
	defer alive.Close()
	r := m.run()
	if err := putJSON(m.Volume.in(iocontext.ResultPath), r); err != nil && r.Reason == "" {
		r.Reason, r.ExitCode = iocontext.VolumeFailed, script.NotBegun
		r.Message = fmt.Sprintf("the script ended with 0, and its result cannot be written to %s: %v", iocontext.Root, err)
	}
	return r.Ending
}

// run does what Run does, without the result.
func (m Main) run() result {
	var p plan
	inputs := map[string][]byte{}
	there, err := m.Volume.take(iocontext.PlanPath, &p)
	if err == nil && !there {
		err = errors.New("there is no plan")
	}
	for _, name := range p.Inputs {
		if err == nil {
			inputs[name], err = os.ReadFile(filepath.Join(m.Volume.in(iocontext.InputsDir), name))
		}
	}
	if err != nil {
		return result{Ending: notStarted(iocontext.VolumeFailed, "the volume at %s cannot be read: %v", iocontext.Root, err)}
	}
	p = m.unreserved(p)
	environ, wrong := environment(m.Environ, p, inputs)
	if wrong != nil {
		return result{Ending: *wrong}
	}
	var printed tail
	ending, begun := m.execute(p, environ, &printed)
	if !begun {
		return result{Ending: ending}
	}
	r := result{Ending: ending, Ran: true}
	secrets := lists.Map(p.Inputs, func(name string) value { return value{name, inputs[name]} })
	if given, whole := m.collect(p, &r); whole {
		r.Tail = printed.text(append(secrets, given...))
	}
	return r
}

func notStarted(reason, format string, args ...any) iocontext.Ending {
	return iocontext.Ending{Reason: reason, ExitCode: script.NotBegun, Message: fmt.Sprintf(format, args...)}
}

// unreserved leaves out inputs that would replace variables of the operator, and reports each.
func (m Main) unreserved(p plan) plan {
	var kept []variable
	for _, v := range p.Variables {
		if strings.HasPrefix(v.Name, iocontext.ReservedVariables) {
			fmt.Fprintf(m.Stderr, "io-run: warning: input %s is not set as variable %s, which is the operator's: give it another one with as: {env: NAME}\n", v.Input, v.Name)
			continue
		}
		kept = append(kept, v)
	}
	p.Variables = kept
	return p
}

// described names the input of a variable, with its output and step.
func (v variable) described() string {
	if step, output, ok := strings.Cut(v.From, "."); ok {
		return fmt.Sprintf("input %s, which is output %s of step %s,", v.Input, output, step)
	}
	return "input " + v.Input
}

// environment returns the environment of the script, or why an input does not fit into it.
func environment(environ []string, p plan, inputs map[string][]byte) ([]string, *iocontext.Ending) {
	for _, v := range p.Variables {
		content := inputs[v.Input]
		if problem, at := values.Of(content); problem != "" {
			reason := map[values.Problem]string{values.NUL: iocontext.VariableHasNUL, values.NotUTF8: iocontext.VariableNotUTF8}[problem]
			e := notStarted(reason, "%s %s (byte %d), so that it cannot be variable %s: take it as a file, or encode it", v.described(), problem, at, v.Name)
			return nil, &e
		}
		if n := len(v.Name) + len("=") + len(content) + 1; n > iocontext.MaxVariable {
			e := notStarted(iocontext.VariableTooLarge, "input %s has %d bytes, and variable %s has room for %d: take the input as a file",
				v.Input, len(content), v.Name, iocontext.MaxVariable-len(v.Name)-2)
			return nil, &e
		}
		environ = append(environ, v.Name+"="+string(content))
	}
	return environ, nil
}

// execute runs the script, or the command. begun is false when it could not be.
func (m Main) execute(p plan, environ []string, printed *tail) (e iocontext.Ending, begun bool) {
	command, wrong := m.command(p, environ)
	if wrong != nil {
		return endingOf(*wrong), false
	}
	status, err := run(command, m.Signals, &passed{m.Stdout, printed, 0}, &passed{m.Stderr, printed, 1})
	if err != nil {
		e := endingOf(*script.Unstartable(command, p.Script, err))
		if e.Reason == iocontext.VariablesTooLarge {
			e.Message += ": take the large inputs as files"
		}
		return e, false
	}
	return endingOf(script.Exited(status)), true
}

// endingOf returns the ending of a container after that of its script.
func endingOf(e script.Ending) iocontext.Ending {
	return iocontext.Ending{Reason: e.Reason, ExitCode: e.ExitCode, Message: e.Message}
}

// command returns the command to run.
func (m Main) command(p plan, environ []string) (*exec.Cmd, *script.Ending) {
	switch {
	case p.Script:
		return script.Script(m.Volume.in(iocontext.ScriptPath), environ)
	case len(m.Command) == 0:
		return nil, &script.Ending{Reason: iocontext.CommandMissing, ExitCode: script.NotBegun,
			Message: "the step has neither a script nor a command: give it one of them"}
	}
	return script.Program(m.Command, environ)
}

// passed forwards written data, and keeps the end of it. A failed write does not stop the
// script.
type passed struct {
	to     io.Writer
	tail   *tail
	stream int
}

// Write implements io.Writer.
func (p *passed) Write(b []byte) (int, error) {
	p.tail.write(p.stream, b)
	_, _ = p.to.Write(b)
	return len(b), nil
}

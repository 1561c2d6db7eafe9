package unit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"switchyard.dev/eventbus/lists"
	values "switchyard.dev/protos/crd/variable"
	"switchyard.dev/workflows/iocontext"
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

// Exit codes of a container with a script that could not be started, as in shells.
const (
	notBegun  = 126
	notFound  = 127
	bySignal  = 128
	stillHeld = 2 * time.Second // after its end, by processes that it left behind
)

// Run runs the script to its end and leaves the result in the volume. It returns the ending of
// the container.
func (m Main) Run() iocontext.Ending {
	alive, err := m.Volume.begin()
	if errors.Is(err, fs.ErrExist) {
		return iocontext.Ending{Reason: iocontext.BegunBefore, ExitCode: notBegun,
			Message: "the script was begun in this pod before, and is not begun twice: let the step have another pod"}
	}
	if err != nil {
		return iocontext.Ending{Reason: iocontext.VolumeFailed, ExitCode: notBegun,
			Message: fmt.Sprintf("the volume at %s cannot be written: %v", iocontext.Root, err)}
	}
	defer alive.Close()
	r := m.run()
	if err := putJSON(m.Volume.in(iocontext.ResultPath), r); err != nil && r.Reason == "" {
		r.Reason, r.ExitCode = iocontext.VolumeFailed, notBegun
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
	return iocontext.Ending{Reason: reason, ExitCode: notBegun, Message: fmt.Sprintf(format, args...)}
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
	command, wrong := m.command(p)
	if wrong != nil {
		return *wrong, false
	}
	command.Env = environ
	g := group{signals: m.Signals, stdout: &passed{m.Stdout, printed, 0}, stderr: &passed{m.Stderr, printed, 1}}
	if err := g.run(command); err != nil {
		return m.unstartable(p, command.Path, err), false
	}
	status, _ := command.ProcessState.Sys().(syscall.WaitStatus)
	switch code := command.ProcessState.ExitCode(); {
	case status.Signaled():
		return iocontext.Ending{Reason: iocontext.ScriptKilled, ExitCode: bySignal + int(status.Signal()),
			Message: fmt.Sprintf("the script was ended by signal %d (%s)", status.Signal(), status.Signal())}, true
	case code != 0:
		return iocontext.Ending{Reason: iocontext.ScriptFailed, ExitCode: code, Message: fmt.Sprintf("the script ended with exit code %d", code)}, true
	}
	return iocontext.Ending{}, true
}

// command returns the command to run. It is not ended with any context.
func (m Main) command(p plan) (*exec.Cmd, *iocontext.Ending) {
	if p.Script {
		path := m.Volume.in(iocontext.ScriptPath)
		if e := interpreterMissing(path); e != nil {
			return nil, e
		}
		return exec.CommandContext(context.Background(), path), nil
	}
	if len(m.Command) == 0 {
		e := notStarted(iocontext.CommandMissing, "the step has neither a script nor a command: give it one of them")
		return nil, &e
	}
	command := exec.CommandContext(context.Background(), m.Command[0], m.Command[1:]...)
	if command.Err != nil {
		e := notStarted(iocontext.CommandMissing, "the image has no program %s: choose an image that has it, or another command", m.Command[0])
		e.ExitCode = notFound
		return nil, &e
	}
	return command, nil
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

// maxFirstLine is how much of a script the kernel reads for its interpreter (BINPRM_BUF_SIZE).
const maxFirstLine = 256

// firstLine returns the words after the #! of a script, nil when it has none.
func firstLine(script string) []string {
	f, err := os.Open(script)
	if err != nil {
		return nil
	}
	defer f.Close()
	line, _ := bufio.NewReader(io.LimitReader(f, maxFirstLine)).ReadString('\n') // a script may be one line
	rest, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return nil
	}
	return strings.FieldsFunc(strings.TrimSuffix(rest, "\n"), func(r rune) bool { return r == ' ' || r == '\t' })
}

// interpreterMissing returns an ending where the first line uses env to find a program that the
// image lacks: env itself reports that only in its output.
func interpreterMissing(script string) *iocontext.Ending {
	words := firstLine(script)
	if len(words) < 2 || filepath.Base(words[0]) != "env" {
		return nil
	}
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
			continue // an option of env, or a variable that it sets
		}
		if _, err := exec.LookPath(word); err == nil || !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		e := missing(word, strings.Join(words, " "))
		return &e
	}
	return nil
}

func missing(program, line string) iocontext.Ending {
	hint := ""
	if strings.HasSuffix(line, "\r") {
		hint = " The line ends with a carriage return: save the script with line feeds alone."
	}
	e := notStarted(iocontext.InterpreterMissing, "the script's first line names the interpreter %s (#!%s), which the runner's image lacks: "+
		"choose an image that has it, or another interpreter.%s", strings.TrimSuffix(program, "\r"), strings.TrimSuffix(line, "\r"), hint)
	e.ExitCode = notFound
	return e
}

// unstartable returns why the kernel did not start a script, or a command.
func (m Main) unstartable(p plan, path string, err error) iocontext.Ending {
	if errors.Is(err, syscall.E2BIG) {
		return notStarted(iocontext.VariablesTooLarge, "all variables together are more than the kernel takes: take the large inputs as files")
	}
	if !p.Script {
		return notStarted(iocontext.CommandMissing, "the program %s cannot be run: %v", path, err)
	}
	words := firstLine(path)
	line := strings.Join(words, " ")
	switch {
	case len(words) == 0:
		return notStarted(iocontext.ScriptNotRunnable, "the script's first line names no interpreter: begin it with #! and the path of one, such as #!/bin/sh")
	case errors.Is(err, fs.ErrNotExist):
		if _, wrong := os.Stat(words[0]); wrong == nil {
			return notStarted(iocontext.InterpreterMissing, "the interpreter %s (#!%s) is in the runner's image, and the libraries or the loader that it needs are not: "+
				"choose another image", words[0], line)
		}
		return missing(words[0], line)
	}
	return notStarted(iocontext.ScriptNotRunnable, "the interpreter %s of the script's first line (#!%s) cannot be run: %v", words[0], line, err)
}

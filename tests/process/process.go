// Package process starts this program again, in another role and a process of
// its own, and calls it over its standard input and output: so its memory and its
// processor time are those of the role alone, and it ends when its starter does,
// however that ends.
//
// A program that does so owes, at its very beginning:
//
//	switch process.Role() {
//	case "server":
//		return process.Answer(&Server{})
//	}
//
// What answers calls is a value whose methods net/rpc can call.
package process

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"strings"
)

const variable = "SWITCHYARD_ROLE"

// Role is the role in which this process was started, or "".
func Role() string { return os.Getenv(variable) }

// Process is this program in another role.
type Process struct {
	cmd   *exec.Cmd
	calls *rpc.Client
}

// Start starts this program again with the same arguments. What it writes to its
// standard error goes to ours. The caller closes it.
func Start(role string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(self, os.Args[1:]...)}
	p.cmd.Env = append(os.Environ(), variable+"="+role)
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s: %w", role, err)
	}
	p.calls = rpc.NewClient(pipe{out, in})
	return p, nil
}

// Call calls a method of what answers there, and waits.
func (p *Process) Call(method string, arguments, reply any) error {
	return p.calls.Call("Role."+method, arguments, reply)
}

// ID is the process's.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Close ends the process.
func (p *Process) Close() error { return errors.Join(p.calls.Close(), p.cmd.Wait()) }

// Answer answers calls until the starter ends this process's input.
func Answer(role any) error {
	server := rpc.NewServer()
	if err := server.RegisterName("Role", role); err != nil {
		return err
	}
	server.ServeConn(pipe{os.Stdin, os.Stdout})
	return nil
}

type pipe struct {
	io.Reader
	io.WriteCloser
}

// Memory is how much of a process is in memory, in MiB: now, and at most since
// Forget.
func (p *Process) Memory() (now, most float64, err error) {
	status, err := os.ReadFile(p.file("status"))
	if err != nil {
		return 0, 0, err
	}
	for field, value := range map[string]*float64{"VmRSS:": &now, "VmHWM:": &most} {
		_, after, _ := strings.Cut(string(status), field)
		if _, err := fmt.Sscan(after, value); err != nil {
			return 0, 0, fmt.Errorf("read %s of process %d: %w", field, p.ID(), err)
		}
		*value /= 1024
	}
	return now, most, nil
}

// Forget forgets what the most was.
func (p *Process) Forget() error { return os.WriteFile(p.file("clear_refs"), []byte("5"), 0) }

func (p *Process) file(name string) string { return fmt.Sprintf("/proc/%d/%s", p.ID(), name) }

// Package process starts this program again, in another role and a separate process, and calls it
// over its standard input and output: so its memory and its processor time are those of the role
// alone, and it ends when its parent does, however that ends. It also measures the memory and
// processor time of processes.
//
// A program that uses it must begin with:
//
//	switch process.Role() {
//	case "server":
//		return process.Answer(&Server{})
//	}
//
// The value that answers calls has methods as net/rpc requires.
package process

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
	"slices"
)

const variable = "SWITCHYARD_ROLE"

// Role is the role in which this process was started, or "".
func Role() string { return os.Getenv(variable) }

// Process is this program in another role.
type Process struct {
	cmd   *exec.Cmd
	calls *rpc.Client
}

// Command returns the command that starts this program in another role: with the same arguments and
// additional environment variables. Its standard error is that of this process.
func Command(role string, env ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(append(os.Environ(), env...), variable+"="+role)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// Start starts this program again to answer calls. before is a command that executes it, such as `ip netns exec NAME`;
// empty: none. The caller closes it.
func Start(role string, before ...string) (*Process, error) {
	cmd, err := Command(role)
	if err != nil {
		return nil, err
	}
	if len(before) > 0 {
		to := exec.Command(before[0], slices.Concat(before[1:], cmd.Args)...)
		to.Args[len(before)], to.Env, to.Stderr = cmd.Path, cmd.Env, cmd.Stderr
		cmd = to
	}
	calls, err := Connect(cmd)
	if err != nil {
		return nil, fmt.Errorf("start the %s: %w", role, err)
	}
	return &Process{cmd, calls}, nil
}

// Connect starts a command that answers calls over its standard input and output, and ends when its input does.
func Connect(cmd *exec.Cmd) (*rpc.Client, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return rpc.NewClient(pipe{out, in}), nil
}

// Call calls a method of what answers there, and waits.
func (p *Process) Call(method string, arguments, reply any) error {
	return p.calls.Call("Role."+method, arguments, reply)
}

// ID is the process's.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Kill ends the process without warning.
func (p *Process) Kill() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.Close()
}

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

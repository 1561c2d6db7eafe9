package main

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
)

// process is this program in another role, in a process of its own: so its
// memory and its processor time are those of the role alone.
type process struct {
	cmd   *exec.Cmd
	calls *rpc.Client
}

func start(arguments ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, arguments...)}
	p.cmd.Stderr = os.Stderr
	// It ends when this one does, however that ends: its input ends then.
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %v: %w", arguments, err)
	}
	p.calls = rpc.NewClient(struct {
		io.Reader
		io.WriteCloser
	}{out, in})
	return p, nil
}

func (p *process) call(method string, arguments, reply any) error {
	return p.calls.Call("Role."+method, arguments, reply)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// close ends the process.
func (p *process) close() error { return errors.Join(p.calls.Close(), p.cmd.Wait()) }

// answer answers calls to a role until the input ends.
func answer(role any) error {
	server := rpc.NewServer()
	if err := server.RegisterName("Role", role); err != nil {
		return err
	}
	server.ServeConn(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout})
	return nil
}

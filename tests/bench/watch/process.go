package main

import (
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
)

// process is a process of watchers.
type process struct {
	cmd   *exec.Cmd
	calls *rpc.Client
}

// startWatchers starts this program again as the process of the watchers.
func startWatchers() (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, "-watching")}
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
		return nil, fmt.Errorf("start the watchers: %w", err)
	}
	p.calls = rpc.NewClient(struct {
		io.Reader
		io.WriteCloser
	}{out, in})
	return p, nil
}

func (p *process) open(address string, watchers, changes int) error {
	return p.calls.Call("Watchers.Open", Opening{address, watchers, changes}, nil)
}

func (p *process) hold() error    { return p.calls.Call("Watchers.Hold", struct{}{}, nil) }
func (p *process) release() error { return p.calls.Call("Watchers.Release", struct{}{}, nil) }

// await waits until every watcher has these rules, and gives how many ops each
// was sent, on average.
func (p *process) await(digest uint64) (ops float64, err error) {
	err = p.calls.Call("Watchers.Await", digest, &ops)
	return ops, err
}

func (p *process) arrivals() (out []Arrival, err error) {
	err = p.calls.Call("Watchers.Arrivals", struct{}{}, &out)
	return out, err
}

// close ends the process.
func (p *process) close() error {
	return errors.Join(p.calls.Close(), p.cmd.Wait())
}

package devmesh

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// process is a program under test.
type process struct {
	name string
	cmd  *exec.Cmd
	// ended is closed when it has ended; err is how, then.
	ended chan struct{}
	err   error
}

// start starts a program. What it says is added to a file of its name. It ends
// with this process. Within, unless nil, is where it is started: it calls its
// argument.
func start(logs, name string, cmd *exec.Cmd, within func(func() error) error) (*process, error) {
	log, err := os.OpenFile(filepath.Join(logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{name: name, cmd: cmd, ended: make(chan struct{})}
	if within == nil {
		within = onOneThread
	}
	started := make(chan error, 1)
	go func() {
		defer log.Close()
		// The kernel ends the child with the thread that started it: it waits here.
		_ = within(func() error {
			if err := cmd.Start(); err != nil {
				started <- err
				return err
			}
			started <- nil
			p.err = cmd.Wait()
			return nil
		})
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

func onOneThread(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return f()
}

// pid of the running program.
func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends it, and all that it started, without warning.
func (p *process) kill() {
	if p == nil {
		return
	}
	_ = syscall.Kill(-p.pid(), syscall.SIGKILL) // it may have ended
	<-p.ended
}

// terminate tells it to end and waits until it has, well.
func (p *process) terminate(within time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return p.err
	case <-time.After(within):
		p.kill()
		return fmt.Errorf("%s has not ended %s after it was told to", p.name, within)
	}
}

// running says how it ended, nil while it runs.
func (p *process) running() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s has ended: %w", p.name, errors.Join(p.err, io.EOF))
	default:
		return nil
	}
}

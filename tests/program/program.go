// Package program starts programs under test, optionally in a network namespace, and terminates
// them: none outlives the process that started it.
package program

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

// Program is a program under test.
type Program struct {
	name string
	cmd  *exec.Cmd
	// ended is closed when it has ended; err is how, then.
	ended chan struct{}
	err   error
}

// Start starts a program. Its output is appended to a file with its name in the directory logs, or
// goes to standard error if logs is "". It ends with this process. within, unless nil, calls its
// argument in the context in which the program is started.
func Start(logs, name string, cmd *exec.Cmd, within func(func() error) error) (*Program, error) {
	log := os.Stderr
	if logs != "" {
		var err error
		if log, err = os.OpenFile(filepath.Join(logs, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, err
		}
	}
	if cmd.Stdout == nil {
		cmd.Stdout = log
	}
	if cmd.Stderr == nil {
		cmd.Stderr = log
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &Program{name: name, cmd: cmd, ended: make(chan struct{})}
	if within == nil {
		within = OnOneThread
	}
	started := make(chan error, 1)
	go func() {
		// The kernel ends the child with the thread that started it: it waits here.
		err := within(func() error {
			err := cmd.Start()
			if logs != "" {
				_ = log.Close() // the child has its own
			}
			if err == nil {
				started <- nil
				p.err = cmd.Wait()
			}
			return err
		})
		select {
		case started <- err:
		default: // it was started
		}
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// OnOneThread calls f on a thread that does nothing else until f returns.
func OnOneThread(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return f()
}

// PID of the running program.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Ended is closed when it has ended.
func (p *Program) Ended() <-chan struct{} { return p.ended }

// Kill ends it, and all that it started, without warning.
func (p *Program) Kill() {
	if p == nil {
		return
	}
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // it may have ended
	<-p.ended
}

// Terminate sends SIGTERM and waits until the program has exited, and kills it after a timeout. The
// timeout and a failed exit are errors.
func (p *Program) Terminate(within time.Duration) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return p.err
	case <-time.After(within):
		p.Kill()
		return fmt.Errorf("%s has not terminated %s after SIGTERM", p.name, within)
	}
}

// Running returns how it ended, nil while it runs.
func (p *Program) Running() error {
	select {
	case <-p.ended:
		return fmt.Errorf("%s has ended: %w", p.name, errors.Join(p.err, io.EOF))
	default:
		return nil
	}
}

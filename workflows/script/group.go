package script

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Group is a started command, as a process group of its own.
type Group struct {
	// PID is that of the command and of the group.
	PID int
	// Copied is closed when no process writes any more and all output has been written, or after Release.
	Copied <-chan struct{}
	// Release stops reading the output.
	Release func()
}

// AdoptOrphans makes this process the parent of descendants without one, so that it can wait for them. Process 1 of a
// container is their parent already.
func AdoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// Start starts a command, and copies its output to the writers. The caller waits for the process.
func Start(command *exec.Cmd, stdout, stderr io.Writer) (*Group, error) {
	copied, release, err := pipes(command, stdout, stderr)
	if err != nil {
		return nil, err
	}
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	if err := command.Start(); err != nil {
		release()
		<-copied
		return nil, err
	}
	_ = errors.Join(command.Stdout.(io.Closer).Close(), command.Stderr.(io.Closer).Close()) // the command has its own copies
	return &Group{PID: command.Process.Pid, Copied: copied, Release: release}, nil
}

// Signal sends a signal to the processes of the group. Call it only before the command was waited for: another
// group can have its number later.
func (g *Group) Signal(s syscall.Signal) {
	_ = syscall.Kill(-g.PID, s) // they may have ended
}

// pipes copies the output of the command. copied is closed when no process writes any more, or
// after release.
func pipes(command *exec.Cmd, stdout, stderr io.Writer) (copied <-chan struct{}, release func(), err error) {
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, outRead.Close(), outWrite.Close())
	}
	command.Stdout, command.Stderr = outWrite, errWrite
	done := make(chan struct{})
	var copies sync.WaitGroup
	copies.Go(func() { _, _ = io.Copy(stdout, outRead) })
	copies.Go(func() { _, _ = io.Copy(stderr, errRead) })
	go func() {
		copies.Wait()
		close(done)
	}()
	return done, sync.OnceFunc(func() {
		for _, f := range []*os.File{outRead, errRead, outWrite, errWrite} {
			_ = f.Close() // closing twice is harmless
		}
	}), nil
}

package unit

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group runs a script as a process group of its own.
type group struct {
	signals        <-chan os.Signal
	stdout, stderr io.Writer
}

// run runs a command to its end. Signals are sent to all of its processes; after a signal it
// waits for each of them, also when the command itself ends at once, as a shell does. The kubelet
// kills processes that take longer than the grace period.
func (g *group) run(command *exec.Cmd) error {
	// A process that outlives its parent becomes a child of this process, and can be waited for.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // process 1 of a container is that already
	copied, release, err := g.print(command)
	if err != nil {
		return err
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		release()
		<-copied
		return err
	}
	_ = errors.Join(command.Stdout.(io.Closer).Close(), command.Stderr.(io.Closer).Close()) // the command has its own copies
	ended, over := make(chan struct{}), make(chan struct{})
	stopped := make(chan struct{})
	go g.send(command.Process.Pid, stopped, over)
	go func() {
		defer close(ended)
		_ = command.Wait() // its state has the exit code
	}()
	<-ended
	select {
	case <-stopped:
		reap(command.Process.Pid)
	default:
	}
	close(over)
	select {
	case <-copied:
	case <-time.After(stillHeld):
	}
	release()
	<-copied
	return nil
}

// send sends signals to the processes of a group; stopped is closed at the first.
func (g *group) send(pid int, stopped chan<- struct{}, over <-chan struct{}) {
	for first := true; ; {
		select {
		case s := <-g.signals:
			if first {
				close(stopped)
				first = false
			}
			if number, ok := s.(syscall.Signal); ok {
				_ = syscall.Kill(-pid, number) // they may have ended
			}
		case <-over:
			return
		}
	}
}

// reap waits for the processes of a group.
func reap(pid int) {
	for {
		if _, err := syscall.Wait4(-pid, nil, 0, nil); err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// print forwards the output of the command. copied is closed when no process writes any more, or
// after release.
func (g *group) print(command *exec.Cmd) (copied <-chan struct{}, release func(), err error) {
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
	copies.Go(func() { _, _ = io.Copy(g.stdout, outRead) })
	copies.Go(func() { _, _ = io.Copy(g.stderr, errRead) })
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

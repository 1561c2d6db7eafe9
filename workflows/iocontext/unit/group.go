package unit

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"switchyard.dev/workflows/script"
)

// run runs a command to its end. Signals are sent to all processes of its group; after a signal it
// waits for each of them, also when the command itself ends at once, as a shell does. The kubelet
// kills processes that take longer than the grace period.
func run(command *exec.Cmd, signals <-chan os.Signal, stdout, stderr io.Writer) (status syscall.WaitStatus, err error) {
	_ = script.AdoptOrphans() // else they are not waited for
	g, err := script.Start(command, stdout, stderr)
	if err != nil {
		return 0, err
	}
	ended, over := make(chan struct{}), make(chan struct{})
	stopped := make(chan struct{})
	go send(g, signals, stopped, over)
	go func() {
		defer close(ended)
		_ = command.Wait() // its state has the exit code
	}()
	<-ended
	select {
	case <-stopped:
		reap(g.PID)
	default:
	}
	close(over)
	select {
	case <-g.Copied:
	case <-time.After(stillHeld):
	}
	g.Release()
	<-g.Copied
	status, _ = command.ProcessState.Sys().(syscall.WaitStatus)
	return status, nil
}

// send sends signals to the processes of a group; stopped is closed at the first.
func send(g *script.Group, signals <-chan os.Signal, stopped chan<- struct{}, over <-chan struct{}) {
	for first := true; ; {
		select {
		case s := <-signals:
			if first {
				close(stopped)
				first = false
			}
			if number, ok := s.(syscall.Signal); ok {
				g.Signal(number)
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

// Package process runs a command as a separate job, like a shell: signals go to all of its
// processes, it gets the terminal when it reads from it, and processes that outlive it are listed.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/eventbus/lists"
)

// Job is a command with its processes.
type Job struct {
	// Cmd is the command. Required.
	Cmd *exec.Cmd
	// Signals are sent to the processes of the job.
	Signals <-chan os.Signal
	// Patience is how long processes may go on that outlive a command which a signal was sent to.
	// Then they get SIGTERM, and as long again.
	Patience time.Duration

	terminal terminal
	told     bool // of a signal that ends it
}

// Result is how a job ended.
type Result struct {
	// Code is the exit code of the command; 128 and the number of the signal that ended it.
	Code int
	// Left are the processes that go on.
	Left []Left
	// Group is the process group that they are in.
	Group int
}

// Run runs a job to its end.
func (j *Job) Run() (Result, error) {
	if j.Cmd.SysProcAttr == nil {
		j.Cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	j.Cmd.SysProcAttr.Setpgid = true
	j.Cmd.WaitDelay = time.Second // for output that is copied, after the command's end
	if err := j.Cmd.Start(); err != nil {
		return Result{}, err
	}
	group := j.Cmd.Process.Pid
	j.terminal = openTerminal(j.Cmd.Stdin, group)
	defer j.terminal.close()
	stops := make(chan os.Signal, 8)
	signal.Notify(stops, syscall.SIGTSTP, syscall.SIGQUIT, syscall.SIGWINCH, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(stops)
	ended := make(chan syscall.WaitStatus, 1)
	go func() { ended <- j.wait(group) }()
	r := Result{Group: group}
	r.Code = code(j.until(group, ended, stops))
	if j.told {
		j.outlive(group)
	}
	r.Left = left(group)
	_ = j.Cmd.Wait() // for output that is copied: the process itself has been waited for
	return r, nil
}

// until sends signals to the job until its command has ended.
func (j *Job) until(group int, ended <-chan syscall.WaitStatus, stops <-chan os.Signal) syscall.WaitStatus {
	for {
		select {
		case s := <-j.Signals:
			j.told = true
			send(group, s)
		case s := <-stops:
			send(group, s)
		case status := <-ended:
			return status
		}
	}
}

// wait waits for the end of the command. One that is stopped for the terminal gets it; else this
// program stops too, as the shell that started it expects, and both go on together.
func (j *Job) wait(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil || !status.Stopped():
			return status
		}
		s := status.StopSignal()
		if s != syscall.SIGTSTP && s != syscall.SIGTTIN && s != syscall.SIGTTOU {
			continue // the sender of SIGSTOP sends SIGCONT too
		}
		if s == syscall.SIGTSTP || !j.terminal.lend() {
			j.terminal.take()
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			j.terminal.lend()
		}
		send(pid, syscall.SIGCONT)
	}
}

// outlive waits for processes of a job after the end of its command.
func (j *Job) outlive(group int) {
	for _, more := range []os.Signal{syscall.SIGTERM, nil} {
		ctx, cancel := context.WithTimeout(context.Background(), j.Patience)
		for ctx.Err() == nil && alive(group) {
			select {
			case s := <-j.Signals:
				send(group, s)
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		cancel()
		if !alive(group) {
			return
		}
		if more != nil {
			send(group, more)
		}
	}
}

// send sends a signal to all processes of a group.
func send(group int, s os.Signal) {
	if number, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-group, number) // they may have ended
	}
}

func alive(group int) bool {
	return !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) && len(left(group)) > 0
}

func code(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// file returns the file that a reader is; nil for none.
func file(r io.Reader) *os.File {
	f, _ := r.(*os.File)
	return f
}

// terminal is the terminal that a job may read from. Until it does, Ctrl-C is a signal to this
// program, which sends it on once; while the job has the terminal, it is one to the job.
type terminal struct {
	fd         int // negative: there is none
	own, group int
}

func openTerminal(in io.Reader, group int) terminal {
	t := terminal{fd: -1, own: syscall.Getpgrp(), group: group}
	if f := file(in); f != nil {
		if _, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP); err == nil {
			t.fd = int(f.Fd())
			signal.Ignore(syscall.SIGTTOU) // which taking it back would send
		}
	}
	return t
}

// lend reports whether the job has the terminal, after passing it on if this program has it.
func (t terminal) lend() bool {
	if t.fd < 0 {
		return false
	}
	if now, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err != nil || now != t.own {
		return err == nil && now == t.group
	}
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group) == nil
}

// take takes the terminal back from the job.
func (t terminal) take() {
	if t.fd < 0 {
		return
	}
	if now, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err == nil && now == t.group {
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.own) // the shell takes it, if this fails
	}
}

func (t terminal) close() {
	if t.fd >= 0 {
		t.take()
		signal.Reset(syscall.SIGTTOU)
	}
}

// Left is a process that is still running.
type Left struct {
	PID     int
	Command string
}

// String returns its name and ID.
func (l Left) String() string { return fmt.Sprintf("%s (process %d)", l.Command, l.PID) }

// Names returns the names of the processes that go on.
func (r Result) Names() string {
	return strings.Join(lists.Map(r.Left, Left.String), ", ")
}

// listing reads what ps writes of all processes: ID, group, state and command.
func listing(text string, group int) (out []Left) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || f[1] != strconv.Itoa(group) || strings.HasPrefix(f[2], "Z") {
			continue
		}
		if pid, err := strconv.Atoi(f[0]); err == nil {
			out = append(out, Left{pid, strings.Join(f[3:], " ")})
		}
	}
	return out
}

// listed asks ps.
func listed(group int) []Left {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	text, _ := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=,pgid=,stat=,comm=").Output() // without ps none is named
	return listing(string(text), group)
}

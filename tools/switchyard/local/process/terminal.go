package process

import (
	"io"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

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

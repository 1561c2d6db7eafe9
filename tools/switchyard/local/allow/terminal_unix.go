//go:build linux || darwin

package allow

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Here implements Console.
func (t terminal) Here() bool {
	group, err := unix.IoctlGetInt(int(t.in.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// readable waits a little for something to read. It uses select, since poll of macOS knows no
// terminals.
func readable(fd int) (bool, error) {
	var set unix.FdSet
	set.Set(fd)
	n, err := unix.Select(fd+1, &set, nil, nil, &unix.Timeval{Usec: 100_000})
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return n > 0, err
}

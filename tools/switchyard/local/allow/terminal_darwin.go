package allow

import "golang.org/x/sys/unix"

// flush drops typed input that was not read: 1 is FREAD of <sys/fcntl.h>.
func flush(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, 1) }

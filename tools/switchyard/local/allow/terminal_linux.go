package allow

import "golang.org/x/sys/unix"

// flush drops typed input that was not read.
func flush(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

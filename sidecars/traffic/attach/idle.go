package attach

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// resident returns how many bytes of memory the process has; 0 if that is unknown.
func resident() int {
	text, _ := os.ReadFile("/proc/self/statm")
	var all, pages int
	_, _ = fmt.Sscan(string(text), &all, &pages)
	return pages * os.Getpagesize()
}

// release returns memory that the process does not need while it is idle: of its heap, and of its program's file. Pages of the
// file stay in the page cache, which the containers of a node share, and are mapped again when they are used.
func release() error {
	debug.FreeOSMemory()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	var failed error
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var from, to uintptr
		var mode string
		n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &mode)
		// A page that the process has changed, also one that is in swap, would be lost.
		if n < 3 || strings.Contains(mode, "w") || !strings.HasSuffix(lines.Text(), " "+program) {
			continue
		}
		for _, advice := range []uintptr{unix.MADV_COLD, unix.MADV_DONTNEED} {
			if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, advice); errno != 0 {
				failed = errors.Join(failed, errno)
			}
		}
	}
	return failed
}

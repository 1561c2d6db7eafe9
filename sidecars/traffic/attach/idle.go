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
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // It was only read.
	var failed error
	var from, to uintptr // of the present mapping, if it is one of the file
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var start, end uintptr
		var mode string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s", &start, &end, &mode); n == 3 {
			if from, to = start, end; strings.Contains(mode, "w") || !strings.HasSuffix(lines.Text(), " "+program) {
				from, to = 0, 0
			}
		}
		// A page of the mapping that the process has changed would be lost; those in swap are not Anonymous.
		if name, value, _ := strings.Cut(lines.Text(), ":"); name == "Anonymous" && strings.TrimSpace(value) == "0 kB" && to > 0 {
			for _, advice := range []uintptr{unix.MADV_COLD, unix.MADV_DONTNEED} {
				if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, advice); errno != 0 {
					failed = errors.Join(failed, errno)
				}
			}
		}
	}
	return failed
}

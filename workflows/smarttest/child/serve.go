package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"switchyard.dev/workflows/smarttest"
	"switchyard.dev/workflows/smarttest/interpreter"
)

const (
	// arena is the unit in which Go reserves addresses for its heap, and spare are those for all else: so the heap ends
	// first, which Go reports as such.
	arena, spare = 64 << 20, 32 << 20
	// maxStack and maxFiles bound the stack of the script, in bytes, and open files.
	maxStack, maxFiles = 32 << 20, 256
)

// Serve is the main function of the process: it runs the test on in, reports on out, and returns. It ends the process
// when in ends.
func Serve(in io.Reader, out io.Writer) error {
	var r smarttest.Request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("the test cannot be read: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in) // the parent sends nothing more
		os.Exit(1)
	}()
	if err := limit(r.Limits.Memory); err != nil {
		return fmt.Errorf("the limits cannot be set: %w", err)
	}
	return interpreter.Run(r, out)
}

// limit limits this process, for good. The memory is rounded up to arenas.
func limit(memory int64) error {
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(memory / 4 * 3) //nolint:mnd // Go collects more often before the limit is reached.
	var pages uint64                     // of the address space
	status, err := os.ReadFile("/proc/self/statm")
	if err == nil {
		_, err = fmt.Sscan(string(status), &pages)
	}
	most := pages*uint64(os.Getpagesize()) + uint64((memory+arena-1)/arena*arena) + spare
	for which, most := range map[int]uint64{unix.RLIMIT_AS: most, unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_NOFILE: maxFiles} {
		err = errors.Join(err, unix.Setrlimit(which, &unix.Rlimit{Cur: most, Max: most}))
	}
	// Without /proc, the kernel chooses by size alone.
	if f, open := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0); open == nil {
		_, _ = f.WriteString("1000")
		_ = f.Close()
	}
	return errors.Join(err, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
}

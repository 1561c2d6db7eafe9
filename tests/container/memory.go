package container

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"switchyard.dev/tools/wait"
)

// Memory makes a cgroup with a limit of so many bytes, until the test ends, and returns the file to which the PIDs of
// its processes are written. Without a cgroup that can be written the test is skipped.
func Memory(t testing.TB, bytes int) (procs string) {
	t.Helper()
	for _, at := range []struct{ root, limit, swap string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max", "memory.swap.max"},
	} {
		dir := filepath.Join(at.root, fmt.Sprintf("switchyard-test-%d", rand.N(1<<30)))                           //nolint:gosec // Not a secret.
		if _, err := os.Stat(filepath.Join(at.root, "cgroup.procs")); err != nil || os.Mkdir(dir, 0o755) != nil { //nolint:gosec // of a test
			continue
		}
		t.Cleanup(func() { wait.Holds(t, "the cgroup is removed", func() bool { return os.Remove(dir) == nil }) })
		if os.WriteFile(filepath.Join(dir, at.limit), []byte(strconv.Itoa(bytes)), 0) == nil {
			_ = os.WriteFile(filepath.Join(dir, at.swap), []byte(strconv.Itoa(bytes)), 0) // where swap is counted
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	t.Skip("this machine has no cgroup for memory that can be written")
	return ""
}

package cleanup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"switchyard.dev/tools/cluster/internal/netns"
)

// Process is a process that belongs to the node.
type Process struct {
	// PID is the process id and Program its executable file, if that can be read.
	PID     int
	Program string
}

// Owner identifies the node's processes.
type Owner struct {
	// NetNS is the path of the node's network namespace. It may not exist.
	NetNS string
	// Cgroup is the name of the cgroup above its pods.
	Cgroup string
	// Programs is the directory of compiled programs and Dir the node's own. A
	// program from the first that was given a path below the second is the
	// node's, also when the network namespace has lost its name.
	Programs, Dir string
}

// Processes lists the processes of a node, without this one.
func Processes(o Owner) ([]Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	node, nodeErr := netns.Of(o.NetNS)
	var found []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		own, err := netns.Of(fmt.Sprintf("/proc/%d/ns/net", pid))
		inside := err == nil && nodeErr == nil && own == node
		// One that ended in between has no files any more, and needs none.
		groups, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		program, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		arguments, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if inside || below(string(groups), o.Cgroup) || o.started(program, string(arguments)) {
			found = append(found, Process{PID: pid, Program: strings.TrimSuffix(program, " (deleted)")})
		}
	}
	return found, nil
}

// started reports whether a process is one of the node's programs, by its
// executable file and its arguments.
func (o Owner) started(program, arguments string) bool {
	return strings.HasPrefix(program, o.Programs+"/") && strings.Contains(arguments, o.Dir+"/")
}

// below reports whether a /proc/PID/cgroup names a group called name at the top.
func below(groups, name string) bool {
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && (parts[2] == "/"+name || strings.HasPrefix(parts[2], "/"+name+"/")) {
			return true
		}
	}
	return false
}

// Kill kills all processes of a node and waits until they have ended. It lists them repeatedly,
// since a process can start another before it ends. The error names those that did not end before
// ctx did.
func Kill(ctx context.Context, o Owner) (killed int, err error) {
	seen := map[int]bool{}
	for {
		left, err := Processes(o)
		if err != nil {
			return len(seen), err
		}
		if len(left) == 0 {
			return len(seen), nil
		}
		for _, p := range left {
			seen[p.PID] = true
			// The process may have ended already; the next iteration checks.
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		select {
		case <-ctx.Done():
			return len(seen), fmt.Errorf("these processes do not end, even when killed (is a disk hanging?): %s", describe(left))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func describe(processes []Process) string {
	var all []string
	for _, p := range processes {
		all = append(all, fmt.Sprintf("%s (%d)", filepath.Base(p.Program), p.PID))
	}
	return strings.Join(all, ", ")
}

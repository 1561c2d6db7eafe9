package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"switchyard.dev/tools/cluster/internal/layout"
	"switchyard.dev/tools/cluster/internal/netns"
)

// Process is a running part, as its pid file names it.
type Process struct {
	// PID is its process number.
	PID int `json:"pid"`
	// Ticks is when it started, in clock ticks since the machine did. Together
	// with PID it names the process for good; numbers are used again.
	Ticks uint64 `json:"ticks"`
	// Since is when it started, for people.
	Since time.Time `json:"since"`
	// Program is the file that runs.
	Program string `json:"program"`
}

// searchPath is where parts look for other programs, after the cache.
const searchPath = "/usr/sbin:/usr/bin:/sbin:/bin"

// Start starts a part inside the node's network namespace, in a session of its
// own, with its output appended to its log, and writes its pid file. The
// channel yields how the process ended, should it end while this program runs.
func Start(n layout.Node, p Part) (Process, <-chan error, error) {
	program, err := filepath.EvalSymlinks(filepath.Join(n.Bin(), p.Name))
	if err != nil {
		return Process{}, nil, fmt.Errorf("finding the program %s: %w", p.Name, err)
	}
	log, err := os.OpenFile(n.Log(p.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return Process{}, nil, fmt.Errorf("opening the log of %s: %w", p.Name, err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.Background(), program, p.Args...) // it outlives this program
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.Env = []string{"PATH=" + filepath.Dir(program) + ":" + searchPath, "HOME=/root"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := netns.Do(n.NetNS(), cmd.Start); err != nil {
		return Process{}, nil, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	process := Process{PID: cmd.Process.Pid, Since: time.Now(), Program: program}
	process.Ticks, _ = startTicks(process.PID) // 0 for one that has ended already: Find then tells the truth
	content, err := json.Marshal(process)
	if err != nil {
		return Process{}, nil, fmt.Errorf("writing the pid file of %s: %w", p.Name, err)
	}
	if err := os.WriteFile(n.Pid(p.Name), content, 0o644); err != nil {
		return Process{}, nil, fmt.Errorf("writing the pid file of %s: %w", p.Name, err)
	}
	return process, ended, nil
}

// Find returns the running process of a part. ok is false when it does not run,
// or runs in another network namespace than the node's.
func Find(n layout.Node, part string) (p Process, ok bool) {
	content, err := os.ReadFile(n.Pid(part))
	if err != nil || json.Unmarshal(content, &p) != nil {
		return Process{}, false
	}
	ticks, err := startTicks(p.PID)
	if err != nil || ticks != p.Ticks {
		return Process{}, false
	}
	node, err := netns.Of(n.NetNS())
	if err != nil {
		return Process{}, false
	}
	own, err := netns.Of(fmt.Sprintf("/proc/%d/ns/net", p.PID))
	return p, err == nil && own == node
}

// startTicks is when a process started. The error is fs.ErrNotExist for one
// that has ended, also when nobody has collected it yet.
func startTicks(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fs.ErrNotExist
	}
	// The name is in parentheses and may hold anything; the fields follow the last one.
	fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
	if len(fields) < 20 {
		return 0, errors.New("cannot read /proc/PID/stat")
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return 0, fs.ErrNotExist
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// LogTail returns the last lines of a part's log, for an error message.
func LogTail(n layout.Node, part string, lines int) string {
	content, err := os.ReadFile(n.Log(part))
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

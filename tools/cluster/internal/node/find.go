package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/tools/cluster/internal/layout"
	"switchyard.dev/tools/cluster/internal/netns"
)

// Process is a running part.
type Process struct {
	// PID is its process number.
	PID int
	// Since is when it started.
	Since time.Time
	// Program is the file that runs.
	Program string
}

// Find returns the running process of a part; of several, the oldest. ok is false when there is
// none.
//
// It reads only the kernel's list of processes, so a part is found from the moment it runs, however
// the program that started it ended. A process is the part when its program has the part's name,
// its arguments name a file of the node, it runs in the node's network namespace, and it is a
// session leader, as every process of Start is: a child that the part has just forked is not.
func Find(n layout.Node, part string) (p Process, ok bool) {
	network, err := netns.Of(n.NetNS())
	if err != nil {
		return Process{}, false
	}
	programs, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range programs {
		program, err := os.Readlink(link) // a process without a program is one of the kernel's, or has ended
		program = strings.TrimSuffix(program, " (deleted)")
		if err != nil || filepath.Base(program) != part {
			continue
		}
		own, err := netns.Of(filepath.Join(filepath.Dir(link), "ns/net"))
		arguments, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		if err != nil || own != network || !strings.Contains(string(arguments), n.Dir()+"/") {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		since, leads, err := started(pid)
		if err == nil && leads && (!ok || since.Before(p.Since)) {
			p, ok = Process{PID: pid, Since: since, Program: program}, true
		}
	}
	return p, ok
}

// userHz is the number of clock ticks per second in the kernel's interfaces, the same on every
// architecture that Kubernetes supports.
const userHz = 100

// started returns the start time of a process and whether it is a session leader.
func started(pid int) (since time.Time, leads bool, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return time.Time{}, false, err
	}
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return time.Time{}, false, err
	}
	// The name is in parentheses and may hold anything; the fields follow the last one.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return time.Time{}, false, errors.New("cannot read /proc/PID/stat")
	}
	seconds, _, _ := strings.Cut(string(uptime), " ")
	up, err := time.ParseDuration(seconds + "s")
	ticks, bad := strconv.ParseInt(fields[19], 10, 64)
	if err := errors.Join(err, bad); err != nil {
		return time.Time{}, false, err
	}
	age := up - time.Duration(ticks)*(time.Second/userHz)
	return time.Now().Add(-age), fields[3] == strconv.Itoa(pid), nil
}

package executor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"switchyard.dev/eventbus/wake"
	"switchyard.dev/workflows/script"
)

// processes starts scripts, one at a time, and waits for all processes below this one.
type processes struct {
	mu sync.Mutex
	// group is the script that runs; nil: none.
	group *script.Group
	// status is that of the script that has ended, at the time at.
	status syscall.WaitStatus
	at     time.Time
	// killing reports whether killAll runs.
	killing bool
	// changed is sent when a process has ended.
	changed wake.Signal
}

// newProcesses begins to wait for processes.
func newProcesses() (*processes, error) {
	if err := script.AdoptOrphans(); err != nil {
		return nil, fmt.Errorf("adopt orphans: %w", err)
	}
	// The first use of a process starts one, which the package os waits for.
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Release() // nothing depends on it
	}
	p := &processes{}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			p.reap()
		}
	}()
	return p, nil
}

// start starts a script.
func (p *processes) start(command *exec.Cmd, stdout, stderr io.Writer) (*script.Group, error) {
	p.mu.Lock() // it is not waited for before it is known
	defer p.mu.Unlock()
	g, err := script.Start(command, stdout, stderr)
	if err != nil {
		return nil, err
	}
	p.group = g
	return g, command.Process.Release()
}

// reap waits for the processes that have ended. It reports whether none is left: then there is no descendant either,
// since each one has become a child of this process.
func (p *processes) reap() (none bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.changed.Send()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WALL, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil || pid == 0:
			return errors.Is(err, syscall.ECHILD)
		case p.group != nil && pid == p.group.PID:
			p.group, p.status, p.at = nil, status, time.Now()
		}
		if p.killing {
			killNext(pid)
		}
	}
}

// killNext kills the children of this process that were started soon after one that has ended: so it finds those that fork and
// end, again and again, which have ended when a list of all processes is complete.
func killNext(pid int) {
	const most = 8
	for next := pid + 1; next <= pid+most; next++ {
		if p, ok := stat(next); ok && p.parent == os.Getpid() {
			p.kill()
		}
	}
}

// ended reports whether the script has ended, with its status and when.
func (p *processes) ended() (status syscall.WaitStatus, at time.Time, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, p.at, p.group == nil
}

// terminate sends SIGTERM to the process group of the script, and reports whether the script still ran.
func (p *processes) terminate() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group == nil {
		return false
	}
	p.group.Signal(syscall.SIGTERM)
	return true
}

// process is a line of the kernel's table.
type process struct {
	pid, parent, group int
	// born is when it was started: with pid it names the process.
	born string
	// ended reports whether it only waits for its parent.
	ended bool
}

// proc is where the kernel describes processes.
const proc = "/proc"

// Fields of /proc/PID/stat after the name, from 0.
const (
	statState   = 0
	statParent  = 1
	statGroup   = 2
	statThreads = 17
	statBorn    = 19
)

// stat returns the line of a process; false: it does not exist.
func stat(pid int) (process, bool) {
	line, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return process{}, false
	}
	// The name is in brackets, and can have any byte.
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(fields) <= statBorn {
		return process{}, false
	}
	parent, err := strconv.Atoi(fields[statParent])
	group, wrong := strconv.Atoi(fields[statGroup])
	// If its first thread has ended and others have not, it runs.
	dead := strings.Contains("ZX", fields[statState]) && strings.Contains("01", fields[statThreads])
	return process{pid: pid, parent: parent, group: group, born: fields[statBorn], ended: dead}, err == nil && wrong == nil
}

// descendants returns the processes below this one that have not ended.
func descendants() ([]process, error) {
	entries, err := readNames(proc)
	if err != nil {
		return nil, err
	}
	children := map[int][]process{}
	for _, name := range entries {
		if pid, err := strconv.Atoi(name); err == nil {
			if p, ok := stat(pid); ok {
				children[p.parent] = append(children[p.parent], p)
			}
		}
	}
	below := children[os.Getpid()]
	for i := 0; i < len(below); i++ {
		below = append(below, children[below[i].pid]...)
	}
	var left []process
	for _, p := range below {
		if !p.ended {
			left = append(left, p)
		}
	}
	return left, nil
}

// readNames returns the names of the files of a folder, in any order.
func readNames(folder string) ([]string, error) {
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// kill kills a process, unless another has its number by now.
func (p process) kill() {
	of, err := os.FindProcess(p.pid) // which has a pidfd
	if err != nil {
		return
	}
	if now, ok := stat(p.pid); ok && now.born == p.born {
		_ = of.Kill() // it may have ended
	}
	_ = of.Release()
}

// killAll kills the processes below this one until none is left, or limit has passed. It returns how many are left at
// least. An empty list of processes does not count, since it lacks those that fork and end again and again.
func (p *processes) killAll(limit time.Duration) (left int, err error) {
	p.setKilling(true)
	defer p.setKilling(false)
	for deadline := time.Now().Add(limit); ; {
		next := p.changed.Next()
		if p.reap() { // Mostly the script has left none, and the list of all processes is not needed.
			return 0, nil
		}
		all, err := descendants()
		for _, one := range all {
			one.kill()
		}
		if p.reap() {
			return 0, nil
		}
		if time.Now().After(deadline) {
			return max(1, len(all)), err
		}
		select {
		case <-next:
		case <-time.After(killAgain):
		}
	}
}

func (p *processes) setKilling(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killing = on
}

// killAgain is the pause between two signals to a process that does not end.
const killAgain = 10 * time.Millisecond

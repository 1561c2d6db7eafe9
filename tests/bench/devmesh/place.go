package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
)

// place is a pod with the program in front of its application, if there is one.
type place struct {
	shape
	pod *podnet.Pod
	// dir holds the files and sockets of its Envoy.
	dir     string
	process *program.Program
	// envoy is the process id of its Envoy; 0 when it has none.
	envoy int
}

// start starts a program on one processor, in a pod or, when that is nil, here.
func start(pod *podnet.Pod, processor int, name string, cmd *exec.Cmd) (*program.Program, error) {
	within := podnet.OnOwnThread
	if pod != nil {
		within = pod.Do
	}
	return program.Start("", name, cmd, func(begin func() error) error {
		return within(func() error {
			if err := pin(processor); err != nil {
				return err
			}
			return begin()
		})
	})
}

// envoyWith returns an Envoy as the sidecar's keeper runs it, with one worker.
func envoyWith(bootstrap string) *exec.Cmd {
	return sidecar.Envoy(bootstrap, "--concurrency", "1", "--log-level", "error")
}

// pin keeps the calling thread, and processes it starts, on one processor.
func pin(processor int) error {
	var set unix.CPUSet
	set.Set(processor)
	return unix.SchedSetaffinity(0, &set)
}

// processors returns two that this program may use: the first for callers and applications, the
// second for the programs that are measured.
func processors() (rest, measured int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return 0, 0, err
	}
	var found []int
	for i := 0; i < 1024 && len(found) < 2; i++ {
		if set.IsSet(i) {
			found = append(found, i)
		}
	}
	if len(found) < 2 {
		return 0, 0, errors.New("this needs two processors: one for Envoy, and one for its callers")
	}
	return found[0], found[1], nil
}

// computed returns the time for which all threads of a process have computed. What
// the kernel adds when a thread stops is in it only when all have stopped.
func computed(pid int) (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	var sum int64
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		text, _, _ := strings.Cut(string(b), " ")
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return time.Duration(sum), nil
}

// memory is what a process holds: in the kernel's eyes, and by the count of
// Envoy's allocator.
type memory struct{ resident, allocated float64 }

func (p *place) memory(ctx context.Context) (m memory, err error) {
	said, err := sidecar.Admin(ctx, p.dir, "/memory")
	if err != nil {
		return m, err
	}
	var counted struct{ Allocated string }
	if err := json.Unmarshal(said, &counted); err != nil {
		return m, err
	}
	if m.allocated, err = strconv.ParseFloat(counted.Allocated, 64); err != nil {
		return m, err
	}
	m.resident, err = resident(p.envoy)
	return m, err
}

// resident returns the bytes of a process that are in memory.
func resident(pid int) (float64, error) {
	now, _, err := process.Memory(pid)
	return now * (1 << 20), err
}

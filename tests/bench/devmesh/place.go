package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/tests/podnet"
)

// place is a pod with what stands before its application, if anything.
type place struct {
	shape
	pod *podnet.Pod
	// dir holds the files and sockets of its Envoy.
	dir     string
	process *process
	// envoy is the process id of its Envoy; 0 when it has none.
	envoy int
}

// process is this program again, as a part of a place. It ends when its input
// does.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
}

// start starts this program as something, on one processor, in a pod or, when
// that is nil, here.
func start(pod *podnet.Pod, processor int, files []*os.File, env []string, what ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), self, append([]string{"-be"}, what...)...)
	cmd.Env, cmd.ExtraFiles, cmd.Stderr = append(os.Environ(), env...), files, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	begin := func() error {
		if err := pin(processor); err != nil {
			return err
		}
		return cmd.Start()
	}
	if pod != nil {
		err = pod.Do(begin)
	} else {
		err = onOwnThread(begin)
	}
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", what, err)
	}
	return &process{cmd, in}, nil
}

// end ends the process and waits until it is gone.
func (p *process) end() {
	if p != nil {
		_ = p.in.Close()
		_ = p.cmd.Wait()
	}
}

// pin keeps the calling thread, and what it starts, on one processor.
func pin(processor int) error {
	var set unix.CPUSet
	set.Set(processor)
	return unix.SchedSetaffinity(0, &set)
}

// onOwnThread runs f on a thread that ends with it.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// processors gives two that this program may use: the first for callers and
// applications, the second for what is measured.
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

// child gives the process that another one has started.
func child(parent int) (int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(b), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			return strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	return 0, fmt.Errorf("process %d has started none", parent)
}

// computed gives the time for which all threads of a process have computed. What
// the kernel adds when a thread stops is in it only when all have stopped.
func computed(pid int) (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*/schedstat", pid))
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("process %d is gone", pid)
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
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(p.dir, "admin.sock"))
		},
	}}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://envoy/memory", http.NoBody)
	if err != nil {
		return m, err
	}
	response, err := client.Do(request)
	if err != nil {
		return m, fmt.Errorf("ask Envoy for its memory: %w", err)
	}
	defer response.Body.Close()
	var said struct{ Allocated string }
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
		return m, err
	}
	if m.allocated, err = strconv.ParseFloat(said.Allocated, 64); err != nil {
		return m, err
	}
	m.resident, err = resident(p.envoy)
	return m, err
}

// resident gives the bytes of a process that are in memory.
func resident(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0, fmt.Errorf("process %d is gone", pid)
	}
	pages, err := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()), err
}

package executor

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"switchyard.dev/eventbus/wake"
	"switchyard.dev/workflows/jobexec/socket"
	"switchyard.dev/workflows/script"
)

const (
	// defaultGrace is the time between SIGTERM and SIGKILL unless the request has one.
	defaultGrace = 10 * time.Second
	// killLimit is how long processes are killed until those that are left count as Leftover.
	killLimit = 5 * time.Second
	// stillHeld is how long the output of such processes is read.
	stillHeld = 2 * time.Second
	// endedAgain is the pause between two checks whether a process group has ended.
	endedAgain = 20 * time.Millisecond
)

// execution is an execution that has begun. It is safe for concurrent use.
type execution struct {
	procs   *processes
	restore func()
	request socket.Request
	streams map[socket.Stream]*stream
	// stop is closed when the script is to be ended for cause: socket.Canceled or socket.PodTerminated.
	stop  chan struct{}
	cause string
	// begun is the record, with a lock until it is closed.
	begun *os.File

	mu      sync.Mutex
	changed wake.Signal
	status  socket.Status
}

func newExecution(procs *processes, restore func(), ref socket.Ref, r socket.Request, begun *os.File) *execution {
	return &execution{procs: procs, restore: restore, request: r, begun: begun, stop: make(chan struct{}),
		streams: map[socket.Stream]*stream{socket.Stdout: newStream(), socket.Stderr: newStream()},
		status:  socket.Status{Ref: ref, Phase: socket.PhaseRunning}}
}

// now returns the status.
func (x *execution) now() socket.Status {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.status
	s.Stdout, s.Stderr = x.streams[socket.Stdout].extent(), x.streams[socket.Stderr].extent()
	return s
}

// update changes the status.
func (x *execution) update(change func(*socket.Status)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(&x.status)
	x.status.Version++
	x.changed.Send()
}

// after waits for a version that is not after, and returns the status.
func (x *execution) after(ctx context.Context, after uint64) socket.Status {
	_ = x.changed.Until(ctx, func() bool { return x.now().Version != after }) // else it is as it was
	return x.now()
}

// end ends the script for a reason, unless it is being ended already.
func (x *execution) end(reason string) {
	x.update(func(s *socket.Status) {
		if s.Phase == socket.PhaseRunning && x.cause == "" {
			x.cause, s.Stopped = reason, true
			close(x.stop)
		}
	})
}

// run runs a command to its end. It returns when no process is left, or those that cannot be killed.
func (x *execution) run(command *exec.Cmd) {
	// The script is killed when this process ends, and with it the thread that has started the script.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	kills := memoryKills()
	g, err := x.procs.start(command, x.streams[socket.Stdout], x.streams[socket.Stderr])
	if err != nil {
		x.unstarted(*script.Unstartable(command, x.request.Script != "", err))
		return
	}
	x.update(func(s *socket.Status) { s.StartedAt = time.Now() })
	o := outcome{timeout: x.request.Timeout, cause: x.await()}
	if o.cause != "" {
		if x.procs.terminate() {
			x.awaitGroup(g.PID)
		} else {
			o.cause = "" // it has ended by itself
		}
	}
	o.left, o.problem = x.procs.killAll(killLimit)
	status, at, ended := x.procs.ended()
	if !ended {
		at = time.Now()
	}
	o.status, o.ended, o.outOfMemory = status, ended, memoryKills() > kills
	x.restore()
	go x.finish(g, o)
	x.update(func(s *socket.Status) {
		e := o.ending()
		s.Phase, s.FinishedAt, s.Ending = socket.PhaseTerminated, at, &e
	})
}

// await waits until the script has ended, and returns ""; or until it is to be ended, and returns why.
func (x *execution) await() string {
	var over <-chan time.Time
	if x.request.Timeout > 0 {
		over = time.After(x.request.Timeout)
	}
	for {
		next := x.procs.changed.Next()
		if _, _, ended := x.procs.ended(); ended {
			return ""
		}
		select {
		case <-next:
		case <-x.stop:
			return x.cause
		case <-over:
			return socket.TimedOut
		}
	}
}

// awaitGroup waits for the end of a process group, for the grace period at most.
func (x *execution) awaitGroup(group int) {
	grace := x.request.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	for over := time.After(grace); ; {
		next := x.procs.changed.Next()
		all, err := descendants()
		if err == nil && !slices.ContainsFunc(all, func(p process) bool { return p.group == group }) {
			return
		}
		select {
		case <-next:
		case <-time.After(endedAgain):
		case <-over:
			return
		}
	}
}

// finish ends the streams after all output was read.
func (x *execution) finish(g *script.Group, o outcome) {
	if o.leftover() {
		time.AfterFunc(stillHeld, g.Release)
	}
	<-g.Copied
	x.endStreams()
}

func (x *execution) endStreams() {
	for _, s := range x.streams {
		s.end()
	}
}

// unstarted ends an execution that did not start.
func (x *execution) unstarted(e script.Ending) {
	if e.Reason == script.VariablesTooLarge {
		e.Message += ": write large values to files"
	}
	x.endStreams()
	x.update(func(s *socket.Status) {
		s.Phase, s.Ending = socket.PhaseTerminated, &socket.Ending{ExitCode: e.ExitCode, Reason: e.Reason, Message: e.Message}
	})
}

// forget drops the output of an execution that has ended.
func (x *execution) forget() error {
	for _, s := range x.streams {
		s.drop()
	}
	return x.begun.Close()
}

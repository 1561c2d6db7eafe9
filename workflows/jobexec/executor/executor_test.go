package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/protos/problems"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/executor"
	"switchyard.dev/workflows/jobexec/socket"
)

// Variables of an executor that a test starts.
const (
	envDir  = "TEST_DIR"
	envProc = "TEST_PROC"
	envHome = "TEST_HOME"
	envMark = "TEST_MARK"
)

func TestMain(m *testing.M) {
	if process.Role() == "executor" {
		if err := serve(); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// serve is the executor of a test. With envProc it is process 1.
func serve() error {
	if os.Getenv(envProc) != "" {
		if err := errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""), syscall.Mount("proc", "/proc", "proc", 0, "")); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	environ := []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + os.Getenv(envHome), envMark + "=" + os.Getenv(envMark), "A=container", "B=container"}
	return executor.Serve(ctx, os.Getenv(envDir), environ, log.Printf)
}

// scene is an executor in a process of its own, with its volume and a home.
type scene struct {
	*testing.T
	dir, home, mark string
	attributes      syscall.SysProcAttr
	env             []string
	cmd             *exec.Cmd
	exited          chan struct{}
	client          *socket.Client
	ctx             context.Context
	log             bytes.Buffer
}

// newScene prepares a volume. Only one of a test's scenes can have its mark.
func newScene(t *testing.T) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // requests wait for what does not happen
	t.Cleanup(cancel)
	s := &scene{T: t, ctx: ctx, mark: fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano())}
	for _, dir := range []*string{&s.dir, &s.home} {
		var err error
		*dir, err = os.MkdirTemp("", "job") // paths of sockets are short
		s.must(err)
		t.Cleanup(func() { s.must(os.RemoveAll(*dir)) })
	}
	s.must(os.Chmod(s.dir, 0o755))
	s.must(os.Chmod(s.home, 0o777))
	s.install()
	return s
}

// install installs the executor in the volume. No process starts while the file is written: the kernel executes none that
// another process, which has not executed its own yet, has open for writing.
func (s *scene) install() {
	s.Helper()
	self, err := os.Executable()
	s.must(err)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	s.must(executor.Install(s.dir, self))
}

// processOne lets the executor be process 1 of a namespace.
func (s *scene) processOne() *scene {
	s.attributes.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS
	s.env = append(s.env, envProc+"=1")
	return s
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// start starts the executor.
func (s *scene) start() *scene {
	s.Helper()
	cmd, err := process.Command("executor", append(s.env, envDir+"="+s.dir, envHome+"="+s.home, envMark+"="+s.mark)...)
	s.must(err)
	cmd.Path = filepath.Join(s.dir, "bin", "job-executor")
	cmd.Stderr = &s.log
	attributes := s.attributes
	cmd.SysProcAttr = &attributes
	s.must(cmd.Start())
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	s.cmd, s.exited = cmd, exited
	s.client = socket.NewClient(filepath.Join(s.dir, "run", "executor.sock"))
	s.Cleanup(s.kill)
	wait.Holds(s.T, "the executor answers", func() bool { _, err := s.client.Executor(s.ctx); return err == nil })
	return s
}

// kill kills the executor and its scripts.
func (s *scene) kill() {
	_ = s.cmd.Process.Kill()
	<-s.exited
	wait.Holds(s.T, "nothing is left of the executor", func() bool {
		left := s.processes()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0
	})
	if s.Failed() {
		s.Log(s.log.String())
	}
}

// processes returns the processes that have the mark in their environment, apart from the executor. It does not use
// parents, as the executor does.
func (s *scene) processes() (pids []int) {
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	s.must(err)
	for _, file := range environs {
		content, _ := os.ReadFile(file) // it may have ended
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if bytes.Contains(content, []byte(envMark+"="+s.mark)) && pid != s.cmd.Process.Pid {
			pids = append(pids, pid)
		}
	}
	return pids
}

var job = socket.Ref{Job: "0f2c6d0e-5b7e-4c1b-9d53-0a4b6a1c2d3e", Execution: 1}

// begin begins an execution.
func (s *scene) begin(ref socket.Ref, r socket.Request) {
	s.Helper()
	if _, err := s.client.Begin(s.ctx, ref, r); err != nil {
		s.Fatal(err)
	}
}

// again sends a request until it is answered, as a proxy does: a script can remove the socket, with connections that the
// executor has not accepted yet.
func again[T any](ctx context.Context, send func() (T, error)) (T, error) {
	for {
		answer, err := send()
		if _, cut := errors.AsType[*url.Error](err); !cut || wait.For(ctx, 10*time.Millisecond) != nil {
			return answer, err
		}
	}
}

// output reads a stream from an offset to its end, as a proxy does.
func (s *scene) output(ref socket.Ref, name socket.Stream, from uint64) []byte {
	s.Helper()
	var all []byte
	for into := make([]byte, socket.MaxChunk); ; {
		chunk, err := again(s.ctx, func() (socket.Chunk, error) { return s.client.Output(s.ctx, ref, name, from+uint64(len(all)), into) })
		if err != nil || chunk.Offset != from+uint64(len(all)) {
			s.Errorf("%s at %d: offset %d, %v", name, from+uint64(len(all)), chunk.Offset, err)
			return all
		}
		all = append(all, chunk.Data...)
		if chunk.End {
			return all
		}
	}
}

// end is how an execution ended.
type end struct {
	socket.Status
	stdout, stderr string
	// left is the number of processes at the end.
	left int
}

// await reads the output of an execution to its end, and deletes it.
func (s *scene) await(ref socket.Ref) end {
	s.Helper()
	var e end
	var streams sync.WaitGroup
	streams.Go(func() { e.stdout = string(s.output(ref, socket.Stdout, 0)) })
	streams.Go(func() { e.stderr = string(s.output(ref, socket.Stderr, 0)) })
	for version := uint64(0); e.Phase != socket.PhaseTerminated; version = e.Version {
		status, err := again(s.ctx, func() (socket.Status, error) { return s.client.Status(s.ctx, ref, version) })
		s.must(err)
		e.Status = status
	}
	e.left = len(s.processes())
	streams.Wait()
	_, err := again(s.ctx, func() (struct{}, error) { return struct{}{}, s.client.Delete(s.ctx, ref) })
	s.must(err)
	return e
}

// run runs an execution to its end.
func (s *scene) run(ref socket.Ref, r socket.Request) end {
	s.Helper()
	s.begin(ref, r)
	return s.await(ref)
}

// runReady runs an execution with a timeout that ends its script after the script has created the file ready: where it had
// no time to do that, again with a longer timeout.
func (s *scene) runReady(ref socket.Ref, r socket.Request, ready string) (socket.Ref, socket.Request, end) {
	s.Helper()
	for {
		e := s.run(ref, r)
		if _, err := os.Stat(ready); err == nil {
			return ref, r, e
		}
		if !e.Ending.TimedOut {
			s.Fatalf("it printed %q and %q, ended with %+v and was not ready", e.stdout, e.stderr, e.Ending)
		}
		ref, r.Timeout = next(ref), 2*r.Timeout
	}
}

// refused checks the reason of an error.
func (s *scene) refused(err error, reason string) {
	s.Helper()
	if why := (*problems.Problem)(nil); !errors.As(err, &why) || why.Reason != reason {
		s.Errorf("the error is %v, not of reason %s", err, reason)
	}
}

func next(ref socket.Ref) socket.Ref { return socket.Ref{Job: ref.Job, Execution: ref.Execution + 1} }

// daemons leaves 50 processes in sessions of their own, which have other parents and ignore signals.
const daemons = `#!/bin/sh
trap '' TERM HUP INT
>$OUT
i=0
while [ $i -lt 50 ]; do
  i=$((i+1))
  setsid sh -c '(trap "" TERM HUP INT; echo up >>$OUT; while :; do sleep 1000; done) &' >/dev/null 2>&1
done
while [ $(wc -l <$OUT) -lt 50 ]; do sleep 0.05; done
>$READY
`

// Each script ends with a true state and a clear reason, and nothing is left at its end: with an executor that is process 1, and
// with one that is not.
func TestEndsOfScripts(t *testing.T) {
	const short = 500 * time.Millisecond
	for what, tt := range map[string]struct {
		// A script with a timeout creates $READY when it can be ended.
		script  string
		command []string
		request socket.Request
		// set prepares the scene, before the executor is started.
		set     func(*scene)
		want    socket.Ending
		message string
		stdout  string
		stderr  string
	}{
		"success":                   {script: "#!/bin/sh\necho out; echo err >&2\n", stdout: "out\n", stderr: "err\n"},
		"an exit code":              {script: "#!/bin/sh\nexit 3\n", want: socket.Ending{ExitCode: 3, Reason: "ScriptFailed"}, message: "code 3"},
		"a signal":                  {script: "#!/bin/sh\nkill -USR1 $$\n", want: socket.Ending{ExitCode: 138, Signal: 10, Reason: "ScriptKilled"}, message: "signal 10"},
		"128 and more is no signal": {script: "#!/bin/sh\nexit 137\n", want: socket.Ending{ExitCode: 137, Reason: "ScriptFailed"}, message: "code 137"},
		"no interpreter":            {script: "#!/opt/none\n", want: socket.Ending{ExitCode: 127, Reason: "InterpreterMissing"}, message: "/opt/none"},
		"env without it":            {script: "#!/usr/bin/env none-such\n", want: socket.Ending{ExitCode: 127, Reason: "InterpreterMissing"}, message: "none-such"},
		"no first line":             {script: "echo\n", want: socket.Ending{ExitCode: 126, Reason: "ScriptNotRunnable"}, message: "#!/bin/sh"},
		"a command":                 {command: []string{"sh", "-c", "echo $0 $1; exit 4", "a b", "c"}, want: socket.Ending{ExitCode: 4, Reason: "ScriptFailed"}, stdout: "a b c\n"},
		"no command":                {command: []string{"none-such"}, want: socket.Ending{ExitCode: 127, Reason: "CommandMissing"}, message: "none-such"},
		"variables that are too large": {command: []string{"true"}, request: socket.Request{Env: []socket.Variable{{Name: "V", Value: strings.Repeat("x", 128<<10)}}},
			want: socket.Ending{ExitCode: 126, Reason: "VariablesTooLarge"}, message: "files"},
		"forks that stay":    {script: "#!/bin/sh\nfor i in 1 2 3; do sleep 1000 & done\necho ready\n", stdout: "ready\n"},
		"50 daemons":         {script: daemons, stdout: ""},
		"50 daemons, failed": {script: daemons + "exit 9\n", want: socket.Ending{ExitCode: 9, Reason: "ScriptFailed"}},
		"a thread that outlives the first": {script: `#!/usr/bin/env python3
import ctypes, os, threading, time
if os.fork() == 0:
    os.setsid()
    threading.Thread(target=lambda: time.sleep(1000)).start()
    ctypes.CDLL(None).syscall(60, 0)
time.sleep(0.3)
`},
		"SIGTERM is ignored": {script: "#!/bin/sh\ntrap '' TERM\necho on\n>$READY\nwhile :; do sleep 0.1; done\n", request: socket.Request{Timeout: short, Grace: short},
			want: socket.Ending{ExitCode: 137, Signal: 9, TimedOut: true, Reason: "TimedOut"}, message: "timeout of ", stdout: "on\n"},
		"SIGTERM is handled": {script: "#!/bin/sh\ntrap 'echo bye; exit 0' TERM\n>$READY\nwhile :; do sleep 0.1; done\n", request: socket.Request{Timeout: short, Grace: time.Minute},
			want: socket.Ending{TimedOut: true, Reason: "TimedOut"}, message: "timeout of ", stdout: "bye\n"},
		"what a script has started handles SIGTERM": {
			script:  "#!/bin/sh\nsh -c 'trap \"sleep 0.5; echo released; exit\" TERM; >$READY; while :; do sleep 0.1; done'\n",
			request: socket.Request{Timeout: short, Grace: time.Minute}, want: socket.Ending{ExitCode: 143, Signal: 15, TimedOut: true, Reason: "TimedOut"}, stdout: "released\n"},
		"daemons beyond the timeout": {script: daemons + "while :; do sleep 1; done\n", request: socket.Request{Timeout: 3 * time.Second, Grace: time.Millisecond},
			want: socket.Ending{ExitCode: 137, Signal: 9, TimedOut: true, Reason: "TimedOut"}},
		"a full disk": {script: "#!/bin/sh\nset -e\necho begun\nhead -c 100000000 /dev/zero >$HOME/large\necho not here\n", set: (*scene).smallHome,
			want: socket.Ending{ExitCode: 1, Reason: "ScriptFailed"}, message: "code 1", stdout: "begun\n"},
		"stdout is closed":       {script: "#!/bin/sh\necho one\nexec >&-\necho two\necho err >&2\nexit 6\n", want: socket.Ending{ExitCode: 6, Reason: "ScriptFailed"}, stdout: "one\n"},
		"both are closed":        {script: "#!/bin/sh\nexec >&- 2>&-\nsleep 0.3\nexit 5\n", want: socket.Ending{ExitCode: 5, Reason: "ScriptFailed"}},
		"bytes without a text":   {script: "#!/bin/sh\nprintf '\\377\\000\\303(\\n\\360\\237'\n", stdout: "\xff\x00\xc3(\n\xf0\x9f"},
		"stdin is empty":         {script: "#!/bin/sh\ncat; read x || echo end\n", stdout: "end\n"},
		"SIGPIPE has its effect": {script: "#!/usr/bin/env bash\nset -o pipefail\nyes | head -n 1\necho ${PIPESTATUS[0]}\n", stdout: "y\n141\n"},
		"variables and folder": {script: "#!/bin/sh\necho $A $B $C $D\n[ \"$PWD\" = \"$HOME\" ] && echo at home\nenv | grep -c JOB_EXECUTOR\n",
			request: socket.Request{Env: []socket.Variable{{Name: "B", Value: "first"}, {Name: "C", Value: "c"}, {Name: "B", Value: "last"}}},
			want:    socket.Ending{ExitCode: 1, Reason: "ScriptFailed"}, stdout: "container last c\nat home\n0\n"},
		"permissions": {script: "#!/bin/sh\nchmod 0 $HOME $(dirname $0) $0 $(dirname $0)/../begun $(dirname $0)/executor.sock\necho done\n", stdout: "done\n"},
		"no socket":   {script: "#!/bin/sh\nrm -rf $(dirname $0)\necho done\n", stdout: "done\n"},
	} {
		for kind, one := range map[string]bool{"": false, ", process 1": true} {
			t.Run(what+kind, func(t *testing.T) {
				t.Parallel()
				s := newScene(t)
				if tt.set != nil {
					tt.set(s)
				}
				if one {
					s.processOne()
				}
				s.start()
				r := tt.request
				r.Script, r.Command = tt.script, tt.command
				r.Env = append([]socket.Variable{{Name: "OUT", Value: filepath.Join(s.home, "out")}}, r.Env...)
				ready := filepath.Join(s.home, "ready")
				r.Env = append(r.Env, socket.Variable{Name: "READY", Value: ready})
				last, e := job, end{}
				if r.Timeout > 0 {
					last, r, e = s.runReady(job, r, ready)
				} else {
					e = s.run(job, r)
				}
				got := *e.Ending
				if r.Timeout > 0 && !strings.Contains(got.Message, "its timeout of "+r.Timeout.String()) {
					t.Errorf("after %s the message is %q", r.Timeout, got.Message)
				}
				if !strings.Contains(got.Message, tt.message) || (got.Message == "") != (got.Reason == "") {
					t.Errorf("the message is %q", got.Message)
				}
				if got.Message = ""; got != tt.want {
					t.Errorf("it ended with %+v, not %+v", got, tt.want)
				}
				if e.stdout != tt.stdout || tt.stderr != "" && e.stderr != tt.stderr {
					t.Errorf("it printed %q and %q", e.stdout, e.stderr)
				}
				if e.left > 0 {
					t.Errorf("%d processes are left at its end", e.left)
				}
				if e.Stdout.Total != uint64(len(e.stdout)) && e.Stdout.Ended {
					t.Errorf("stdout is %+v, and %d bytes", e.Stdout, len(e.stdout))
				}
				for path, want := range map[string]string{"run": "dtrwxrwxrwx", "begun": "dtrwxrwxrwx", "run/executor.sock": "Srw-rw-rw-"} {
					about, err := os.Lstat(filepath.Join(s.dir, path))
					if s.must(err); about.Mode().String() != want {
						t.Errorf("%s has mode %s", path, about.Mode())
					}
				}
				// The runner is as before, also for a client that connects again.
				s.client = socket.NewClient(filepath.Join(s.dir, "run", "executor.sock"))
				if e := s.run(next(last), socket.Request{Script: "#!/bin/sh\necho next\n"}); e.stdout != "next\n" || e.Ending.Reason != "" {
					t.Errorf("the next one printed %q, %q and ended with %+v", e.stdout, e.stderr, e.Ending)
				}
			})
		}
	}
}

// A process that forks and ends, again and again, is in no list of processes. It ends too, or the status states that it
// has not.
func TestAProcessThatMovesOnIsNotForgotten(t *testing.T) {
	for kind, one := range map[string]bool{"process 1": true, "a subreaper": false} {
		t.Run(kind, func(t *testing.T) {
			s := newScene(t)
			if one {
				s.processOne()
			}
			file := filepath.Join(s.home, "out")
			e := s.start().run(job, socket.Request{Env: []socket.Variable{{Name: "OUT", Value: file}}, Script: `#!/usr/bin/env perl
use POSIX;
open(my $out, ">>", $ENV{OUT});
if (fork == 0) {
    POSIX::setsid();
    close(STDOUT); close(STDERR);
    my $until = time + 20;
    while (time < $until) { syswrite $out, 'x'; POSIX::_exit(0) if fork; }
    POSIX::_exit(0);
}
select undef, undef, undef, 0.3;
`})
			if !e.Ending.Leftover && s.moving(file) {
				t.Errorf("it still runs, and the ending is %+v", e.Ending)
			}
		})
	}
}

// moving reports whether a process of the scene writes a file.
func (s *scene) moving(file string) bool {
	before, err := os.Stat(file)
	s.must(err)
	time.Sleep(500 * time.Millisecond) // a process that is slower is missed
	after, err := os.Stat(file)
	s.must(err)
	return after.Size() > before.Size()
}

// smallHome mounts 64 MiB as the home.
func (s *scene) smallHome() {
	s.must(syscall.Mount("tmpfs", s.home, "tmpfs", 0, "size=64m"))
	s.Cleanup(func() { s.must(syscall.Unmount(s.home, syscall.MNT_DETACH)) })
}

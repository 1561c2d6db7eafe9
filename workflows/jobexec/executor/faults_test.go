package executor_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/tests/container"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/socket"
)

// counts appends a line to a file outside, so that it is known how often it ran.
func (s *scene) counts() string { return "#!/bin/sh\necho ran >>" + s.home + "/ledger\n" }

func (s *scene) ran() int {
	content, _ := os.ReadFile(filepath.Join(s.home, "ledger")) // none: never
	return bytes.Count(content, []byte("\n"))
}

func TestAnExecutionBeginsOnce(t *testing.T) {
	s := newScene(t).start()
	request := socket.Request{Script: s.counts()}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := s.client.Begin(s.ctx, job, request); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wait.Holds(t, "it has ended", func() bool {
		status, err := s.client.Begin(s.ctx, job, request)
		return err == nil && status.Phase == socket.PhaseTerminated
	})
	_, err := s.client.Begin(s.ctx, next(job), request)
	s.refused(err, socket.Busy)
	s.await(job)
	_, err = s.client.Begin(s.ctx, job, request)
	s.refused(err, socket.Lost)
	_, err = s.client.Stop(s.ctx, job)
	s.refused(err, socket.Lost)

	// One that was stopped before it began never begins.
	for range 2 {
		status, err := s.client.Stop(s.ctx, next(job))
		if err != nil || status.Ending == nil || !status.Ending.Canceled {
			t.Errorf("%+v, %v", status, err)
		}
	}
	before := s.state().Instance
	s.kill()
	s.start()
	if s.state().Instance == before {
		t.Error("another process has the same instance")
	}
	_, err = s.client.Begin(s.ctx, job, request)
	s.refused(err, socket.Lost)
	if status, err := s.client.Begin(s.ctx, next(job), request); err != nil || status.Ending == nil || !status.Ending.Canceled {
		t.Errorf("%+v, %v", status, err)
	}
	_, err = s.client.Status(s.ctx, next(next(job)), 0)
	s.refused(err, socket.NotBegun)
	if s.ran() != 1 {
		t.Errorf("the script ran %d times", s.ran())
	}
}

func (s *scene) state() socket.Executor {
	s.Helper()
	e, err := s.client.Executor(s.ctx)
	s.must(err)
	return e
}

// An executor that is killed leaves no script, and the next one reports that the outcome is unknown.
func TestAKilledExecutorLeavesNoScript(t *testing.T) {
	s := newScene(t).start()
	s.begin(job, socket.Request{Script: "#!/bin/sh\ntrap '' TERM\nwhile :; do sleep 1000; done\n"})
	wait.Holds(t, "it runs", func() bool { return len(s.processes()) > 1 })
	script := s.processes()
	s.must(s.cmd.Process.Kill())
	<-s.exited
	wait.Holds(t, "the script has ended", func() bool {
		content, err := os.ReadFile("/proc/" + strconv.Itoa(script[0]) + "/cmdline")
		return err != nil || !bytes.Contains(content, []byte("/run/script"))
	})
	s.start()
	_, err := s.client.Status(s.ctx, job, 0)
	s.refused(err, socket.Lost)
}

func TestStop(t *testing.T) {
	s := newScene(t).start()
	s.begin(job, socket.Request{Script: "#!/bin/sh\necho up\nexec sleep 1000\n"})
	wait.Holds(t, "it runs", func() bool { return s.state().Current.Stdout.Total > 0 })
	s.refused(s.client.Delete(s.ctx, job), socket.Running)
	for range 2 {
		if status, err := s.client.Stop(s.ctx, job); err != nil || !status.Stopped {
			t.Errorf("%+v, %v", status, err)
		}
	}
	if e := s.await(job); !e.Ending.Canceled || e.Ending.Signal != 15 || e.Ending.Reason != socket.Canceled || e.FinishedAt.Before(e.StartedAt) || e.left > 0 {
		t.Errorf("it ended with %+v, %+v", e, e.Ending)
	}
}

// SIGTERM ends the script and begins no other; the executor ends once the output was read.
func TestTheEndOfThePod(t *testing.T) {
	for kind, one := range map[string]bool{"process 1": true, "a subreaper": false} {
		t.Run(kind, func(t *testing.T) {
			s := newScene(t)
			if one {
				s.processOne()
			}
			s.start()
			s.begin(job, socket.Request{Script: "#!/bin/sh\ntrap 'echo last words; exit 0' TERM\necho up\nwhile :; do sleep 0.05; done\n"})
			wait.Holds(t, "it runs", func() bool { return s.state().Current.Stdout.Total > 0 })
			s.must(s.cmd.Process.Signal(syscall.SIGTERM))
			wait.Holds(t, "it is over", func() bool { return s.state().Current.Phase == socket.PhaseTerminated })
			_, err := s.client.Begin(s.ctx, next(job), socket.Request{Script: "#!/bin/sh\n"})
			s.refused(err, socket.Stopping)
			if e := s.await(job); e.stdout != "up\nlast words\n" || e.Ending.Reason != socket.PodTerminated || e.Ending.ExitCode != 0 {
				t.Errorf("it printed %q and ended with %+v", e.stdout, e.Ending)
			}
			<-s.exited
		})
	}
}

// Clients that are cut lose no output and get none twice; the executor keeps no more than it is allowed to.
func TestOutputOverManyClients(t *testing.T) {
	const size = 20 << 20
	s := newScene(t).start()
	s.begin(job, socket.Request{Script: fmt.Sprintf("#!/bin/sh\nhead -c %d /dev/urandom | tee $HOME/copy\nhead -c 1000 $HOME/copy >&2\n", size)})
	wait.Holds(t, "the script waits", func() bool { return s.state().Current.Stdout.Total == socket.MaxUnacknowledged })
	sum, read := sha256.New(), uint64(0)
	for into := make([]byte, socket.MaxChunk); ; {
		ctx, cancel := context.WithCancel(s.ctx)
		if rand.N(4) == 0 { //nolint:gosec // Not a secret.
			time.AfterFunc(time.Duration(rand.N(1000))*time.Microsecond, cancel) //nolint:gosec // Not a secret.
		}
		client := socket.NewClient(filepath.Join(s.dir, "run", "executor.sock"))
		chunk, err := client.Output(ctx, job, socket.Stdout, read, into)
		cancel()
		if err != nil {
			continue
		}
		if chunk.Offset != read {
			t.Fatalf("offset %d, not %d", chunk.Offset, read)
		}
		read += uint64(len(chunk.Data))
		_, _ = sum.Write(chunk.Data)
		if now := s.state().Current.Stdout; now.Total-now.Acknowledged > socket.MaxUnacknowledged {
			t.Fatalf("it keeps %+v", now)
		}
		if chunk.End {
			break
		}
	}
	content, err := os.ReadFile(filepath.Join(s.home, "copy"))
	s.must(err)
	if read != size || !bytes.Equal(sum.Sum(nil), sum256(content)) {
		t.Errorf("%d bytes were read, and they differ", read)
	}
	if got := s.output(job, socket.Stderr, 0); !bytes.Equal(got, content[:1000]) {
		t.Errorf("stderr has %d bytes", len(got))
	}
	if _, err = s.client.Output(s.ctx, job, socket.Stdout, size, nil); err != nil { // acknowledges all of it
		t.Error(err)
	}
	_, err = s.client.Output(s.ctx, job, socket.Stdout, size+1, nil)
	s.refused(err, socket.BadRequest)
	if chunk, err := s.client.Output(s.ctx, job, socket.Stdout, 5, nil); err != nil || chunk.Offset != size || !chunk.End {
		t.Errorf("acknowledged bytes are %+v, %v", chunk, err)
	}
}

func sum256(content []byte) []byte {
	sum := sha256.Sum256(content)
	return sum[:]
}

// A volume that the script has filled begins nothing, and reports why; the execution that filled it ends as it did.
func TestAFullVolume(t *testing.T) {
	s := newScene(t)
	s.must(syscall.Mount("tmpfs", s.dir, "tmpfs", 0, "size=64m"))
	t.Cleanup(func() { s.must(syscall.Unmount(s.dir, syscall.MNT_DETACH)) })
	s.install()
	s.start()
	e := s.run(job, socket.Request{Script: "#!/bin/sh\ncat /dev/zero >$(dirname $0)/large\nexit 8\n"})
	if e.Ending.ExitCode != 8 || !strings.Contains(e.stderr, "No space") {
		t.Errorf("it ended with %+v and printed %q", e.Ending, e.stderr)
	}
	request := socket.Request{Script: s.counts() + "#" + strings.Repeat(" ", 1<<16)} // larger than the one before
	_, err := s.client.Begin(s.ctx, next(job), request)
	s.refused(err, socket.VolumeFailed)
	s.must(os.Remove(filepath.Join(s.dir, "run", "large")))
	if e := s.run(next(job), request); e.Ending.Reason != "" || s.ran() != 1 {
		t.Errorf("it ran %d times and ended with %+v", s.ran(), e.Ending)
	}
}

// The main container can have any user.
func TestAnotherUser(t *testing.T) {
	s := newScene(t)
	s.attributes.Credential = &syscall.Credential{Uid: 12345, Gid: 12345}
	s.start()
	s.must(os.Chmod(s.home, 0o700)) // of root
	e := s.run(job, socket.Request{Script: "#!/bin/sh\npwd\nid -u\n" + strings.TrimPrefix(daemons, "#!/bin/sh\n"),
		Env: []socket.Variable{{Name: "OUT", Value: filepath.Join(s.dir, "run", "out")}, {Name: "READY", Value: filepath.Join(s.dir, "run", "ready")}}})
	if e.stdout != "/\n12345\n" || e.Ending.Reason != "" || e.left > 0 {
		t.Errorf("it printed %q, %q, left %d and ended with %+v", e.stdout, e.stderr, e.left, e.Ending)
	}
}

func TestFiles(t *testing.T) {
	s := newScene(t).start()
	in := func(name string) string { return filepath.Join(s.home, name) }
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	s.must(os.WriteFile(in("file"), content, 0o600))
	s.must(os.WriteFile(in("empty"), nil, 0o600))
	s.must(os.Symlink("file", in("link")))
	s.must(os.Symlink("/dev/zero", in("device")))
	s.must(os.Symlink("none", in("broken")))
	s.must(os.Symlink("round", in("round")))
	s.must(syscall.Mkfifo(in("pipe"), 0o600))
	for path, want := range map[string]string{
		in("file"): "", "file": "", in("link"): "", in("empty"): "", s.home + "/../" + filepath.Base(s.home) + "/file": "",
		in("none"): socket.FileMissing, in("broken"): socket.FileMissing, in("file/below"): socket.FileMissing, "": socket.NotAFile,
		in("device"): socket.NotAFile, "/dev/null": socket.NotAFile, in("pipe"): socket.NotAFile, s.home: socket.NotAFile,
		filepath.Join(s.dir, "run", "executor.sock"): socket.NotAFile, in("round"): socket.FileNotReadable, "/proc/cpuinfo": socket.FileNotReadable,
	} {
		file, size, err := s.client.File(s.ctx, path)
		if want != "" {
			s.refused(err, want)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		got, err := io.ReadAll(file)
		s.must(file.Close())
		if expected := content[:size]; err != nil || !bytes.Equal(got, expected) || size != int64(len(content)) && !strings.HasSuffix(path, "empty") {
			t.Errorf("%s: %d bytes of %d, %v", path, len(got), size, err)
		}
	}
	// A file that becomes shorter is not taken for a whole one.
	const large = 256 << 20
	s.must(os.Truncate(in("file"), large))
	file, size, err := s.client.File(s.ctx, "file")
	s.must(err)
	s.must(os.Truncate(in("file"), 10))
	got, err := io.Copy(io.Discard, file)
	if err == nil || size != large || got == large {
		t.Errorf("%d bytes of %d, %v", got, size, err)
	}
}

func TestRequestsThatAreNotValid(t *testing.T) {
	s := newScene(t).start()
	script := socket.Request{Script: "#!/bin/sh\n"}
	for _, ref := range []socket.Ref{{Job: "a.b", Execution: 1}, {Job: "a/b", Execution: 1}, {Job: "a", Execution: 0}, {Job: strings.Repeat("a", 64), Execution: 1}} {
		_, err := s.client.Begin(s.ctx, ref, script)
		s.refused(err, socket.BadRequest)
	}
	for _, r := range []socket.Request{{}, {Script: "#!/bin/sh\n", Command: []string{"x"}}, {Command: []string{""}}, {Command: []string{"a\x00b"}},
		{Script: "#!/bin/sh\n", Env: []socket.Variable{{Name: "A=B"}}}, {Script: "#!/bin/sh\n", Env: []socket.Variable{{Name: "A", Value: "\x00"}}}} {
		_, err := s.client.Begin(s.ctx, job, r)
		s.refused(err, socket.BadRequest)
	}
	if e := s.run(job, script); e.Ending.Reason != "" {
		t.Errorf("it ended with %+v", e.Ending)
	}
}

func TestAllMemory(t *testing.T) {
	const limit = 128 << 20
	large := "python3 -c 'x = bytearray(1 << 30)'\n"
	for what, tt := range map[string]struct {
		script  string
		want    socket.Ending
		message string
	}{
		"the script":             {"#!/usr/bin/env python3\nprint('begun', flush=True)\nx = bytearray(1 << 30)\n", socket.Ending{ExitCode: 137, Signal: 9, Reason: socket.OutOfMemory}, "memory limit"},
		"a child of the script":  {"#!/bin/sh\necho begun\n" + large + "exit $?\n", socket.Ending{ExitCode: 137, Reason: socket.OutOfMemory}, "exit code 137"},
		"a script that is ready": {"#!/bin/sh\necho begun\n" + large + "exit 0\n", socket.Ending{}, "memory limit"},
	} {
		for kind, one := range map[string]bool{"": false, ", process 1": true} {
			t.Run(what+kind, func(t *testing.T) {
				procs := container.Memory(t, limit)
				s := newScene(t)
				if one {
					s.processOne()
				}
				s.start()
				s.must(os.WriteFile(procs, []byte(strconv.Itoa(s.cmd.Process.Pid)), 0))
				e := s.run(job, socket.Request{Script: tt.script})
				got := *e.Ending
				if !strings.Contains(got.Message, tt.message) {
					t.Errorf("the message is %q", got.Message)
				}
				if got.Message = ""; got != tt.want || e.stdout != "begun\n" {
					t.Errorf("it printed %q and ended with %+v", e.stdout, got)
				}
				if e := s.run(next(job), socket.Request{Script: "#!/bin/sh\nexit 1\n"}); e.Ending.Reason != "ScriptFailed" {
					t.Errorf("the next one ended with %+v", e.Ending)
				}
				s.kill()
			})
		}
	}
}

// A process that the kernel does not end, here in a frozen cgroup, is reported, and the runner begins nothing more.
func TestAProcessThatCannotBeKilled(t *testing.T) {
	dir := fmt.Sprintf("/sys/fs/cgroup/freezer/switchyard-test-%d", rand.N(1<<30)) //nolint:gosec // Not a secret.
	if _, err := os.Stat("/sys/fs/cgroup/freezer/cgroup.procs"); err != nil || os.Mkdir(dir, 0o755) != nil {
		t.Skip("this machine has no cgroup that freezes processes and can be written")
	}
	t.Cleanup(func() { wait.Holds(t, "the cgroup is removed", func() bool { return os.Remove(dir) == nil }) })
	s := newScene(t).start()
	t.Cleanup(func() { s.must(os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0)) }) // before the executor is killed
	e := s.run(job, socket.Request{Script: "#!/bin/sh\nsleep 1000 &\necho $! >" + dir + "/cgroup.procs\necho FROZEN >" + dir + "/freezer.state\necho done\n"})
	if e.stdout != "done\n" || e.left != 1 || !e.Ending.Leftover || e.Ending.Reason != "" || e.Ending.Message != "1 of its processes cannot be killed" {
		t.Errorf("it printed %q, left %d and ended with %+v", e.stdout, e.left, e.Ending)
	}
	_, err := s.client.Begin(s.ctx, next(job), socket.Request{Script: "#!/bin/sh\n"})
	s.refused(err, socket.Leftover)
	if problem := s.state().Problem; problem == nil || problem.Reason != socket.Leftover {
		t.Errorf("the executor's problem is %v", problem)
	}
}

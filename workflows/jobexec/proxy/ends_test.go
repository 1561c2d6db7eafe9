package proxy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/durationpb"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/container"
	"switchyard.dev/tools/wait"
)

// scripts returns the processes with the environment of the executor, apart from it: parents count for nothing here.
func (w *world) scripts() (pids []int) {
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	w.must(err)
	for _, file := range all {
		text, _ := os.ReadFile(file) // it may have ended
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if bytes.Contains(text, []byte("WORLD="+w.dir+"\x00")) && pid != w.executor.PID() && pid != w.proxy.PID() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Each script of a pod that is reused ends with a true state and a clear reason, its output is stored, nothing runs at
// its end, and the next script runs as if it had been the first.
func TestEachScriptEndsTruly(t *testing.T) {
	w, c := begin(t)
	const daemons = `trap '' TERM HUP
i=0; while [ $i -lt 50 ]; do i=$((i+1)); setsid sh -c '(trap "" TERM HUP; echo up >>$WORLD/up; while :; do sleep 1000; done) &' >/dev/null 2>&1; done
while [ $(wc -l <$WORLD/up) -lt 50 ]; do sleep 0.05; done
rm $WORLD/up`
	for _, one := range []struct {
		job    string
		lines  []string
		time   time.Duration
		code   int32
		signal int32
		reason string
		out    string
	}{
		{job: "forks", lines: []string{"for i in 1 2 3 4 5; do sleep 1000 & done", "echo forked"}, out: "forked\n"},
		{job: "ignores-sigterm", lines: []string{"trap '' TERM", "echo on", "while :; do sleep 0.1; done"}, time: 300 * time.Millisecond, code: 137, signal: 9, reason: "TimedOut", out: "on\n"},
		{job: "daemons", lines: []string{daemons, "echo left"}, out: "left\n"},
		{job: "daemons-failed", lines: []string{daemons, "exit 9"}, code: 9, reason: "ScriptFailed"},
		{job: "closes-stdout", lines: []string{"echo one", "exec >&-", "echo two", "exit 6"}, code: 6, reason: "ScriptFailed", out: "one\n"},
		{job: "invalid-utf8", lines: []string{`printf '\377\000\303(\n\360\237'`}, out: "\xff\x00\xc3(\n\xf0\x9f"},
		{job: "reads-stdin", lines: []string{"cat", "read x || echo end"}, out: "end\n"},
		{job: "permissions", lines: []string{"chmod 0 $HOME $WORLD/volume/run $WORLD/volume/begun $WORLD/volume/run/executor.sock $0", "echo changed"}, out: "changed\n"},
		{job: "last", lines: []string{"exit 3"}, code: 3, reason: "ScriptFailed"},
	} {
		r := request(one.job, one.lines...)
		if one.time > 0 {
			r.Timeout, r.Grace = durationpb.New(one.time), durationpb.New(one.time)
		}
		w.run(c, r)
		end := w.end(c, r.Ref)
		if left := w.scripts(); len(left) > 0 {
			t.Errorf("%s: %d processes run at its end", one.job, len(left))
		}
		if e := end.GetEnding(); !e.GetKnown() || e.GetExitCode() != one.code || e.GetSignal() != one.signal || e.GetReason() != one.reason || (e.GetMessage() == "") != (e.GetReason() == "") || e.GetLeftover() {
			t.Errorf("%s ended with %v", one.job, e)
		}
		if out := w.logs(c, r.Ref, stdout); out != one.out || end.GetStdout().GetTotal() != uint64(len(out)) {
			t.Errorf("%s printed %q of %v", one.job, out, end.GetStdout())
		}
	}
}

// A script that uses all memory of the main container ends with this reason, and its output is stored.
func TestAllMemoryIsUsed(t *testing.T) {
	procs := container.Memory(t, 128<<20)
	w := newWorld(t)
	w.startExecutor()
	w.must(os.WriteFile(procs, []byte(strconv.Itoa(w.executor.PID())), 0))
	w.startProxy()
	c := w.controller()
	w.ready(c)
	t.Cleanup(w.executor.Kill) // before the cgroup is removed
	r := request("large", "echo begun", "python3 -c 'x = bytearray(1 << 30)'", "exit $?")
	w.run(c, r)
	end := w.end(c, r.Ref).GetEnding()
	if left := w.scripts(); len(left) > 0 {
		t.Errorf("%d processes run at its end", len(left))
	}
	if !end.GetKnown() || end.GetExitCode() != 137 || end.GetReason() != "OutOfMemory" || !strings.Contains(end.GetMessage(), "memory limit") {
		t.Errorf("it ended with %v", end)
	}
	if out := w.logs(c, r.Ref, stdout); out != "begun\n" {
		t.Errorf("it printed %q", out)
	}
}

// A script that fills the disk of all volumes of its pod, also of that with the output, ends as it did: the space for
// the result is reserved. Nothing begins until there is space again.
func TestAFullDiskLosesNoResult(t *testing.T) {
	disk, err := os.MkdirTemp("", "disk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(disk) })
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Skip("needs root: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	t.Setenv("TMPDIR", disk) // where the world has its folders
	w, c := begin(t)
	r := request("fills", "echo before", "cat /dev/zero >$HOME/large", "echo after", "head -c 3000000 /dev/zero >&2", "exit 8")
	r.Artifacts = []*jobexecv1.ArtifactSpec{{Path: "large", Meta: map[string]string{"k": strings.Repeat("v", 100<<10)}}}
	w.run(c, r)
	check := func() {
		t.Helper()
		end := w.end(c, r.Ref)
		if e := end.GetEnding(); !e.GetKnown() || e.GetExitCode() != 8 || e.GetReason() != "ScriptFailed" {
			t.Errorf("it ended with %v", e)
		}
		if out := w.logs(c, r.Ref, stdout); !strings.HasPrefix(out, "before\n") || end.GetStdout().GetTotal() != 13 || end.GetStderr().GetTotal() < 3_000_000 {
			t.Errorf("it printed %q: %v", out, end)
		}
		if a := end.GetArtifacts(); len(a) != 1 || !strings.Contains(a[0].GetProblem(), "full") || len(a[0].GetMeta()["k"]) != 100<<10 {
			t.Errorf("the artifact has problem %q", a[0].GetProblem())
		}
	}
	check()
	if left := w.scripts(); len(left) > 0 {
		t.Errorf("%d processes run at its end", len(left))
	}
	w.proxy.Kill() // the result is stored
	w.startProxy()
	w.ready(c)
	check()
	next := request("next", "echo next")
	if _, err := c.Run(t.Context(), next); err == nil || !strings.Contains(err.Error(), "space") {
		t.Errorf("it begins on a full disk: %v", err)
	}
	w.must(os.Remove(filepath.Join(w.dir, "home", "large")))
	w.run(c, next)
	if end := w.end(c, next.Ref).GetEnding(); !end.GetKnown() || end.GetReason() != "" {
		t.Errorf("the next ended with %v", end)
	}
	wait.Holds(t, "its output is there", func() bool { return w.logs(c, next.Ref, stdout) == "next\n" })
}

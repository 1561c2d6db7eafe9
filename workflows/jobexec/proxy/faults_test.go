package proxy_test

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/cable"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/socket"
	"switchyard.dev/workflows/jobexec/ticket"
)

// cutting is a hash that cuts a cable after each part of its input.
type cutting struct {
	hash.Hash
	cable       *cable.Cable
	part, since int
	cuts        int
}

func (c *cutting) Write(p []byte) (int, error) {
	if c.since += len(p); c.since > c.part {
		c.since = 0
		c.cuts++
		c.cable.Cut()
	}
	return c.Hash.Write(p)
}

// 100 MB of random lines arrive as they were printed, through a reader of each stream that is cut 100 times, while the
// proxy is killed again and again.
func TestOutputIsWholeThroughCutsAndKills(t *testing.T) {
	const size, cuts = 50 << 20, 100
	w, c := begin(t)
	print := fmt.Sprintf("base64 -w 99 /dev/urandom | head -c %d | tee $WORLD/", size)
	r := request("lines", print+"stdout.sent & "+print+"stderr.sent >&2 & wait")
	w.run(c, r)
	var readers sync.WaitGroup
	for kind, file := range map[jobexecv1.LogsRequest_Kind]string{stdout: "stdout.sent", stderr: "stderr.sent"} {
		readers.Go(func() {
			line := cable.Lay(t, "127.0.0.1", w.address)
			got := &cutting{Hash: sha256.New(), cable: line, part: size / (cuts + cuts/4)}
			reader := w.client(line.Address, ticket.Claims{PodUID: podUID, JobUID: "lines", User: "ada", Verbs: []ticket.Verb{ticket.Read}})
			end, err := reader.Logs(t.Context(), &jobexecv1.LogsRequest{Ref: r.Ref, Kind: kind, Follow: true}, client.To(got, 0, true))
			if err != nil || end != size || got.cuts < cuts {
				t.Errorf("%s: %d bytes, %d cuts, %v", file, end, got.cuts, err)
			}
			sent, hash := open(t, filepath.Join(w.dir, file)), sha256.New()
			if _, err := io.Copy(hash, sent); err != nil || string(hash.Sum(nil)) != string(got.Sum(nil)) {
				t.Errorf("%s: the checksums differ: %v", file, err)
			}
		})
	}
	kills := 0
	for range 8 {
		time.Sleep(time.Duration(50+rand.IntN(400)) * time.Millisecond)
		if s, err := c.Run(t.Context(), r); err == nil && s.GetPhase() != jobexecv1.Status_TERMINATED {
			kills++
		}
		w.proxy.Kill()
		w.startProxy()
	}
	readers.Wait()
	if end := w.end(c, r.Ref); !end.GetEnding().GetKnown() || end.GetEnding().GetReason() != "" || end.GetStdout().GetTotal() != size || end.GetStderr().GetTotal() != size {
		t.Errorf("it ended with %v", end)
	}
	t.Logf("the proxy was killed %d times while the script ran", kills)
}

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Error(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Each script runs exactly once and ends with its own exit code, whenever the proxy is killed.
func TestKillsOfTheProxyChangeNoOutcome(t *testing.T) {
	w, c := begin(t)
	stop, killing := make(chan struct{}), sync.WaitGroup{}
	killing.Go(func() {
		for {
			for reachable := rand.IntN(4) > 0; reachable; { // else it is killed when it has just started
				_, err := c.Runner(t.Context(), &jobexecv1.RunnerRequest{})
				reachable = err != nil && t.Context().Err() == nil
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rand.IntN(400)) * time.Millisecond):
				w.proxy.Kill()
				w.startProxy()
			}
		}
	})
	const executions = 25
	for i := range executions {
		r := request(fmt.Sprint("job-", i), fmt.Sprintf("echo %d | tee -a $WORLD/ledger; sleep 0.0%d; echo %d > file; exit %d", i, rand.IntN(9)+1, i, i%4))
		r.Artifacts = []*jobexecv1.ArtifactSpec{{Path: "file"}}
		w.run(c, r)
		end := w.end(c, r.Ref)
		if e := end.GetEnding(); !e.GetKnown() || int(e.GetExitCode()) != i%4 || (e.GetReason() == "") != (i%4 == 0) || end.GetArtifacts()[0].GetProblem() != "" {
			t.Errorf("execution %d ended with %v", i, end)
		}
		wait.Holds(t, "its output is there", func() bool { return w.logs(c, r.Ref, stdout) == fmt.Sprintln(i) })
	}
	close(stop)
	killing.Wait()
	ledger, err := os.ReadFile(filepath.Join(w.dir, "ledger"))
	w.must(err)
	for i := range executions {
		if n := strings.Count("\n"+string(ledger), fmt.Sprintf("\n%d\n", i)); n != 1 {
			t.Errorf("script %d has run %d times", i, n)
		}
	}
}

// When the executor ends, with the proxy or alone, the outcome is not known, the output stays, and nothing runs twice.
func TestAnExecutorThatIsKilledLeavesNoOutcome(t *testing.T) {
	w, c := begin(t)
	for i := range 4 {
		r := request(fmt.Sprint("job-", i), "echo begun | tee -a $WORLD/ledger", "echo > file", "sleep 1000")
		r.Artifacts = []*jobexecv1.ArtifactSpec{{Path: "file"}}
		w.run(c, r)
		wait.Holds(t, "it prints", func() bool { return w.logs(c, r.Ref, stdout) == "begun\n" })
		if i%2 == 1 {
			w.proxy.Kill()
		}
		w.executor.Kill()
		wait.Holds(t, "its script ends, as with process 1 of a container", func() bool {
			left := w.scripts()
			for _, pid := range left {
				_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
			}
			return len(left) == 0
		})
		w.startExecutor()
		if i%2 == 1 {
			w.startProxy()
		}
		end := w.end(c, r.Ref)
		if e := end.GetEnding(); e.GetKnown() || e.GetReason() != layout.ExecutorLost || end.GetArtifacts()[0].GetProblem() == "" {
			t.Errorf("it ended with %v", end)
		}
		if out := w.logs(c, r.Ref, stdout); out != "begun\n" {
			t.Errorf("printed: %q", out)
		}
		if again, err := c.Run(t.Context(), r); err != nil || again.GetEnding().GetKnown() {
			t.Errorf("begun again: %v, %v", again, err)
		}
		w.ready(c)
	}
	if ledger, err := os.ReadFile(filepath.Join(w.dir, "ledger")); err != nil || strings.Count(string(ledger), "begun") != 4 {
		t.Errorf("%q, %v", ledger, err)
	}
}

// A store that is lost begins nothing again: the record is in the volume of the executor.
func TestALostStoreBeginsNothingAgain(t *testing.T) {
	w, c := begin(t)
	r := request("job", "echo begun >> $WORLD/ledger")
	w.run(c, r)
	w.end(c, r.Ref)
	w.proxy.Kill()
	w.must(os.RemoveAll(w.store))
	w.startProxy()
	w.ready(c)
	w.run(c, r)
	if end := w.end(c, r.Ref); end.GetEnding().GetKnown() {
		t.Errorf("it ended with %v", end)
	}
	if ledger, err := os.ReadFile(filepath.Join(w.dir, "ledger")); err != nil || string(ledger) != "begun\n" {
		t.Errorf("%q, %v", ledger, err)
	}
}

// A full volume loses output and artifacts, which is stated, and no result.
func TestAFullVolumeLosesNoResult(t *testing.T) {
	w := newWorld(t)
	w.must(os.MkdirAll(w.store, 0o700))
	if err := unix.Mount("tmpfs", w.store, "tmpfs", 0, "size=3m"); err != nil {
		t.Skip("needs root: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(w.store, unix.MNT_DETACH) })
	w.startExecutor()
	w.startProxy()
	c := w.controller()
	w.ready(c)
	for i := range 3 {
		r := request(fmt.Sprint("job-", i), "head -c 20000000 /dev/zero", "head -c 1000000 /dev/zero >&2", "head -c 5000000 /dev/zero > large", "exit 4")
		r.Artifacts = []*jobexecv1.ArtifactSpec{{Path: "large"}}
		w.run(c, r)
		end := w.end(c, r.Ref)
		if e := end.GetEnding(); !e.GetKnown() || e.GetExitCode() != 4 || end.GetStdout().GetTotal() != 20_000_000 || end.GetStderr().GetTotal() != 1_000_000 {
			t.Errorf("it ended with %v", end)
		}
		if s := end.GetStdout(); s.GetHead() == 0 || s.GetTailFrom() <= s.GetHead() || !strings.Contains(end.GetArtifacts()[0].GetProblem(), "full") {
			t.Errorf("stored are %v and %v", s, end.GetArtifacts())
		}
		if out := w.logs(c, r.Ref, stdout); !strings.Contains(out, "of this output are lost") {
			t.Errorf("%d bytes without a marker", len(out))
		}
		w.proxy.Kill()
		w.startProxy()
		w.ready(c)
		if again := w.end(c, r.Ref); again.GetEnding().GetExitCode() != 4 || again.GetStdout().GetTotal() != 20_000_000 || again.GetArtifacts()[0].GetProblem() == "" {
			t.Errorf("after a restart: %v", again)
		}
	}
}

// An execution that the executor still has, and the store does not have or has completed, does not block the next one.
func TestAnExecutionThatIsLeftIsDeleted(t *testing.T) {
	w, c := begin(t)
	first := request("first", "echo first")
	w.run(c, first)
	w.end(c, first.Ref)
	executor := socket.NewClient(filepath.Join(w.volume, "run/executor.sock"))
	for i, complete := range []bool{false, true} {
		w.proxy.Kill()
		left := socket.Ref{Job: fmt.Sprint("left-", complete), Execution: 1}
		if _, err := executor.Begin(t.Context(), left, socket.Request{Script: "#!/bin/sh\necho left; sleep 1000"}); err != nil {
			t.Fatal(err)
		}
		if complete {
			w.must(os.CopyFS(filepath.Join(w.store, left.Job+"_1"), os.DirFS(filepath.Join(w.store, "first_1"))))
		}
		w.startProxy()
		next := request(fmt.Sprint("next-", i), "echo next")
		w.run(c, next)
		if end := w.end(c, next.Ref); end.GetEnding().GetReason() != "" || !end.GetEnding().GetKnown() {
			t.Errorf("it ended with %v", end)
		}
	}
}

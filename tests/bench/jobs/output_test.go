package jobs

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/ticket"
)

const (
	roleWriter = "writer"
	// size is how much a script writes, at speed bytes a second, in parts.
	size, speed, part = 1_000_000_000, 100_000_000, 1_000_000
)

// evenly writes size bytes at an even speed.
func evenly(to io.Writer) error {
	line := make([]byte, part)
	for i := range line {
		if line[i] = byte('a' + i%26); i%100 == 99 {
			line[i] = '\n'
		}
	}
	begun := time.Now()
	for i := range size / part {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * time.Second * part / speed)))
		if _, err := to.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// output is a runner without a manager.
type output struct {
	testing.TB
	runner *runners.Runner
	client *client.Client
	uid    string
}

func newOutput(t testing.TB) *output {
	t.Helper()
	authority := runners.NewAuthority(t)
	o := &output{TB: t, runner: runners.New(t, authority), uid: "bench-pod"}
	o.runner.Start(o.uid)
	pem, err := authority.PEM()
	o.must(err)
	o.client, err = client.New(client.Runner{Address: net.JoinHostPort(o.runner.IP, strconv.Itoa(layout.Port)), PodUID: o.uid, Authority: pem,
		Ticket: func(context.Context) (string, time.Time, error) {
			return authority.Issue(ticket.Claims{PodUID: o.uid, JobUID: ticket.AnyJob, User: "bench", Verbs: []ticket.Verb{ticket.Run}})
		}})
	o.must(err)
	t.Cleanup(func() { _ = o.client.Close() })
	return o
}

func (o *output) must(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

// ran is what an execution did.
type ran struct {
	status *jobexecv1.Status
	// received is what a reader that followed it got, within took.
	received uint64
	took     time.Duration
	// disk is the most that the folders of the runner had allocated, in MiB.
	disk float64
}

// run runs a script, while a reader follows its output.
func (o *output) run(job, script string) (out ran) {
	o.Helper()
	ref := &jobexecv1.ExecutionRef{JobUid: job, Execution: 1}
	stop := background.Run(o, func(ctx context.Context) error {
		for wait.For(ctx, 100*time.Millisecond) == nil {
			out.disk = max(out.disk, allocated(o.runner.Dir))
		}
		return nil
	})
	o.must(wait.Until(o.Context(), time.Minute, "the execution begins", func() error {
		_, err := o.client.Run(o.Context(), &jobexecv1.RunRequest{Ref: ref, Fence: &jobexecv1.Fence{PodUid: o.uid}, JobName: job, Script: "#!/bin/sh\n" + script + "\n"})
		return err
	}))
	begun := time.Now()
	_, err := o.client.Logs(o.Context(), &jobexecv1.LogsRequest{Ref: ref, Kind: jobexecv1.LogsRequest_STDOUT, Follow: true}, func(c *jobexecv1.Chunk) error {
		out.received += uint64(len(c.GetData()))
		return nil
	})
	o.must(err)
	out.took = time.Since(begun)
	stream, err := o.client.Watch(o.Context(), ref)
	o.must(err)
	for out.status.GetPhase() != jobexecv1.Status_TERMINATED || !out.status.GetArtifactsComplete() {
		out.status, err = stream.Recv()
		o.must(err)
	}
	stop()
	if e := out.status.GetEnding(); e.GetExitCode() != 0 || !e.GetKnown() || out.status.GetStdout().GetTotal() != size {
		o.Fatalf("job %s: %v", job, out.status)
	}
	_, err = o.client.Release(o.Context(), ref)
	o.must(err)
	return out
}

// allocated returns what the files of a folder have on disk, in MiB.
func allocated(dir string) (mib float64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // Files come and go.
		}
		if info, err := e.Info(); err == nil {
			if s, is := info.Sys().(*syscall.Stat_t); is {
				mib += float64(s.Blocks) * 512 / (1 << 20)
			}
		}
		return nil
	})
	return mib
}

func TestOutput(t *testing.T) {
	o := newOutput(t)
	before := allocated(o.runner.Dir)
	self, err := os.Executable()
	o.must(err)
	even := o.run("even", fmt.Sprintf("SWITCHYARD_ROLE=%s exec %s", roleWriter, self))
	lasted := even.status.GetFinishedAt().AsTime().Sub(even.status.GetStartedAt().AsTime())
	figures.AtLeast(&report, "jobs-speed-of-a-script-of-100-MB/s", size/lasted.Seconds()/speed, "of it", 0.9)
	figures.Print(&report, "jobs-received-live-of-it", float64(even.received)/size, "of the output")
	figures.AtMost(&report, "jobs-disk-per-stream", even.disk-before, "MiB", 130)
	executor, proxy := o.runner.PIDs()
	_, a, err := process.Memory(executor)
	o.must(err)
	_, b, err := process.Memory(proxy)
	o.must(err)
	figures.AtMost(&report, "jobs-memory-of-executor-and-proxy", a+b, "MiB", 48)
	figures.Print(&report, "jobs-memory-of-the-executor", a, "MiB")
	figures.Print(&report, "jobs-memory-of-the-proxy", b, "MiB")
	fast := o.run("fast", fmt.Sprintf("head -c %d /dev/zero", size))
	figures.AtLeast(&report, "jobs-live-logs", float64(fast.received)/1e6/fast.took.Seconds(), "MB/s", 50)
	figures.Print(&report, "jobs-live-logs-received", float64(fast.received)/size, "of the output")
}

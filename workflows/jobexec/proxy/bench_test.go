package proxy_test

import (
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/process"
	"switchyard.dev/workflows/jobexec/client"
)

// BenchmarkOutput prints figures of a script that writes 1 GB as fast as it can, with a reader that follows it, and of
// stored output.
func BenchmarkOutput(b *testing.B) {
	const size = 1 << 30
	for b.Loop() {
		w, c := begin(b)
		for _, read := range []bool{false, true} {
			r := request(fmt.Sprint("live-", read), fmt.Sprintf("head -c %d /dev/zero", size))
			done := make(chan uint64, 1)
			at, before := time.Now(), w.computed()
			w.run(c, r)
			if read {
				go func() {
					got := uint64(0)
					_, err := c.Logs(b.Context(), &jobexecv1.LogsRequest{Ref: r.Ref, Kind: stdout, Follow: true}, func(c *jobexecv1.Chunk) error { got += uint64(len(c.GetData())); return nil })
					w.must(err)
					done <- got
				}()
			}
			end := w.end(c, r.Ref)
			name := "jobexec_write_alone"
			if read {
				received := <-done
				figures.AtLeast(os.Stdout, "jobexec_live_logs", float64(received)/1e6/time.Since(at).Seconds(), "MB/s", 50)
				figures.Print(os.Stdout, "jobexec_live_logs_received", float64(received)/size, "of the output")
				name = "jobexec_write_followed"
			}
			figures.AtLeast(os.Stdout, name, size/1e6/end.GetFinishedAt().AsTime().Sub(end.GetStartedAt().AsTime()).Seconds(), "MB/s", 90)
			for i, now := range w.computed() {
				figures.Print(os.Stdout, name+[]string{"_executor_cpu", "_proxy_cpu"}[i], (now-before[i]).Seconds()*1e9/size, "s for 1 GB")
			}
			if end.GetStdout().GetTotal() != size {
				b.Error(end)
			}
			at = time.Now()
			n, err := c.Logs(b.Context(), &jobexecv1.LogsRequest{Ref: r.Ref, Kind: stdout}, client.To(io.Discard, 0, true))
			w.must(err)
			figures.AtLeast(os.Stdout, "jobexec_stored_logs", 129/time.Since(at).Seconds(), "MiB/s", 50)
			if n != size {
				b.Errorf("read up to %d", n)
			}
		}
		_, executor, err := process.Memory(w.executor.PID())
		w.must(err)
		_, proxy, err := process.Memory(w.proxy.PID())
		w.must(err)
		figures.Print(os.Stdout, "jobexec_executor_memory", executor, "MB at most")
		figures.AtMost(os.Stdout, "jobexec_memory", executor+proxy, "MB at most, of executor and proxy", 48)
	}
}

// computed returns the processor time of the executor and the proxy so far.
func (w *world) computed() [2]time.Duration {
	return [2]time.Duration{process.Computed(w.executor.PID()), process.Computed(w.proxy.PID())}
}

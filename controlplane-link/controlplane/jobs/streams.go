package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/results"
)

const (
	// firstPause and lastPause are those between reads of a job without new output.
	firstPause, lastPause = 100 * time.Millisecond, time.Second
	// quiet is the default of Streams.Quiet. writeWithin bounds writes, from the flush before: a client that reads nothing does not keep
	// its stream open. It is longer than Quiet, because HTTP/2 ends a stream then, also while nothing is written.
	quiet, writeWithin = 15 * time.Second, 2 * time.Minute
	// firstDial and lastDial are the pauses after a runner was not reached: each attempt costs the agent a review of its token.
	firstDial, lastDial = time.Second, 15 * time.Second
	// collectWithin is how long a stream waits for the output of a job that has ended.
	collectWithin = 2 * time.Minute
)

// Streams serves output streams of jobs.
type Streams struct {
	Store jobstore.Store
	Keys  *seal.Keys
	Kept  *results.Kept
	Dial  Dial
	// Quiet is for how long a stream is without output before it has a comment, less than a minute; 0: 15 s.
	Quiet time.Duration
	pairs pairs
}

// Request is a request for an output stream.
type Request struct {
	Job    model.Job
	Stream string // results.Stdout or Stderr
	Cursor string
	Tail   uint64
	// Reader is the name of the client: both streams of a job that it has open end together.
	Reader string
}

// stream is one that is served.
type stream struct {
	*Streams
	sink
	request Request
	tail    uint64
	// read is the execution of which everything was read from its runner.
	read  int32
	began time.Time
	wrote time.Time
	// mu is locked for writes while output is read from a runner.
	mu sync.Mutex
	// dial is when the runner may be dialled again, and pause the last pause before that; 0: it was reached.
	dial  time.Time
	pause time.Duration
}

// Serve returns a function that writes a stream until the job has ended and everything is written, or ctx ends. The error is
// ErrCursor.
func (s *Streams) Serve(q Request) (func(ctx context.Context, w http.ResponseWriter), error) {
	st := &stream{Streams: s, request: q, tail: q.Tail, began: time.Now()}
	st.sink = sink{keys: s.Keys, job: q.Job, name: q.Stream, known: q.Tail == 0}
	if q.Cursor != "" {
		at, err := parse(s.Keys, q.Job, q.Stream, q.Cursor)
		if err != nil {
			return nil, err
		}
		st.at, st.tail, st.known = at, 0, true
	}
	return st.serve, nil
}

func (s *stream) serve(ctx context.Context, w http.ResponseWriter) {
	c := http.NewResponseController(w)
	within := func() { _ = c.SetWriteDeadline(time.Now().Add(writeWithin)) } // a recorder of a test has none
	within()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	s.to, s.wrote = w, time.Now()
	s.flush = func() error { s.wrote = time.Now(); defer within(); return c.Flush() }
	if s.flush() != nil {
		return
	}
	leave := s.pairs.enter(s.request.Reader + " " + place(s.request.Job, ""))
	err := s.run(ctx)
	if err == nil {
		err = s.end()
	}
	if leave(ctx); err != nil { // the reader has gone
		return
	}
	if s.signal("EOF") == nil {
		_ = s.flush() // the reader has gone
	}
}

// run writes the stream until its end. An error is that of the reader.
func (s *stream) run(ctx context.Context) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		j, err := s.Store.Job(ctx, s.request.Job.Org, s.request.Job.Name)
		if errors.Is(err, model.ErrNotFound) {
			return nil // it was deleted
		}
		if err == nil {
			s.restart(j)
			before := s.at
			done, err := s.step(ctx, j)
			if done || err != nil {
				return err
			}
			if s.at != before {
				pause = firstPause
			}
		}
		if err := s.beat(); err != nil {
			return err
		}
		if !wake.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// beat writes a comment if there was no output for a time. An error is that of the reader.
func (s *stream) beat() error {
	if time.Since(s.wrote) <= cmp.Or(s.Quiet, quiet) {
		return nil
	}
	if _, err := io.WriteString(s.to, ": no output\n\n"); err != nil {
		return err
	}
	return s.flush()
}

// beats writes comments during a read from a runner, until ctx ends. A reader that has gone ends the read.
func (s *stream) beats(ctx context.Context, end context.CancelFunc) {
	for wake.Sleep(ctx, lastPause) {
		s.mu.Lock()
		err := s.beat()
		s.mu.Unlock()
		if err != nil {
			end()
		}
	}
}

// restart begins again if the job has another execution than the one that was read.
func (s *stream) restart(j model.Job) {
	is := j.Attempt.Executions
	if s.at.execution != 0 && is != 0 && s.at.execution != is {
		s.rest, s.known = nil, true
		_ = s.signal("RESTART") // the next write fails, too
		s.at.offset = 0
	}
	if is != 0 {
		s.at.execution = is
	}
}

// step writes what there is to write now. done: nothing follows. An error is that of the reader.
func (s *stream) step(ctx context.Context, j model.Job) (done bool, err error) {
	a := j.Attempt
	switch final := a.Phase.Final(); {
	case !final && a.Phase == model.PhaseRunning && s.read != a.Executions:
		return false, s.live(ctx, j, true)
	case !final:
		return false, nil
	case a.Output == "":
		return true, nil
	case s.Kept == nil:
		return true, s.live(ctx, j, false)
	}
	m, err := s.Kept.Manifest(ctx, j.Org, j.Name)
	switch {
	case ctx.Err() != nil:
		return true, ctx.Err()
	case err == nil && m != nil && m.Execution == a.Executions:
		return true, s.stored(ctx, j, m.File(results.System, s.request.Stream))
	case a.Output == crdv1.OutputLost:
		return true, s.raw("error", "the output of the job was lost before it was collected")
	case time.Since(s.began) > collectWithin:
		return true, s.raw("error", fmt.Sprintf("the output of the job is not collected yet; cluster %s may be away, or its agent older than the control plane", j.Cluster))
	}
	return false, nil
}

// live writes what the runner of a job has. Only errors of the reader are returned: others are tried again.
func (s *stream) live(ctx context.Context, j model.Job, follow bool) (failed error) {
	if s.Dial == nil || time.Now().Before(s.dial) {
		return nil
	}
	a := j.Attempt
	from, err := s.Dial(ctx, registry.Cluster{Organisation: j.Org, Name: j.Cluster}, j.Name, a.PodUID)
	if err != nil {
		s.pause = min(max(2*s.pause, firstDial), lastDial)
		s.dial = time.Now().Add(s.pause)
		return nil
	}
	s.pause = 0
	defer func() { _ = from.Close() }() // nothing is kept in it
	ctx, cancel := context.WithCancel(ctx)
	var beating sync.WaitGroup
	defer beating.Wait()
	defer cancel()
	beating.Go(func() { s.beats(ctx, cancel) })
	go s.watch(ctx, cancel, j)
	s.rest = nil // the offset is before it
	_, err = from.Logs(ctx, &jobexecv1.LogsRequest{
		Ref: &jobexecv1.ExecutionRef{JobUid: a.UID, Execution: uint32(a.Executions)}, Kind: client.Streams[s.request.Stream], Offset: s.at.offset, Follow: follow, TailLines: s.tail,
	}, func(c *jobexecv1.Chunk) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tail = 0
		failed = s.chunk(c.GetOffset(), c.GetData())
		return failed
	})
	if err == nil && follow {
		s.read, s.tail = a.Executions, 0
	}
	return failed
}

// watch ends a read from a runner some time after its execution has ended: the runner may not be reached any more.
func (s *stream) watch(ctx context.Context, cancel func(), j model.Job) {
	for wake.Sleep(ctx, 5*lastPause) {
		now, err := s.Store.Job(ctx, j.Org, j.Name)
		if errors.Is(err, model.ErrNotFound) || err == nil && (now.Attempt.Phase.Final() || now.Attempt.Executions != j.Attempt.Executions) {
			if wake.Sleep(ctx, 5*lastPause) {
				cancel()
			}
			return
		}
	}
}

// stored writes the collected file of the stream.
func (s *stream) stored(ctx context.Context, j model.Job, f *results.File) error {
	s.rest = nil // the offset is before it
	if f == nil {
		return nil
	}
	var failed error
	err := s.Kept.Read(ctx, j.Org, j.Name, f, s.at.offset, s.tail, func(at uint64, data []byte) error {
		s.tail = 0
		failed = s.chunk(at, data)
		return failed
	})
	if err != nil && failed == nil && ctx.Err() == nil {
		return s.raw("error", "the output of the job cannot be read")
	}
	return err
}

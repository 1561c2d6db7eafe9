package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/wake"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/artifacts"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/output"
	"switchyard.dev/workflows/jobexec/routing"
	"switchyard.dev/workflows/jobexec/socket"
	"switchyard.dev/workflows/script"
)

// artifactsWithin bounds the copying of all artifacts of a job.
const artifactsWithin = 15 * time.Minute

// supervise collects an execution until its ending and its artifacts are stored. begun reports whether the executor has
// acknowledged that it has begun.
func (r *runner) supervise(e *execution, begun bool) {
	if ended, _, _ := e.ended(); !ended {
		last, err := r.attend(e, begun)
		if r.ctx.Err() != nil {
			return // the next process continues
		}
		r.finish(e, last, err)
		r.routing.End(e.requests)
	}
	if _, complete, _ := e.ended(); r.ctx.Err() == nil && !complete {
		r.files(e)
	}
	r.logger.Info("the execution of a job has ended", "execution", e.String())
}

// attend copies both streams, and follows the status, until the execution has ended. An error is why the rest of the output
// cannot be read, and, unless last is terminated, why the ending cannot be known.
func (r *runner) attend(e *execution, begun bool) (last socket.Status, err error) {
	if !begun {
		if err := r.rejoin(e); err != nil {
			return last, err
		}
	}
	all, ctx := errgroup.WithContext(r.ctx)
	for i, name := range []socket.Stream{socket.Stdout, socket.Stderr} {
		all.Go(func() error { return r.copy(ctx, e, name, e.streams[i]) })
	}
	all.Go(func() error {
		for last.Phase != socket.PhaseTerminated {
			err := r.retry(ctx, func(ctx context.Context) (err error) {
				last, err = r.executor.Status(ctx, e.Ref, last.Version)
				return err
			})
			if err != nil {
				return err
			}
			e.follow(last)
		}
		return nil
	})
	err = all.Wait()
	return last, err
}

// rejoin begins an execution of which it is not known whether it has begun: at most once, and only in the start of the
// executor for which it was stored.
func (r *runner) rejoin(e *execution) error {
	err := r.retry(r.ctx, func(ctx context.Context) error {
		state, err := r.executor.Executor(ctx)
		if started := e.request.GetFence().GetContainerId(); err == nil && state.Instance != started {
			return &socket.Refusal{Reason: socket.Lost, Message: fmt.Sprintf("the main container was restarted: it was start %q, and is %q", started, state.Instance)}
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.retry(r.ctx, func(ctx context.Context) error {
		begun, err := r.executor.Begin(ctx, e.Ref, r.asRequest(e.request))
		if err == nil {
			e.follow(begun)
		}
		return err
	})
}

// copy copies a stream until it ends.
func (r *runner) copy(ctx context.Context, e *execution, name socket.Stream, to *output.Stream) error {
	var chunk socket.Chunk
	// A bytes.Buffer grows unless it has MinRead more than it reads.
	for buffer, failed := make([]byte, socket.MaxChunk+bytes.MinRead), false; !chunk.End; {
		offset := to.Extent().Total
		err := r.retry(ctx, func(ctx context.Context) (err error) {
			chunk, err = r.executor.Output(ctx, e.Ref, name, offset, buffer)
			return err
		})
		if why := (*socket.Refusal)(nil); errors.As(err, &why) && why.Reason == socket.NotBegun {
			return nil // it was stopped before it began, and has no output
		}
		if err != nil {
			return err
		}
		if chunk.Offset > math.MaxInt64 {
			return &socket.Refusal{Reason: socket.Lost, Message: fmt.Sprintf("the executor reports %s at offset %d", name, chunk.Offset)}
		}
		if _, err := to.Append(chunk.Offset, chunk.Data); err != nil && !failed {
			failed = true
			r.logger.Error("output is lost", "execution", e.String(), "stream", name, "error", err)
		}
	}
	return nil
}

// finish stores the ending of an execution, and reports it then. last and lost are those of attend.
func (r *runner) finish(e *execution, last socket.Status, lost error) {
	end := ending(last)
	switch known := last.Phase == socket.PhaseTerminated; {
	case lost != nil && !known:
		end.Message = bounded(fmt.Sprintf("The outcome of the script is not known: %v", lost), maxMessage)
	case lost != nil:
		r.logger.Warn("the rest of the output is lost", "execution", e.String(), "error", lost)
		end.Message = strings.TrimPrefix(end.Message+"; ", "; ") + "the executor ended before all of the output was read, and the rest is lost"
	}
	for i, from := range []socket.Extent{last.Stdout, last.Stderr} {
		total := uint64(0)
		if from.Total < math.MaxInt64 {
			total = from.Total
		}
		if err := e.streams[i].Close(total); err != nil {
			r.logger.Error("output cannot be closed", "execution", e.String(), "error", err)
		}
	}
	result, _ := e.now()
	result.Phase, result.Ending = jobexecv1.Status_TERMINATED, end
	if !last.FinishedAt.IsZero() {
		result.FinishedAt = timestamppb.New(last.FinishedAt)
	}
	// Without artifacts this is all that is stored: the job and the next one need not wait for another file.
	result.ArtifactsComplete = len(e.request.GetArtifacts()) == 0
	if !r.keep(e, resultFile, result) {
		return
	}
	if result.GetArtifactsComplete() {
		r.forget(e.ref) // before the end is reported: the next execution can begin then
	}
	e.update(func(s *jobexecv1.Status) {
		s.Phase, s.Ending, s.FinishedAt, s.ArtifactsComplete = result.Phase, result.Ending, result.FinishedAt, result.ArtifactsComplete
	})
}

// keep stores a message of an execution. It returns false if the process ends before it has succeeded.
func (r *runner) keep(e *execution, name string, message proto.Message) bool {
	for {
		err := replace(filepath.Join(e.dir, name), message)
		if err == nil {
			return true
		}
		r.logger.Error("the store cannot be written; it is tried again", "execution", e.String(), "file", name, "error", err)
		if !wake.Sleep(r.ctx, time.Second) {
			return false
		}
	}
}

// ending returns the ending that the executor reports. Only one that states no failure at all is a success.
func ending(from socket.Status) *jobexecv1.Ending {
	at := from.Ending
	if from.Phase != socket.PhaseTerminated || at == nil {
		return &jobexecv1.Ending{Reason: layout.ExecutorLost, Message: "The outcome of the script is not known: the executor reported its end, and no ending"}
	}
	end := &jobexecv1.Ending{Known: true, ExitCode: int32(at.ExitCode), Signal: int32(at.Signal), TimedOut: at.TimedOut, Canceled: at.Canceled, //nolint:gosec // Both are small.
		Reason: bounded(at.Reason, maxReason), Message: bounded(at.Message, maxMessage), Leftover: at.Leftover}
	if end.Reason == "" && (end.ExitCode != 0 || end.Signal != 0 || end.TimedOut || end.Canceled) {
		end.Reason, end.Message = script.Failed, fmt.Sprintf("The script ended with exit code %d", end.ExitCode)
	}
	return end
}

// Bounds of what the executor reports, in bytes; together less than resultBytes.
const (
	maxReason  = 64
	maxMessage = 32 << 10
)

// bounded returns a text as UTF-8 of at most so many bytes.
func bounded(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "?")
}

// files collects the artifacts of an execution that has ended.
func (r *runner) files(e *execution) {
	ctx, cancel := context.WithTimeout(r.ctx, artifactsWithin)
	defer cancel()
	from := &files{runner: r, instance: e.request.GetFence().GetContainerId()}
	found := &jobexecv1.Status{Artifacts: artifacts.Collect(ctx, filepath.Join(e.dir, artifactsDir), e.request.GetArtifacts(), from, r.artifacts)}
	for _, a := range found.Artifacts {
		a.Problem = bounded(a.Problem, maxProblem)
	}
	if r.ctx.Err() == nil && r.keep(e, artifactsFile, found) {
		r.forget(e.ref) // before the end is reported: the next execution can begin then
		e.update(func(s *jobexecv1.Status) { s.Artifacts, s.ArtifactsComplete = found.Artifacts, true })
	}
}

// maxProblem bounds the problem of an artifact; less than stateBytes.
const maxProblem = 512

// files opens files of the start of the main container in which an execution ran.
type files struct {
	*runner
	instance string
	// lost is why no more files can be read.
	lost error
}

// openWithin bounds how long a file is tried to be opened.
const openWithin = 30 * time.Second

// File implements artifacts.Source.
func (f *files) File(ctx context.Context, path string) (content io.ReadCloser, size int64, err error) {
	if f.lost != nil {
		return nil, 0, f.lost
	}
	// The content is read with ctx; opening it has less time.
	until, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	err = f.retry(until, func(context.Context) (err error) {
		content, size, err = f.executor.File(ctx, path)
		return err
	})
	if err != nil {
		if !errors.As(err, new(*socket.Refusal)) {
			f.lost = err
		}
		return nil, 0, err
	}
	// A file that a later start of the container has opened is another one: this check comes after the opening.
	err = f.retry(until, func(ctx context.Context) error {
		state, err := f.executor.Executor(ctx)
		if err == nil && state.Instance != f.instance {
			f.lost = errors.New("the main container was restarted before the file was read")
			return &socket.Refusal{Reason: socket.Lost, Message: f.lost.Error()}
		}
		return err
	})
	if err != nil {
		return nil, 0, errors.Join(err, content.Close())
	}
	return content, size, nil
}

// follow takes over from the executor that an execution runs. Its end is reported when it is stored.
func (e *execution) follow(from socket.Status) {
	e.update(func(s *jobexecv1.Status) {
		s.Phase = jobexecv1.Status_RUNNING
		if !from.StartedAt.IsZero() {
			s.StartedAt = timestamppb.New(from.StartedAt)
		}
	})
}

// asRequest returns the request for the executor. Variables of the job replace those of the proxy for requests.
func (r *runner) asRequest(from *jobexecv1.RunRequest) socket.Request {
	var env []socket.Variable
	if routing.Uses(from) {
		for _, v := range routing.Environment(r.routing.Address()) {
			env = append(env, socket.Variable{Name: v[0], Value: v[1]})
		}
	}
	for _, v := range from.GetEnv() {
		env = append(env, socket.Variable{Name: v.GetName(), Value: v.GetValue()})
	}
	return socket.Request{Script: from.GetScript(), Command: from.GetCommand(), Env: env, Timeout: from.GetTimeout().AsDuration(), Grace: from.GetGrace().AsDuration()}
}

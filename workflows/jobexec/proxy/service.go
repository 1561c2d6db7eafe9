package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/callers"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/artifacts"
	"switchyard.dev/workflows/jobexec/ticket"
)

// block is how many bytes are in a Chunk at most.
const block = 64 << 10

// service implements jobexecv1.ExecutorServer.
type service struct {
	jobexecv1.UnimplementedExecutorServer
	*runner
	identity *identity
	within   time.Duration
	calls    *callers.Pool
	counts   *prometheus.CounterVec
	known    func(remote, user string)
}

// Run implements jobexecv1.ExecutorServer.
func (s *service) Run(ctx context.Context, r *jobexecv1.RunRequest) (*jobexecv1.Status, error) {
	c, leave, err := s.admit(ctx, r.GetRef().GetJobUid(), ticket.Run)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := valid(r); err != nil && s.find(refOf(r.GetRef())) == nil {
		return nil, status.Errorf(codes.InvalidArgument, "BadRequest: %v", err)
	}
	e, err := s.run(ctx, r)
	if err != nil {
		return nil, err
	}
	now, _ := e.now()
	if c.controls {
		e.deliver(now)
	}
	return now, nil
}

// valid returns why a request cannot be one.
func valid(r *jobexecv1.RunRequest) error {
	switch {
	case !jobUID.MatchString(r.GetRef().GetJobUid()) || r.GetRef().GetExecution() == 0:
		return errors.New("the request has no valid UID of a Job and number of an execution")
	case (r.GetScript() == "") == (len(r.GetCommand()) == 0):
		return errors.New("the request has to have either a script or a command")
	case r.GetTimeout().AsDuration() < 0 || r.GetGrace().AsDuration() < 0:
		return errors.New("the request has a negative duration")
	}
	return artifacts.Refused(r.GetArtifacts())
}

// Stop implements jobexecv1.ExecutorServer.
func (s *service) Stop(ctx context.Context, r *jobexecv1.StopRequest) (*jobexecv1.Status, error) {
	c, leave, err := s.admit(ctx, r.GetRef().GetJobUid(), ticket.Run)
	if err != nil {
		return nil, err
	}
	defer leave()
	if !jobUID.MatchString(r.GetRef().GetJobUid()) || r.GetRef().GetExecution() == 0 {
		return nil, status.Error(codes.InvalidArgument, "BadRequest: the request has no valid UID of a Job and number of an execution")
	}
	s.logger.Info("an execution is stopped", "execution", refOf(r.GetRef()).String(), "cause", r.GetCause().String(), "user", c.User)
	return s.stop(ctx, refOf(r.GetRef()))
}

// Watch implements jobexecv1.ExecutorServer.
func (s *service) Watch(r *jobexecv1.ExecutionRef, stream grpc.ServerStreamingServer[jobexecv1.Status]) error {
	e, c, leave, err := s.open(stream.Context(), r, ticket.Read, ticket.Collect)
	if err != nil {
		return err
	}
	defer leave()
	for {
		now, changed := e.now()
		if err := stream.Send(now); err != nil {
			return err
		}
		if c.controls {
			e.deliver(now)
		}
		if now.GetPhase() == jobexecv1.Status_TERMINATED && now.GetArtifactsComplete() {
			return nil
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// open returns an execution that the caller can use with one of the verbs. The error is a gRPC status.
func (s *service) open(ctx context.Context, r *jobexecv1.ExecutionRef, verbs ...ticket.Verb) (*execution, caller, func(), error) {
	c, leave, err := s.admit(ctx, r.GetJobUid(), verbs...)
	if err != nil {
		return nil, c, nil, err
	}
	if e := s.find(refOf(r)); e != nil {
		return e, c, leave, nil
	}
	leave()
	return nil, c, nil, status.Errorf(codes.NotFound, "execution %d of job %.64q is not in this runner", r.GetExecution(), r.GetJobUid())
}

// readable is open for reading what an execution has left.
func (s *service) readable(ctx context.Context, r *jobexecv1.ExecutionRef, what string) (*execution, func(), error) {
	e, c, leave, err := s.open(ctx, r, ticket.Read, ticket.Collect)
	if err != nil {
		return nil, nil, err
	}
	if _, _, released := e.ended(); released {
		leave()
		now, _ := e.now()
		why := cmp.Or(now.GetDropped(), "They were deleted in the pod after they had been read.")
		return nil, nil, status.Errorf(codes.NotFound, "the output and artifacts of execution %s are not in this runner: %s", e.ref, why)
	}
	s.logger.Info("a caller reads", "what", what, "execution", e.String(), "user", c.User)
	return e, leave, nil
}

// Logs implements jobexecv1.ExecutorServer.
func (s *service) Logs(r *jobexecv1.LogsRequest, stream grpc.ServerStreamingServer[jobexecv1.Chunk]) error {
	e, leave, err := s.readable(stream.Context(), r.GetRef(), "output")
	if err != nil {
		return err
	}
	defer leave()
	if r.GetKind() != jobexecv1.LogsRequest_STDOUT && r.GetKind() != jobexecv1.LogsRequest_STDERR {
		return status.Error(codes.InvalidArgument, "the request names neither STDOUT nor STDERR")
	}
	offset := r.GetOffset()
	if r.GetTailLines() > 0 {
		last, err := e.stream(r.GetKind()).TailLines(stream.Context(), r.GetTailLines())
		if err != nil {
			return unreadable(err)
		}
		offset = max(offset, last)
	}
	return s.send(stream, e, r.GetKind(), offset, r.GetFollow())
}

// send sends a stream of output from an offset.
func (s *service) send(stream grpc.ServerStreamingServer[jobexecv1.Chunk], e *execution, kind jobexecv1.LogsRequest_Kind, offset uint64, follow bool) error {
	from, buffer := e.stream(kind).Reader(offset), make([]byte, block)
	defer from.Close() //nolint:errcheck // It is only read.
	for {
		at, n, err := from.Next(stream.Context(), buffer, follow)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return unreadable(err)
		}
		if err := stream.Send(&jobexecv1.Chunk{Offset: at, Data: buffer[:n]}); err != nil {
			return err
		}
	}
}

// unreadable returns an error of the store as a gRPC status; that of a context stays.
func unreadable(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	return status.Errorf(codes.DataLoss, "the store of the runner cannot be read: %v", err)
}

// Artifacts implements jobexecv1.ExecutorServer.
func (s *service) Artifacts(ctx context.Context, r *jobexecv1.ExecutionRef) (*jobexecv1.ArtifactList, error) {
	e, leave, err := s.readable(ctx, r, "the list of artifacts")
	if err != nil {
		return nil, err
	}
	defer leave()
	now, _ := e.now()
	return &jobexecv1.ArtifactList{Artifacts: now.GetArtifacts(), Complete: now.GetArtifactsComplete()}, nil
}

// Artifact implements jobexecv1.ExecutorServer.
func (s *service) Artifact(r *jobexecv1.ArtifactRequest, stream grpc.ServerStreamingServer[jobexecv1.Chunk]) error {
	e, leave, err := s.readable(stream.Context(), r.GetRef(), "artifact "+bounded(r.GetPath(), maxProblem))
	if err != nil {
		return err
	}
	defer leave()
	switch r.GetPath() {
	case "@stdout":
		return s.send(stream, e, jobexecv1.LogsRequest_STDOUT, r.GetOffset(), false)
	case "@stderr":
		return s.send(stream, e, jobexecv1.LogsRequest_STDERR, r.GetOffset(), false)
	}
	now, _ := e.now()
	number := slices.IndexFunc(now.GetArtifacts(), func(a *jobexecv1.ArtifactState) bool { return a.GetPath() == r.GetPath() && a.GetProblem() == "" })
	if number < 0 {
		return status.Errorf(codes.NotFound, "execution %s has no stored artifact %.256q", e.ref, r.GetPath())
	}
	file, err := os.Open(artifacts.Path(filepath.Join(e.dir, artifactsDir), number))
	if err != nil {
		return unreadable(err)
	}
	defer file.Close() //nolint:errcheck // It is only read.
	size := now.GetArtifacts()[number].GetSize()
	for at, buffer := r.GetOffset(), make([]byte, block); at < size; {
		n, err := file.ReadAt(buffer[:min(block, size-at)], int64(at)) //nolint:gosec // less than the size of a file
		if n == 0 {
			return unreadable(err)
		}
		if err := stream.Send(&jobexecv1.Chunk{Offset: at, Data: buffer[:n]}); err != nil {
			return err
		}
		at += uint64(n)
	}
	return nil
}

// Release implements jobexecv1.ExecutorServer.
func (s *service) Release(ctx context.Context, r *jobexecv1.ExecutionRef) (*jobexecv1.Status, error) {
	e, c, leave, err := s.open(ctx, r, ticket.Collect)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := s.release(e, ""); err != nil {
		return nil, err
	}
	s.logger.Info("an execution is released", "execution", e.String(), "user", c.User)
	now, _ := e.now()
	return now, nil
}

// Runner implements jobexecv1.ExecutorServer.
func (s *service) Runner(ctx context.Context, _ *jobexecv1.RunnerRequest) (*jobexecv1.RunnerStatus, error) {
	_, leave, err := s.admit(ctx, ticket.AnyJob, ticket.Run)
	if err != nil {
		return nil, err
	}
	defer leave()
	out := &jobexecv1.RunnerStatus{Fence: &jobexecv1.Fence{PodUid: s.podUID}}
	state, err := s.executor.Executor(ctx)
	if err == nil {
		out.Fence.ContainerId = state.Instance
	}
	out.Problem = s.unready()
	out.Ready = out.GetProblem() == ""
	for _, e := range s.executions() {
		if now, _ := e.now(); now.GetReleased() && now.GetDropped() == "" {
			out.Released = append(out.Released, e.proto())
		}
	}
	return out, nil
}

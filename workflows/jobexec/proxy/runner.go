package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/wake"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/artifacts"
	"switchyard.dev/workflows/jobexec/output"
	"switchyard.dev/workflows/jobexec/routing"
	"switchyard.dev/workflows/jobexec/socket"
)

const (
	// answerWithin bounds a request to the executor that waits for nothing; waitWithin one that waits 20 s.
	answerWithin = 5 * time.Second
	waitWithin   = time.Minute
	// checkEvery is the time between two checks of the executor.
	checkEvery = time.Second
	// maxReleased is how many results are kept, and of how many executions the output. One more is kept until the next
	// execution has reported that its output was deleted.
	maxReleased = 100
)

// runner begins executions and collects their results.
type runner struct {
	podUID    string
	store     store
	executor  *socket.Client
	artifacts artifacts.Limits
	routing   *routing.Proxy
	capacity  uint64
	logger    *slog.Logger
	// ctx is that of the process, tasks are the collections of executions.
	ctx   context.Context
	tasks sync.WaitGroup

	// begin is locked while an execution begins or is stopped.
	begin sync.Mutex

	mu sync.Mutex
	// all are the executions in the store, oldest first.
	all []*execution
	// state is that of the executor when it was checked last, and failed why it could not be.
	state  socket.Executor
	failed error
	// stopping reports that the pod is being terminated: nothing begins.
	stopping bool
}

// resume opens the executions of the store, and continues those that have not ended.
func (r *runner) resume() error {
	if err := os.MkdirAll(r.store.dir, 0o700); err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	refs, err := r.store.list()
	if err != nil {
		return err
	}
	for _, one := range refs {
		e, err := r.store.open(one)
		if err != nil {
			return fmt.Errorf("open execution %s in the store: %w", one, err)
		}
		if e == nil {
			continue
		}
		r.all = append(r.all, e)
		if _, complete, released := e.ended(); !complete && !released {
			drops := r.drops()
			e.update(func(s *jobexecv1.Status) { s.Drops = drops })
			e.requests = r.routing.Begin(e.request, nil, true)
			r.logger.Info("an execution continues after a restart of this container", "execution", one.String())
			r.tasks.Go(func() { r.supervise(e, false) })
		}
	}
	return nil
}

// find returns an execution; nil: it is not in the store.
func (r *runner) find(of ref) *execution {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.all, func(e *execution) bool { return e.ref == of }); i >= 0 {
		return r.all[i]
	}
	return nil
}

// executions returns all executions, oldest first.
func (r *runner) executions() []*execution {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// current returns the execution that runs, or has artifacts that are not stored yet; nil: none.
func (r *runner) current() *execution {
	for _, e := range r.executions() {
		if _, complete, released := e.ended(); !complete && !released {
			return e
		}
	}
	return nil
}

// run begins an execution, or returns it if it has begun. The error is a gRPC status; then nothing has begun.
func (r *runner) run(ctx context.Context, request *jobexecv1.RunRequest) (*execution, error) {
	r.begin.Lock()
	defer r.begin.Unlock()
	of := refOf(request.GetRef())
	if known := r.find(of); known != nil {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	if err := r.fenced(ctx, request); err != nil {
		return nil, err
	}
	need := uint64(streamBytes)
	if len(request.GetArtifacts()) > 0 {
		need += r.artifacts.All
	}
	r.clear(need)
	err := r.store.create(of, request)
	if errors.Is(err, syscall.ENOSPC) {
		r.clear(r.capacity) // the disk has less than the volume may use
		err = r.store.create(of, request)
	}
	if err != nil {
		r.logger.Error("an execution cannot be stored", "execution", of.String(), "error", err)
		return nil, status.Errorf(codes.FailedPrecondition, "VolumeFailed: the volume of container job-executor-proxy cannot be written: %v. Delete the pod", err)
	}
	e, err := r.store.open(of)
	if err != nil {
		return nil, status.Error(codes.Internal, errors.Join(err, os.RemoveAll(r.store.folder(of))).Error())
	}
	e.requests = r.routing.Begin(request, r.noProxy(), false)
	begun, err := r.executor.Begin(ctx, of.Ref, r.asRequest(request))
	if why := (*socket.Refusal)(nil); errors.As(err, &why) && why.Reason != socket.Lost {
		r.routing.End(e.requests)
		_ = os.RemoveAll(e.dir) // it has not begun
		return nil, status.Errorf(codes.FailedPrecondition, "%s: %s", why.Reason, why.Message)
	}
	if err == nil {
		e.follow(begun)
	}
	drops := r.drops()
	e.update(func(s *jobexecv1.Status) { s.Drops = drops })
	r.mu.Lock()
	r.all = append(r.all, e)
	r.mu.Unlock()
	r.logger.Info("an execution begins", "execution", of.String(), "job", request.GetJobName(), "error", err)
	r.tasks.Go(func() { r.supervise(e, err == nil) })
	return e, nil
}

// drops returns the executions of which the output was deleted without Release.
func (r *runner) drops() (out []*jobexecv1.ExecutionRef) {
	for _, e := range r.executions() {
		if s, _ := e.now(); s.GetDropped() != "" {
			out = append(out, e.proto())
		}
	}
	return out
}

// noProxy returns the values of no_proxy in the main container.
func (r *runner) noProxy() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.NoProxy
}

// fenced returns a gRPC status if an execution cannot begin here, and writes the executor's instance into the request.
func (r *runner) fenced(ctx context.Context, request *jobexecv1.RunRequest) error {
	fence := request.GetFence()
	if fence.GetPodUid() != r.podUID {
		return status.Errorf(codes.FailedPrecondition, "OtherPod: the execution may begin in pod %.64q, and this is pod %q", fence.GetPodUid(), r.podUID)
	}
	if now := r.current(); now != nil {
		return status.Errorf(codes.FailedPrecondition, "Busy: execution %s runs in this pod", now.ref)
	}
	r.mu.Lock()
	stopping := r.stopping
	r.mu.Unlock()
	if stopping {
		return status.Error(codes.FailedPrecondition, "Stopping: the pod is being terminated")
	}
	state, err := r.executor.Executor(ctx)
	if err != nil {
		return status.Errorf(codes.Unavailable, "ExecutorUnreachable: %v", err)
	}
	if state.Problem != nil {
		return status.Errorf(codes.FailedPrecondition, "%s: %s", state.Problem.Reason, state.Problem.Message)
	}
	request.Fence = &jobexecv1.Fence{PodUid: r.podUID, ContainerId: state.Instance}
	return nil
}

// stop ends an execution; one that has not begun never begins here.
func (r *runner) stop(ctx context.Context, of ref) (*jobexecv1.Status, error) {
	r.begin.Lock()
	defer r.begin.Unlock()
	known := r.find(of)
	if known != nil {
		if ended, _, _ := known.ended(); ended {
			s, _ := known.now()
			return s, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	stopped, err := r.executor.Stop(ctx, of.Ref)
	why := (*socket.Refusal)(nil)
	switch {
	case errors.As(err, &why) && known == nil:
		return nil, status.Errorf(codes.FailedPrecondition, "%s: %s", why.Reason, why.Message)
	case err != nil && why == nil:
		return nil, status.Errorf(codes.Unavailable, "ExecutorUnreachable: %v", err)
	case known != nil: // a refusal is met by its collection too
		s, _ := known.now()
		return s, nil
	}
	r.forget(of)
	return &jobexecv1.Status{Ref: of.proto(), Phase: jobexecv1.Status_TERMINATED, Ending: ending(stopped), ArtifactsComplete: true}, nil
}

// droppedForSpace is why output and artifacts are deleted that were not read.
const droppedForSpace = "They were deleted, before they were read, for a later job that needed the space."

// release deletes the output and artifacts of an execution, and keeps its result. dropped is why this is done unasked.
func (r *runner) release(e *execution, dropped string) error {
	if ended, complete, released := e.ended(); released {
		return nil
	} else if !ended || !complete {
		return status.Errorf(codes.FailedPrecondition, "execution %s has not ended", e.ref)
	}
	result, _ := e.now()
	result.Released, result.Dropped, result.Artifacts, result.ArtifactsComplete = true, dropped, nil, len(e.request.GetArtifacts()) == 0
	recorded := replace(filepath.Join(e.dir, resultFile), result)
	deleted := errors.Join(os.RemoveAll(filepath.Join(e.dir, artifactsDir)), e.streams[0].Remove(), e.streams[1].Remove())
	if recorded != nil { // the volume was full
		recorded = replace(filepath.Join(e.dir, resultFile), result)
	}
	e.update(func(s *jobexecv1.Status) { s.Released, s.Dropped = true, dropped })
	if err := errors.Join(recorded, deleted); err != nil {
		return status.Errorf(codes.Internal, "the files of execution %s cannot be deleted: %v", e.ref, err)
	}
	return nil
}

// clear releases the oldest executions until there is space for bytes, and forgets old results.
func (r *runner) clear(bytes uint64) {
	used, kept := uint64(0), r.executions()
	for _, e := range kept {
		used += r.size(e)
	}
	for i, e := range kept {
		if _, _, released := e.ended(); released || used+bytes <= r.capacity && len(kept)-i <= maxReleased {
			continue
		}
		before := r.size(e)
		r.logger.Warn("the output of an execution is deleted, since the next one needs the space", "execution", e.String())
		if err := r.release(e, droppedForSpace); err != nil {
			r.logger.Error("the output of an execution cannot be deleted", "execution", e.String(), "error", err)
			continue
		}
		used -= before - min(before, r.size(e))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	released := 0
	for i := len(r.all) - 1; i >= 0; i-- {
		ended, _, is := r.all[i].ended()
		if !ended {
			continue
		}
		if released++; released > maxReleased+1 && is {
			_ = os.RemoveAll(r.all[i].dir) // remaining files are read at the next start
			r.all = slices.Delete(r.all, i, i+1)
		}
	}
}

// size returns how many bytes an execution has in the store, which is read while it can change.
func (r *runner) size(e *execution) uint64 {
	_, complete, released := e.ended()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !complete || e.sized == nil || e.sized.released != released {
		e.sized = &sized{r.store.size(e.ref), released}
	}
	return e.sized.bytes
}

// forget deletes an execution in the executor, so that the next one can begin. check does it later if this fails.
func (r *runner) forget(of ref) {
	ctx, cancel := context.WithTimeout(r.ctx, answerWithin)
	defer cancel()
	if err := r.executor.Delete(ctx, of.Ref); err != nil {
		r.logger.Warn("an execution cannot be deleted in the executor", "execution", of.String(), "error", err)
	}
}

// retry calls the executor until it responds, and returns its refusal, or an error when ctx ends.
func (r *runner) retry(ctx context.Context, request func(context.Context) error) error {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		asked, cancel := context.WithTimeout(ctx, waitWithin)
		err := request(asked)
		cancel()
		if err == nil || errors.As(err, new(*socket.Refusal)) {
			return err
		}
		r.logger.Debug("the executor does not respond", "error", err)
		if !wake.Sleep(ctx, pause) {
			return err
		}
	}
}

// check keeps the state of the executor until the process ends, and deletes executions in it that are complete, or not in
// the store.
func (r *runner) check(ctx context.Context) error {
	for {
		asked, cancel := context.WithTimeout(ctx, answerWithin)
		state, err := r.executor.Executor(asked)
		cancel()
		r.mu.Lock()
		r.state, r.failed = state, err
		r.mu.Unlock()
		if now := state.Current; err == nil && now != nil {
			r.orphaned(ctx, ref{now.Ref})
		}
		if !wake.Sleep(ctx, checkEvery) {
			return nil
		}
	}
}

// orphaned ends and deletes an execution of the executor, unless it is being collected.
func (r *runner) orphaned(ctx context.Context, of ref) {
	r.begin.Lock()
	defer r.begin.Unlock()
	if e := r.find(of); e != nil {
		if _, complete, _ := e.ended(); !complete {
			return
		}
	}
	asked, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	_, err := r.executor.Stop(asked, of.Ref)
	r.logger.Warn("the executor has an execution that is complete, or not in the store; it is ended and deleted", "execution", of.String(), "error", err)
	r.forget(of)
}

// unready returns why no execution can begin; empty: one can, or runs.
func (r *runner) unready() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopping:
		return "the pod is being terminated"
	case r.failed != nil:
		return r.failed.Error()
	case r.state.Instance == "":
		return "the executor of the main container has not been reached yet"
	case r.state.Problem != nil:
		return r.state.Problem.Reason + ": " + r.state.Problem.Message
	}
	return ""
}

// stream returns stdout or stderr of an execution.
func (e *execution) stream(kind jobexecv1.LogsRequest_Kind) *output.Stream {
	if kind == jobexecv1.LogsRequest_STDERR {
		return e.streams[1]
	}
	return e.streams[0]
}

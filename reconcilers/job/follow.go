package job

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/socket"
	"switchyard.dev/workflows/jobs"
)

// Runners returns a client of the runner in a pod. It does not wait for the connection.
type Runners func(p *corev1.Pod) (*client.Client, error)

const (
	// call is the timeout of one call.
	call = 10 * time.Second
	// firstPause and longestPause bound the pause after a failed call.
	firstPause, longestPause = 50 * time.Millisecond, 2 * time.Second
	// busy is how long a runner may refuse to begin an execution, for example while it deletes the files of the
	// one before.
	busy = 3 * time.Second
	// askReleased is the pause between two questions for whether results are released.
	askReleased = 3 * time.Second
)

// follower calls the runner of one execution, and remembers its last answer.
type follower struct {
	runner *client.Client
	ref    *jobexecv1.ExecutionRef
	// run begins the execution; nil: it has ended.
	run *jobexecv1.RunRequest
	// await: the runner is asked until the results of the execution are released.
	await bool
	// changed is called after each change of the answer.
	changed func()
	cancel  context.CancelFunc
	stops   chan struct{}

	mu     sync.Mutex
	answer jobs.Runner
	stop   *jobexecv1.StopRequest
	// refusal: stop is only for an execution that the runner refuses to begin.
	refusal bool
	// refused is since when the runner refuses to begin the execution.
	refused time.Time
}

// follow starts a follower, which begins the execution, or stops it if stop is set. It ends with ctx, when it is canceled, or when the runner has reported all
// that it will.
func follow(ctx context.Context, f *follower) *follower {
	ctx, cancel := context.WithCancel(ctx)
	f.cancel, f.stops = cancel, make(chan struct{}, 1)
	go f.loop(ctx)
	return f
}

// known returns the last answer.
func (f *follower) known() jobs.Runner {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answer
}

// end has the execution stopped, unless it has been asked for before. With refusal it is stopped only if the runner still refuses
// to begin it: a request to begin it that is under way is awaited.
func (f *follower) end(stop *jobexecv1.StopRequest, refusal bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil && !f.refusal || refusal && !f.answer.Refused {
		return
	}
	if f.stop, f.refusal = stop, refusal; !refusal {
		f.stops <- struct{}{}
	}
}

// ran records the answer to a request to begin the execution: after any but a refusal the script can have begun.
func (f *follower) ran(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch status.Code(err) {
	case codes.FailedPrecondition:
		return
	case codes.InvalidArgument:
		f.answer.Invalid = status.Convert(err).Message()
	}
	f.refused, f.answer.Refused = time.Time{}, false
	if f.refusal {
		f.stop, f.refusal = nil, false
	}
}

// wanted returns the request to stop the execution; nil: there is none.
func (f *follower) wanted() *jobexecv1.StopRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stop
}

// loop calls the runner until it has reported everything.
func (f *follower) loop(ctx context.Context) {
	pause := firstPause
	for {
		one, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		answered := false
		go func() {
			var err error
			answered, err = f.turn(one)
			ended <- err
		}()
		var err error
		select {
		case err = <-ended:
		case <-f.stops:
			cancel()
			<-ended
			pause = firstPause
		}
		cancel()
		if ctx.Err() != nil || f.over() {
			return
		}
		if err == nil && !f.await {
			pause = firstPause
			continue
		}
		switch {
		case err == nil:
			pause = askReleased
		case answered: // Each stream ends with its ticket. The next call shows whether the runner is silent.
			pause = firstPause
		default:
			if f.failed(err); f.over() {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-f.stops:
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// turn begins or stops the execution, and follows it until the stream ends. It reports whether the stream had an answer.
func (f *follower) turn(ctx context.Context) (answered bool, err error) {
	st, err := f.command(ctx)
	if err != nil {
		return false, err
	}
	if f.see(st); f.over() {
		return false, nil
	}
	err = f.runner.Follow(ctx, f.ref, func(st *jobexecv1.Status) {
		answered = true
		f.see(st)
	})
	return answered, err
}

// command makes the call that is due; nil without an error: none is.
func (f *follower) command(ctx context.Context) (*jobexecv1.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	if stop := f.wanted(); stop != nil {
		return f.runner.Stop(ctx, stop)
	}
	if f.run != nil {
		st, err := f.runner.Run(ctx, f.run)
		f.ran(err)
		return st, err
	}
	return nil, nil
}

// over reports whether the runner has reported everything.
func (f *follower) over() bool {
	st := f.known().Status
	if f.await {
		return st.GetReleased()
	}
	return st.GetPhase() == jobexecv1.Status_TERMINATED && st.GetArtifactsComplete()
}

// see records an answer.
func (f *follower) see(st *jobexecv1.Status) {
	if st == nil {
		return
	}
	f.mu.Lock()
	before := f.answer
	f.answer.Silent, f.answer.Unknown, f.answer.Status = "", false, st
	if before.Status.GetPhase() != st.GetPhase() {
		f.answer.Since = time.Now()
	}
	f.mu.Unlock()
	if before.Silent != "" || before.Status.GetPhase() != st.GetPhase() || before.Status.GetArtifactsComplete() != st.GetArtifactsComplete() ||
		before.Status.GetReleased() != st.GetReleased() || (before.Status.GetStartedAt() == nil) != (st.GetStartedAt() == nil) {
		f.changed()
	}
}

// failed records that a call failed.
func (f *follower) failed(err error) {
	f.mu.Lock()
	before := f.answer
	switch code := status.Code(err); {
	case code == codes.FailedPrecondition && strings.HasPrefix(status.Convert(err).Message(), socket.Lost+":"):
		f.answer.Status = &jobexecv1.Status{
			Ref: f.ref, Phase: jobexecv1.Status_TERMINATED, ArtifactsComplete: true, Ending: &jobexecv1.Ending{Reason: jobs.ReasonExecutorLost},
			Dropped: "The runner has no record of the execution, and so neither its output nor its artifacts.",
		}
		f.answer.Since = time.Now()
	case code == codes.FailedPrecondition && f.stop == nil:
		f.answer.Silent = "" // it answers
		if f.refused.IsZero() {
			f.refused = time.Now()
		}
		f.answer.Refused = f.answer.Refused || time.Since(f.refused) > busy
	case code == codes.NotFound:
		f.answer.Unknown = true
	default:
		if f.answer.Silent == "" {
			f.answer.SilentSince = time.Now()
		}
		f.answer.Silent = status.Convert(err).Message()
	}
	changed := before.Status != f.answer.Status || before.Refused != f.answer.Refused || before.Unknown != f.answer.Unknown || (before.Silent == "") != (f.answer.Silent == "")
	f.mu.Unlock()
	if changed {
		f.changed()
	}
}

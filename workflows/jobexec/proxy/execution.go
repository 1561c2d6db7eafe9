package proxy

import (
	"sync"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/wake"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/output"
	"switchyard.dev/workflows/jobexec/routing"
)

// execution is an execution in the store.
type execution struct {
	ref
	dir     string
	request *jobexecv1.RunRequest
	// streams are stdout and stderr.
	streams [2]*output.Stream
	// requests are those of the script through the proxy; nil: none, or those of status.
	requests *routing.Execution

	mu      sync.Mutex
	changed wake.Signal
	// status has everything but the streams. It is replaced, and never changed.
	status *jobexecv1.Status
	// delivered reports whether the controller of the job has received the end.
	delivered bool
	// sized is its size when it was read last.
	sized *sized
}

// sized is a size in the store, before or after the release.
type sized struct {
	bytes    uint64
	released bool
}

// now returns the status, and a channel that is closed when it changes; growth of the streams is no change.
func (e *execution) now() (*jobexecv1.Status, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := proto.CloneOf(e.status)
	s.Stdout, s.Stderr = extent(e.streams[0]), extent(e.streams[1])
	if e.requests != nil {
		s.Routing = e.requests.Count()
	}
	return s, e.changed.Next()
}

// extent returns what a stream has.
func extent(s *output.Stream) *jobexecv1.Stream {
	e := s.Extent()
	return &jobexecv1.Stream{Total: e.Total, Head: e.Head, TailFrom: e.TailFrom}
}

// update changes the status.
func (e *execution) update(change func(*jobexecv1.Status)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := proto.CloneOf(e.status)
	change(s)
	e.status = s
	e.changed.Send()
}

// ended reports whether the ending is stored, and complete whether the artifacts are too.
func (e *execution) ended() (ended, complete, released bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status.GetPhase() == jobexecv1.Status_TERMINATED, e.status.GetArtifactsComplete(), e.status.GetReleased()
}

// deliver records that the controller has received a status.
func (e *execution) deliver(s *jobexecv1.Status) {
	if s.GetPhase() == jobexecv1.Status_TERMINATED && s.GetArtifactsComplete() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.delivered = true
	}
}

// awaited reports whether the controller has not received the end yet.
func (e *execution) awaited() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.delivered && !e.status.GetReleased()
}

package jobs

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/reconcilers/job"
)

// The faults that a manager can have for a job.
const (
	invents = "a lost outcome is reported as a success"
	repeats = "a lost execution begins again, without a fence"
	stops   = "a script that a manager finds running is stopped"
)

// plant has a manager's faults. Each is done between it and the runners.
type plant struct {
	mu     sync.Mutex
	faults map[types.UID]string
	// ran are the last requests by job.
	ran map[types.UID]*jobexecv1.RunRequest
}

func newPlant() *plant {
	return &plant{faults: map[types.UID]string{}, ran: map[types.UID]*jobexecv1.RunRequest{}}
}

// is plants a fault for a job.
func (p *plant) is(of types.UID, fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[of] = fault
}

// of returns the fault for a job, and the request that began it.
func (p *plant) of(job string) (fault string, ran *jobexecv1.RunRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[types.UID(job)], p.ran[types.UID(job)]
}

// runners are runners as a faulty manager calls them.
func (p *plant) runners(reach job.Runners) job.Runners {
	return through(reach, func(c jobexecv1.ExecutorClient) jobexecv1.ExecutorClient { return plantedRunner{c, p} })
}

type plantedRunner struct {
	jobexecv1.ExecutorClient
	plant *plant
}

// Run remembers the request, and stops a script that runs.
func (p plantedRunner) Run(ctx context.Context, r *jobexecv1.RunRequest, o ...grpc.CallOption) (*jobexecv1.Status, error) {
	uid := r.GetRef().GetJobUid()
	fault, before := p.plant.of(uid)
	if fault == stops && before != nil {
		return p.ExecutorClient.Stop(ctx, &jobexecv1.StopRequest{Ref: r.GetRef()}, o...)
	}
	p.plant.mu.Lock()
	p.plant.ran[types.UID(uid)] = r
	p.plant.mu.Unlock()
	return p.ExecutorClient.Run(ctx, r, o...)
}

// Watch changes the status of an execution with an outcome that is unknown.
func (p plantedRunner) Watch(ctx context.Context, ref *jobexecv1.ExecutionRef, o ...grpc.CallOption) (grpc.ServerStreamingClient[jobexecv1.Status], error) {
	stream, err := p.ExecutorClient.Watch(ctx, ref, o...)
	if err != nil {
		return nil, err
	}
	fault, ran := p.plant.of(ref.GetJobUid())
	return &plantedStream{ServerStreamingClient: stream, fault: fault, again: func() (grpc.ServerStreamingClient[jobexecv1.Status], error) {
		if ran == nil {
			return nil, io.EOF
		}
		again := &jobexecv1.ExecutionRef{JobUid: ref.GetJobUid(), Execution: ref.GetExecution() + 100}
		if _, err := p.ExecutorClient.Run(ctx, &jobexecv1.RunRequest{
			Ref: again, Fence: &jobexecv1.Fence{PodUid: ran.GetFence().GetPodUid()}, JobName: ran.GetJobName(), Script: ran.GetScript(), Env: ran.GetEnv(), Grace: ran.GetGrace(),
		}, o...); err != nil {
			return nil, err
		}
		return p.ExecutorClient.Watch(ctx, again, o...)
	}}, nil
}

type plantedStream struct {
	grpc.ServerStreamingClient[jobexecv1.Status]
	fault string
	again func() (grpc.ServerStreamingClient[jobexecv1.Status], error)
}

// Recv returns the next status; after a lost execution that begins again that of the other one.
func (s *plantedStream) Recv() (*jobexecv1.Status, error) {
	st, err := s.ServerStreamingClient.Recv()
	if err != nil || st.GetPhase() != jobexecv1.Status_TERMINATED || st.GetEnding().GetKnown() {
		return st, err
	}
	switch s.fault {
	case invents:
		st.Ending = &jobexecv1.Ending{Known: true}
	case repeats:
		s.fault = ""
		if s.ServerStreamingClient, err = s.again(); err != nil {
			return nil, err
		}
		return s.ServerStreamingClient.Recv()
	}
	return st, nil
}

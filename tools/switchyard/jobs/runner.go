package jobs

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tools/switchyard/manager"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
)

// patience is how long a call to a runner is tried again before its pod is determined again.
const patience = 3 * time.Second

// moment is the time before a runner is asked again that does not have the execution yet.
const moment = 30 * time.Millisecond

// runner is the runner of a job, through a port-forward to its pod, or the operator's bucket after its end.
type runner struct {
	*client.Client // nil with stored
	// stored reads files in the bucket; nil: they are in the pod.
	stored func(ctx context.Context, r *jobexecv1.StoredRequest, write func(*jobexecv1.Chunk) error) error
	of     string
	ref    *jobexecv1.ExecutionRef
	end    func()
}

// logs reads an output stream.
func (r *runner) logs(ctx context.Context, of string, ask *jobexecv1.LogsRequest, write func(*jobexecv1.Chunk) error) error {
	if r.stored != nil {
		return r.stored(ctx, &jobexecv1.StoredRequest{Path: "@" + of, Offset: ask.GetOffset(), TailLines: ask.GetTailLines()}, write)
	}
	_, err := r.Logs(ctx, ask, write)
	return err
}

// artifact reads an artifact.
func (r *runner) artifact(ctx context.Context, path string, offset uint64, write func(*jobexecv1.Chunk) error) error {
	if r.stored != nil {
		return r.stored(ctx, &jobexecv1.StoredRequest{Path: path, Offset: offset}, write)
	}
	_, err := r.Artifact(ctx, &jobexecv1.ArtifactRequest{Ref: r.ref, Path: path, Offset: offset}, write)
	return err
}

// reached returns the runner of the present execution of a job. It is kept until ctx ends, or dropped.
func (c *cluster) reached(ctx context.Context, job string) (*runner, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runner != nil && c.runner.of == job {
		return c.runner, nil
	}
	ctx, end := context.WithCancel(ctx)
	r, err := c.reach(ctx, job)
	if err != nil {
		end()
		return nil, err
	}
	r.end, c.runner = end, r
	return r, nil
}

func (c *cluster) reach(ctx context.Context, job string) (*runner, error) {
	access, err := c.s.Cluster.Rest()
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, err
	}
	issuer, err := manager.Connect(ctx, c.s, kube, "ticket for the job's output")
	if err != nil {
		return nil, err
	}
	service := jobexecv1.NewRunnersClient(issuer)
	ask := func(ctx context.Context) (*jobexecv1.TicketAnswer, error) {
		ctx, cancel := c.s.Patiently(ctx)
		defer cancel()
		ctx, err := issuer.With(ctx)
		if err != nil {
			return nil, err
		}
		return service.Ticket(ctx, &jobexecv1.TicketRequest{Job: job})
	}
	first, err := ask(ctx)
	if err != nil {
		return nil, err
	}
	if first.GetStored() {
		return inBucket(service, issuer.With, job, first), nil
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: first.GetPodNamespace(), Name: first.GetPodName()}}
	address, err := reach.Forward(ctx, kube, access, pod, layout.Port)
	if err != nil {
		return nil, exit.Unavailable.Errorf("the runner of job %s is not reached: %w", job, err)
	}
	answer := first
	run, err := client.New(client.Runner{Address: address, PodUID: first.GetPodUid(), Authority: first.GetAuthority(), Patience: patience,
		Ticket: func(ctx context.Context) (_ string, _ time.Time, err error) {
			if answer == nil {
				answer, err = ask(ctx)
			}
			ticket, expires := answer.GetTicket(), answer.GetExpires().AsTime()
			answer = nil
			return ticket, expires, err
		}})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = run.Close() })
	return &runner{Client: run, of: job, ref: refOf(first)}, nil
}

// refOf returns the execution that an answer is about.
func refOf(a *jobexecv1.TicketAnswer) *jobexecv1.ExecutionRef {
	return &jobexecv1.ExecutionRef{JobUid: a.GetJobUid(), Execution: a.GetExecution()}
}

// inBucket returns what reads a job in the bucket of the operator.
func inBucket(service jobexecv1.RunnersClient, with func(context.Context) (context.Context, error), job string, answer *jobexecv1.TicketAnswer) *runner {
	return &runner{of: job, ref: refOf(answer), stored: func(ctx context.Context, r *jobexecv1.StoredRequest, write func(*jobexecv1.Chunk) error) error {
		r.Job = job
		ctx, err := with(ctx)
		if err == nil {
			_, err = client.Stored(ctx, service, r, write)
		}
		return err
	}}
}

// drop forgets a runner: the next call determines the pod again.
func (c *cluster) drop(r *runner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runner == r {
		c.runner.end()
		c.runner = nil
	}
}

func (c *cluster) output(ctx context.Context, job string, of *stream, to io.Writer) error {
	r, err := c.reached(ctx, job)
	if err != nil {
		return err
	}
	var offset uint64
	var execution uint32
	if n, _ := fmt.Sscanf(of.cursor, "%d/%d", &execution, &offset); n < 2 || execution != r.ref.GetExecution() {
		offset = 0
		if n == 2 {
			note(c.s, fmt.Sprintf("the script of job %s runs again: this is the %s of execution %d", job, of.name, r.ref.GetExecution()))
		}
	}
	ask := &jobexecv1.LogsRequest{Ref: r.ref, Kind: client.Streams[of.name], Offset: offset, Follow: of.follow}
	if offset == 0 {
		ask.TailLines = uint64(max(0, of.tail))
	}
	write := client.To(to, offset, of.tail == 0 || offset > 0)
	for begin := time.Now(); ; time.Sleep(moment) {
		err = r.logs(ctx, of.name, ask, func(chunk *jobexecv1.Chunk) error {
			err := write(chunk)
			of.cursor = fmt.Sprintf("%d/%d", r.ref.GetExecution(), chunk.GetOffset()+uint64(len(chunk.GetData())))
			return err
		})
		if status.Code(err) != codes.NotFound || time.Since(begin) > pause { // The script is about to begin.
			break
		}
	}
	if err != nil {
		c.drop(r)
		return err
	}
	of.of = int(r.ref.GetExecution())
	return nil
}

// released reports whether a runner has answered that it does not have a job any more.
func released(err error) bool {
	return status.Code(err) == codes.NotFound && strings.Contains(err.Error(), "not in this runner")
}

func (c *cluster) download(ctx context.Context, job, path string, to io.Writer) error {
	var at uint64
	write := client.To(to, 0, true)
	for again := false; ; again = true {
		r, err := c.reached(ctx, job)
		if err != nil {
			return err
		}
		err = r.artifact(ctx, path, at, func(chunk *jobexecv1.Chunk) error {
			at = chunk.GetOffset() + uint64(len(chunk.GetData()))
			return write(chunk)
		})
		if !released(err) || r.stored != nil || again {
			return err
		}
		c.drop(r) // It may have been stored in the bucket, and deleted in the pod.
	}
}

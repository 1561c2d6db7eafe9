package job

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/ticket"
)

// Reach reaches runners at the addresses of their pods. It implements Runners.
type Reach struct {
	// Authority returns the certificates that sign those of runners, in PEM.
	Authority func() ([]byte, error)
	// Issue issues a ticket.
	Issue func(c ticket.Claims) (string, time.Time, error)
}

// user is the name of the Job controller in the logs of runners.
const user = "the Job controller"

// Runner implements Runners.
func (r Reach) Runner(p *corev1.Pod) (Runner, error) {
	authority, err := r.Authority()
	if err != nil {
		return nil, err
	}
	claims := ticket.Claims{PodUID: string(p.UID), JobUID: ticket.AnyJob, User: user, Verbs: []ticket.Verb{ticket.Run}}
	c, err := client.New(client.Runner{
		Address: net.JoinHostPort(p.Status.PodIP, strconv.Itoa(layout.Port)), PodUID: string(p.UID), Authority: authority,
		Ticket: func(context.Context) (string, time.Time, error) { return r.Issue(claims) },
	})
	if err != nil {
		return nil, err
	}
	return reached{c}, nil
}

// reached is a Runner over gRPC.
type reached struct{ *client.Client }

// Run implements Runner.
func (r reached) Run(ctx context.Context, q *jobexecv1.RunRequest) (*jobexecv1.Status, error) {
	return r.ExecutorClient.Run(ctx, q)
}

// Stop implements Runner.
func (r reached) Stop(ctx context.Context, q *jobexecv1.StopRequest) (*jobexecv1.Status, error) {
	return r.ExecutorClient.Stop(ctx, q)
}

// Release implements Runner.
func (r reached) Release(ctx context.Context, q *jobexecv1.ExecutionRef) (*jobexecv1.Status, error) {
	return r.ExecutorClient.Release(ctx, q)
}

// Watch implements Runner.
func (r reached) Watch(ctx context.Context, q *jobexecv1.ExecutionRef, each func(*jobexecv1.Status)) error {
	stream, err := r.ExecutorClient.Watch(ctx, q)
	for err == nil {
		var st *jobexecv1.Status
		if st, err = stream.Recv(); err == nil {
			each(st)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

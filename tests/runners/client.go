package runners

import (
	"context"
	"net"
	"strconv"
	"time"

	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/ticket"
)

// Client returns a client of the runner with the rights of the Job controller. The authority is one of NewAuthority. The caller closes it.
func (r *Runner) Client() (*client.Client, error) {
	authority, err := r.authority.PEM()
	if err != nil {
		return nil, err
	}
	return client.New(client.Runner{
		Address: net.JoinHostPort(r.IP, strconv.Itoa(layout.Port)), PodUID: r.uid, Authority: authority,
		Ticket: func(context.Context) (string, time.Time, error) {
			return r.authority.Issue(ticket.Claims{PodUID: r.uid, JobUID: ticket.AnyJob, User: "controller", Verbs: []ticket.Verb{ticket.Run}})
		},
	})
}

// Run begins an execution as soon as the runner is ready, in the container that runs then.
func (r *Runner) Run(of *jobexecv1.RunRequest) {
	r.t.Helper()
	c, err := r.Client()
	must(r.t, err)
	defer c.Close() //nolint:errcheck // of a test
	wait.Eventually(r.t, time.Minute, "the execution begins", func() error {
		st, err := c.ExecutorClient.Runner(r.t.Context(), &jobexecv1.RunnerRequest{})
		if of.Fence = st.GetFence(); err == nil {
			_, err = c.Run(r.t.Context(), of)
		}
		return err
	})
}

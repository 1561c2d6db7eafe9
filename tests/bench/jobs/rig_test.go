package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/reconcilers/job"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/sweep/jobs"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/wire"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
	executor "switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobpod"
)

// The programs, as they name themselves to the API server.
const (
	managing = "bench-manager"
	using    = "bench-user"
)

// rig is an API server with a manager and a node.
type rig struct {
	*world.World
	audit, operator, ns string
	service             *runners.Service
	// user is the client of a user that may create jobs and read their output, with a token for the manager.
	user  client.WithWatch
	token string
	asks  jobexecv1.RunnersClient
}

// newRig starts one. env is added to the environment of scripts.
func newRig(t testing.TB, env ...string) *rig {
	t.Helper()
	flags, log := auditing(t)
	r := &rig{World: world.New(t, flags...), audit: log}
	r.operator, r.ns = r.NewNamespace("operator"), r.NewNamespace("jobs")
	r.Accounts(r.ns, "default", "user")
	r.service = runners.Serve(r.World, r.operator)
	r.token = r.Token(r.ns, "user", "", nil)
	account := "system:serviceaccount:" + r.ns + ":user"
	r.Grant(account, r.ns, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}})
	r.Grant(account, "", rbacv1.PolicyRule{APIGroups: []string{crdv1.Group}, Resources: []string{"jobs"}, Verbs: []string{"create", "get", "list", "watch"}})
	access := r.As("")
	access.UserAgent, access.QPS = using, -1
	access.CertData, access.KeyData, access.CertFile, access.KeyFile, access.BearerToken = nil, nil, "", "", r.token
	r.user = r.ClientWith(access, manager.Scheme)
	r.asks = r.service.Runners()
	node := jobs.NewNode(r, r.Kube, r.ns, env...)
	node.Pause = time.Second
	background.Run(r, node.Run)
	r.manage()
	return r
}

// manage starts a manager, which ends with the test.
func (r *rig) manage() {
	r.Helper()
	access := r.As("")
	access.UserAgent, access.QPS, access.Burst = managing, 0, 0 // The manager's own limits.
	life.Quiet(slog.New(slog.DiscardHandler))
	main, err := life.Begin(context.Background(), wire.NewGate(wire.Faults{}, wire.NewLedger()), access, memory.NewStore().Open(), manager.Config{ // It ends after the test.
		Namespace: r.operator, Logger: slog.New(slog.DiscardHandler), Jobs: manager.Jobs{
			Settings: jobpod.Settings{InitImage: "i", ProxyImage: "p", Authority: r.service.Address, CA: r.service.CA},
			Runners:  job.Reach(r.service.Keys.Authority, r.service.Keys.Issue),
		},
	})
	r.Must(err)
	r.Cleanup(main.Kill)
}

// group makes a group, and waits until all its pods are ready.
func (r *rig) group(name string, replicas int) *crdv1.JobRunnerGroup {
	r.Helper()
	g := &crdv1.JobRunnerGroup{}
	r.Make(g, fmt.Sprintf("metadata: {name: %s, namespace: %s}\nspec: {image: debian, replicas: %d, reusePods: true}", name, r.ns, replicas))
	r.Must(wait.Until(r.Context(), 10*time.Minute, "the pods of "+name+" are ready", func() error {
		if err := r.Look(g); err != nil {
			return err
		}
		if n := int(g.Status.ReadyReplicas); n != replicas {
			return fmt.Errorf("%d of %d", n, replicas)
		}
		return nil
	}))
	return g
}

// job returns a job to create.
func (r *rig) job(group, name, script string) *crdv1.Job {
	j := &crdv1.Job{}
	j.Name = r.ns + "-" + name
	j.Spec.RunnerGroup.Namespace, j.Spec.RunnerGroup.Name = r.ns, group
	j.Spec.Content.Script = "#!/bin/sh\n" + script + "\n"
	return j
}

// follow calls see with each state of jobs from now on, until it returns true. fields selects the jobs.
func (r *rig) follow(see func(*crdv1.Job) bool, fields ...client.ListOption) <-chan error {
	r.Helper()
	events, err := r.user.Watch(r.Context(), &crdv1.JobList{}, fields...)
	r.Must(err)
	seen := make(chan error, 1)
	go func() {
		defer events.Stop()
		for e := range events.ResultChan() {
			if j, is := e.Object.(*crdv1.Job); is && see(j) {
				seen <- nil
				return
			}
		}
		seen <- errors.New("the watch of jobs ended")
	}()
	return seen
}

// moment is the pause before a runner is asked again that does not have the execution yet, as in `switchyard job`.
const moment = 30 * time.Millisecond

var errEnough = errors.New("enough")

// line returns the first output of a job as a user gets it.
func (r *rig) line(name string) (string, error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	answer, err := r.asks.Ticket(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+r.token), &jobexecv1.TicketRequest{Job: name})
	if err != nil {
		return "", err
	}
	c, err := executor.New(executor.Runner{Address: net.JoinHostPort(answer.GetPodIp(), strconv.Itoa(layout.Port)), PodUID: answer.GetPodUid(),
		Authority: answer.GetAuthority(), Ticket: func(context.Context) (string, time.Time, error) {
			return answer.GetTicket(), answer.GetExpires().AsTime(), nil
		}})
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	ask := &jobexecv1.LogsRequest{Ref: &jobexecv1.ExecutionRef{JobUid: answer.GetJobUid(), Execution: answer.GetExecution()}, Kind: jobexecv1.LogsRequest_STDOUT, Follow: true}
	text := ""
	for range time.Minute / moment {
		_, err = c.Logs(ctx, ask, func(chunk *jobexecv1.Chunk) error {
			text = string(chunk.GetData())
			return errEnough
		})
		if status.Code(err) != codes.NotFound {
			break
		}
		time.Sleep(moment)
	}
	if errors.Is(err, errEnough) {
		return text, nil
	}
	return "", errors.Join(err, io.ErrUnexpectedEOF)
}

// ended returns how a job ended; nil: it has not.
func ended(j *crdv1.Job) *crdv1.JobTerminated {
	if j.Status.State == nil {
		return nil
	}
	return j.Status.State.Terminated
}

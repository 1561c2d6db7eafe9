package jobs

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/reconcilers/job"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/wire"
	"switchyard.dev/tools/wait"
	runner "switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobpod"
)

// kills are all, in the order in which they are made.
var kills = []string{killManager, killExecutor, killPod, killAgent, killPlane, killAPIServer, evictPod, killProxy}

// kill kills something, and reports whether there was something.
func (s *scene) kill(part string) bool {
	s.Helper()
	switch {
	case part == killManager:
		s.end()
		s.pause(300 * time.Millisecond)
		s.begin()
	case part == killAPIServer:
		s.Must(s.Kill())
		s.pause(300 * time.Millisecond)
		s.Must(s.Restart(s.Context()))
	case part == killAgent:
		s.plane.agent.Kill()
		s.pause(300 * time.Millisecond)
		s.plane.startAgent()
	case part == killPlane:
		s.plane.program.Kill()
		s.pause(300 * time.Millisecond)
		s.plane.start()
	case s.random.IntN(4) == 0 || len(s.unended()) == 0:
		return s.strike(part, crdv1.JobRunnerGroupLabel)
	default:
		return s.strike(part, crdv1.AssignedJobLabel)
	}
	return true
}

// strike kills a part of a pod with labels that a selector has, and reports whether there was one.
func (s *scene) strike(part, selector string) bool {
	s.Helper()
	err := wait.Until(s.Context(), patience, "there is a "+part+" to kill", func() error {
		p, err := s.node.pick(s.Context(), s.random, selector)
		if err == nil && p == nil {
			err = errors.New("there is none")
		}
		if err != nil {
			return err
		}
		return s.node.strike(s.Context(), p, part)
	})
	if err != nil {
		s.Log(err)
	}
	return err == nil
}

// patience is how long a kill waits for a pod.
const patience = 10 * time.Second

// begin starts a manager.
func (s *scene) begin() {
	s.Helper()
	gate := wire.NewGate(wire.Faults{}, wire.NewLedger())
	reach := job.Reach(s.service.Keys.Authority, s.service.Keys.Issue)
	if s.plant != nil {
		reach = s.plant.runners(reach)
	}
	var err error
	s.manager, err = life.Begin(context.Background(), gate, s.As(""), s.log.Open(), manager.Config{ // It ends after the test.
		Namespace: s.operator, Logger: logger, LeaderElect: s.elects, Jobs: manager.Jobs{
			Settings: jobpod.Settings{InitImage: "i", ProxyImage: "p", Authority: s.service.Address, CA: s.service.CA},
			Runners:  gated(reach, gate),
		},
	})
	s.Must(err)
}

// end kills the manager. Its goroutines reach nothing from then on, and are not waited for.
func (s *scene) end() {
	s.manager.Gate.Kill()
	s.manager.End()
}

// gated are runners that a manager reaches until it is dead.
func gated(reach job.Runners, gate *wire.Gate) job.Runners {
	return through(reach, func(c jobexecv1.ExecutorClient) jobexecv1.ExecutorClient { return gatedRunner{c, gate} })
}

// through are runners of which all calls pass what wrap returns.
func through(reach job.Runners, wrap func(jobexecv1.ExecutorClient) jobexecv1.ExecutorClient) job.Runners {
	return func(p *corev1.Pod) (*runner.Client, error) {
		c, err := reach(p)
		if err == nil {
			c.ExecutorClient = wrap(c.ExecutorClient)
		}
		return c, err
	}
}

var errDead = errors.New("the manager is dead")

type gatedRunner struct {
	jobexecv1.ExecutorClient
	gate *wire.Gate
}

func (g gatedRunner) Run(ctx context.Context, r *jobexecv1.RunRequest, o ...grpc.CallOption) (*jobexecv1.Status, error) {
	if g.gate.IsDead() {
		return nil, errDead
	}
	return g.ExecutorClient.Run(ctx, r, o...)
}

func (g gatedRunner) Stop(ctx context.Context, r *jobexecv1.StopRequest, o ...grpc.CallOption) (*jobexecv1.Status, error) {
	if g.gate.IsDead() {
		return nil, errDead
	}
	return g.ExecutorClient.Stop(ctx, r, o...)
}

func (g gatedRunner) Watch(ctx context.Context, r *jobexecv1.ExecutionRef, o ...grpc.CallOption) (grpc.ServerStreamingClient[jobexecv1.Status], error) {
	if g.gate.IsDead() {
		return nil, errDead
	}
	return g.ExecutorClient.Watch(ctx, r, o...)
}

func (g gatedRunner) Release(ctx context.Context, r *jobexecv1.ExecutionRef, o ...grpc.CallOption) (*jobexecv1.Status, error) {
	if g.gate.IsDead() {
		return nil, errDead
	}
	return g.ExecutorClient.Release(ctx, r, o...)
}

package jobs

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/reconcilers/job"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/wire"
	"switchyard.dev/tools/wait"
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
	var reach job.Runners = job.Reach{Authority: s.service.Keys.Authority, Issue: s.service.Keys.Issue}
	if s.plant != nil {
		reach = planted{reach, s.plant}
	}
	var err error
	s.manager, err = life.Begin(context.Background(), gate, s.As(""), s.log.Open(), manager.Config{ // It ends after the test.
		Namespace: s.operator, Logger: logger, LeaderElect: s.elects, Jobs: manager.Jobs{
			Settings: jobpod.Settings{InitImage: "i", ProxyImage: "p", Authority: s.service.Address, CA: s.service.CA},
			Runners:  gated{reach, gate},
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
type gated struct {
	job.Runners
	gate *wire.Gate
}

var errDead = errors.New("the manager is dead")

func (g gated) Runner(p *corev1.Pod) (job.Runner, error) {
	r, err := g.Runners.Runner(p)
	return gatedRunner{r, g.gate}, err
}

type gatedRunner struct {
	job.Runner
	gate *wire.Gate
}

func (g gatedRunner) Run(ctx context.Context, r *jobexecv1.RunRequest) (*jobexecv1.Status, error) {
	if g.gate.IsDead() {
		return nil, errDead
	}
	return g.Runner.Run(ctx, r)
}

func (g gatedRunner) Stop(ctx context.Context, r *jobexecv1.StopRequest) (*jobexecv1.Status, error) {
	if g.gate.IsDead() {
		return nil, errDead
	}
	return g.Runner.Stop(ctx, r)
}

func (g gatedRunner) Watch(ctx context.Context, r *jobexecv1.ExecutionRef, each func(*jobexecv1.Status)) error {
	if g.gate.IsDead() {
		return errDead
	}
	return g.Runner.Watch(ctx, r, each)
}

func (g gatedRunner) Release(ctx context.Context, r *jobexecv1.ExecutionRef) (*jobexecv1.Status, error) {
	if g.gate.IsDead() {
		return nil, errDead
	}
	return g.Runner.Release(ctx, r)
}

package jobs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/reconcilers/job"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/wire"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/wait"
	runner "switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobpod"
)

var (
	count   = flag.Int("jobs", 30, "`number` of jobs")
	seed    = flag.Uint64("seed", uint64(time.Now().UnixNano()), "`number` that decides about the kills")
	logFile = flag.String("log", os.DevNull, "`file` for the log of managers")
)

func TestMain(m *testing.M) {
	flag.Parse()
	file, err := os.Create(*logFile)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	logger = slog.New(slog.NewTextHandler(file, nil))
	life.Quiet(logger)
	world.Main(m)
}

// logger is that of managers.
var logger *slog.Logger

// everyNth is after how many jobs something is killed.
const everyNth = 3

// killManager is the kill that is none of the node's.
const killManager = "manager"

// scene is a run.
type scene struct {
	*world.World
	node    *Node
	service *runners.Service
	random  *rand.Rand
	log     *memory.Store
	// operator and ns are the namespaces of the operator and of the pods.
	operator, ns, ledger string
	groups               []*crdv1.JobRunnerGroup
	asked                map[string]asked
	manager              *life.Life
}

// TestJobsAreKilled submits jobs, and kills something after every third of them.
func TestJobsAreKilled(t *testing.T) {
	s := newScene(t)
	kills := []string{killManager, killProxy, killExecutor, killPod, evictPod}
	done := map[string]int{}
	for i := range *count {
		s.submit(i)
		s.pause(300 * time.Millisecond)
		if i%everyNth != everyNth-1 {
			continue
		}
		part := kills[i/everyNth%len(kills)]
		if s.kill(part) {
			done[part]++
		}
	}
	for _, part := range kills {
		if *count >= everyNth*len(kills) && done[part] == 0 {
			t.Errorf("no %s was killed", part)
		}
	}
	statuses := s.ended()
	ledger, err := os.ReadFile(s.ledger)
	s.Must(err)
	ran, err := read(string(ledger))
	s.Must(err)
	got := evidence{s.asked, ran, statuses, s.node.struck}.judge()
	for _, f := range got.findings {
		t.Error(f)
	}
	figures.Text(os.Stdout, "jobs-false-successes", got.falseSuccesses, "jobs", fmt.Sprintf("0 of %d", *count), got.falseSuccesses == 0)
	figures.Text(os.Stdout, "jobs-wrong", len(got.findings), "findings", "0", len(got.findings) == 0)
	t.Logf("seed %d; killed: %v; of %d jobs %d were lost, and %d ran again", *seed, done, *count, got.lost, got.again)
	s.nothingIsLeft()
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{World: world.Shared(t), random: rand.New(rand.NewPCG(*seed, 0)), log: memory.NewStore(), asked: map[string]asked{}} //nolint:gosec // It is to be the same again.
	s.operator, s.ns, s.ledger = s.NewNamespace("operator"), s.NewNamespace("jobs"), filepath.Join(t.TempDir(), "ledger")
	s.Must(os.WriteFile(s.ledger, nil, 0o600))
	s.Accounts(s.ns, "default")
	s.service = runners.Serve(s.World, s.operator)
	for i, spec := range []string{"replicas: 3, reusePods: true", "replicas: 2, reusePods: false"} {
		g := &crdv1.JobRunnerGroup{}
		s.Make(g, fmt.Sprintf("metadata: {name: group-%d, namespace: %s}\nspec: {image: debian, %s}", i, s.ns, spec))
		s.groups = append(s.groups, g)
	}
	s.node = NewNode(t, s.Kube, s.ns, "LEDGER="+s.ledger)
	background.Run(t, s.node.Run)
	s.begin()
	t.Cleanup(s.end)
	return s
}

// begin starts a manager.
func (s *scene) begin() {
	s.Helper()
	gate := wire.NewGate(wire.Faults{}, wire.NewLedger())
	var err error
	s.manager, err = life.Begin(context.Background(), gate, s.As(""), s.log.Open(), manager.Config{ // It ends after the test.
		Namespace: s.operator, Logger: logger, Jobs: manager.Jobs{
			Settings: jobpod.Settings{InitImage: "i", ProxyImage: "p", Authority: s.service.Address, CA: s.service.CA},
			Runners:  gated(job.Reach(s.service.Keys.Authority, s.service.Keys.Issue), gate),
		},
	})
	s.Must(err)
}

// end kills the manager. Its goroutines reach nothing from then on, and are not waited for.
func (s *scene) end() {
	s.manager.Gate.Kill()
	s.manager.End()
}

var errDead = errors.New("the manager is dead")

// gated are runners that a manager reaches until it is dead.
func gated(reach job.Runners, gate *wire.Gate) job.Runners {
	return func(p *corev1.Pod) (*runner.Client, error) {
		c, err := reach(p)
		if err == nil {
			c.ExecutorClient = gatedRunner{c.ExecutorClient, gate}
		}
		return c, err
	}
}

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

// submit creates the i-th job: every fourth one fails by itself, and every other one may run again.
func (s *scene) submit(i int) {
	s.Helper()
	a := asked{retries: i % 2}
	if i%4 == 3 {
		a.code = 3
	}
	group := s.groups[0]
	if i%5 == 4 {
		group = s.groups[1]
	}
	j := &crdv1.Job{}
	s.Read(j, fmt.Sprintf("metadata: {name: %s-%d, annotations: {switchyard.dev/retries: %q}}\nspec: {runnerGroup: {namespace: %s, name: %s}}",
		s.ns, i, fmt.Sprint(a.retries), s.ns, group.Name))
	j.Spec.Content.Script = fmt.Sprintf("#!/bin/sh\nn=$SIGNADOT_CONTROL_JOB_NAME\necho $n begun >> $LEDGER\nsleep %.2f\necho $n end %d >> $LEDGER\nexit %d\n",
		0.1+1.4*s.random.Float64(), a.code, a.code)
	s.Create(j)
	s.asked[j.Name] = a
}

// pause waits for a random time.
func (s *scene) pause(most time.Duration) {
	s.Helper()
	s.Must(wait.For(s.Context(), time.Duration(s.random.Int64N(int64(most)))))
}

// kill kills something, and reports whether there was something.
func (s *scene) kill(part string) bool {
	s.Helper()
	if part == killManager {
		s.end()
		s.pause(300 * time.Millisecond)
		s.begin()
		return true
	}
	name := ""
	s.Eventually("a "+part+" is killed", func() (err error) {
		if name, err = s.node.strike(s.Context(), s.random, part); err == nil && name == "" {
			err = errors.New("there is none")
		}
		return err
	})
	return name != ""
}

// ended waits for the end of all jobs, and returns their statuses.
func (s *scene) ended() map[string]crdv1.JobStatus {
	s.Helper()
	var out map[string]crdv1.JobStatus
	before := -1
	left := func() (n int) {
		var list crdv1.JobList
		s.List(&list)
		out = map[string]crdv1.JobStatus{}
		for _, j := range list.Items {
			if _, is := s.asked[j.Name]; !is {
				continue
			}
			if out[j.Name] = j.Status; j.Status.State == nil || j.Status.State.Terminated == nil {
				n++
			}
		}
		return n
	}
	for n := left(); n > 0 && n != before; n = left() { // As long as some end.
		before = n
		_ = wait.Until(s.Context(), world.Patience, "another job ends", func() error {
			if left() >= before {
				return errors.New("none has ended")
			}
			return nil
		})
	}
	return out
}

// nothingIsLeft deletes everything.
func (s *scene) nothingIsLeft() {
	s.Helper()
	for name := range s.asked {
		j := &crdv1.Job{}
		j.Name = name
		s.Must(client.IgnoreNotFound(s.Client.Delete(s.Context(), j)))
	}
	for _, g := range s.groups {
		s.Remove(g)
	}
	s.Eventually("nothing is left", func() error {
		var all []string
		for kind, list := range map[string]client.ObjectList{"Job": &crdv1.JobList{}, "JobRunnerGroup": &crdv1.JobRunnerGroupList{}, "Pod": &corev1.PodList{}, "Service": &corev1.ServiceList{}} {
			s.List(list)
			for _, o := range items(list) {
				if strings.HasPrefix(o.GetName(), s.ns) || o.GetNamespace() == s.ns {
					all = append(all, fmt.Sprintf("%s %s (%v)", kind, o.GetName(), o.GetFinalizers()))
				}
			}
		}
		if here := s.node.left(); here != "" {
			all = append(all, here)
		}
		if len(all) > 0 {
			return errors.New(strings.Join(all, ", "))
		}
		return nil
	})
}

// items returns the objects of a list.
func items(list client.ObjectList) (out []client.Object) {
	switch l := list.(type) {
	case *crdv1.JobList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	case *crdv1.JobRunnerGroupList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	case *corev1.PodList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	case *corev1.ServiceList:
		for i := range l.Items {
			out = append(out, &l.Items[i])
		}
	}
	return out
}

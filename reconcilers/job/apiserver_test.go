package job_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/job"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/world"
	runner "switchyard.dev/workflows/jobexec/client"
	"switchyard.dev/workflows/jobexec/results"
	"switchyard.dev/workflows/jobpod"
)

func TestMain(m *testing.M) { world.Main(m) }

// scene is a runner group with pods that have processes as runners.
type scene struct {
	*world.World
	authority *runners.Authority
	group     *crdv1.JobRunnerGroup
	// dir has the ledger: the file to which scripts append.
	dir  string
	gate *gate
	stop func()
	// limits are those of finished jobs.
	limits job.Limits
	// results is the operator's bucket; nil: it has none.
	results *results.Kept
	// cached is the group in the cache of the controller, if that is behind.
	cached atomic.Pointer[crdv1.JobRunnerGroup]
}

// newScene makes a group, without pods and without a controller.
func newScene(t testing.TB, spec string) *scene {
	t.Helper()
	s := &scene{World: world.Shared(t), authority: runners.NewAuthority(t), dir: t.TempDir(), gate: &gate{}}
	s.group = &crdv1.JobRunnerGroup{}
	s.Make(s.group, "metadata: {name: tests, namespace: "+s.NewNamespace("jobs")+"}\nspec: {image: alpine, "+spec+"}")
	return s
}

// pods are the pods of the manager's cache.
type pods struct{ crcache.Cache }

func (p pods) Source(h handler.EventHandler) source.Source {
	return source.Kind[client.Object](p.Cache, &corev1.Pod{}, h)
}

// behind is the client of a manager with a cache that is behind.
type behind struct {
	client.Client
	of *scene
}

func (b behind) Get(ctx context.Context, key client.ObjectKey, o client.Object, more ...client.GetOption) error {
	if g, is := o.(*crdv1.JobRunnerGroup); is && b.of.cached.Load() != nil {
		b.of.cached.Load().DeepCopyInto(g)
		return nil
	}
	return b.Client.Get(ctx, key, o, more...)
}

// manage starts a controller, which s.stop ends.
func (s *scene) manage() {
	s.Helper()
	access := s.As("")
	access.QPS, access.Burst = 1000, 2000
	access.Wrap(s.gate.wrap)
	scheme, err := manager.Scheme()
	s.Must(err)
	several, graceful := true, time.Second
	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: &graceful,
		Controller: config.Controller{SkipNameValidation: &several},
	})
	s.Must(err)
	s.Must(job.Index(s.Context(), mgr.GetFieldIndexer()))
	cached := behind{mgr.GetClient(), s}
	of := controller.Of(cached, job.New(job.Config{
		Access: apply.Access{Client: cached, Live: mgr.GetAPIReader(), Now: time.Now},
		Pods:   pods{mgr.GetCache()}, Runners: gated(job.Reach(s.authority.PEM, s.authority.Issue), s.gate), Limits: s.limits, Results: s.results,
	}))
	s.Must(of.Setup(mgr, "job", nil))
	s.stop = background.Run(s, mgr.Start)
}

// pod makes a pod of the group with a runner at work, as the group's controller and a kubelet would.
func (s *scene) pod(name string, env ...string) (*corev1.Pod, *runners.Runner) {
	s.Helper()
	r := runners.New(s, s.authority, append(env, "LEDGER="+s.ledger())...)
	p := jobpod.Pod(s.group, name, jobpod.Settings{InitImage: "i", ProxyImage: "p", OperatorNamespace: "signadot", Authority: "a:1", CA: "ca"})
	p.Namespace = s.group.Namespace
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.group, crdv1.GroupVersion().WithKind(crdv1.KindJobRunnerGroup))}
	s.RunPod(p, corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: r.IP, PodIPs: []corev1.PodIP{{IP: r.IP}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "main", Ready: true, ContainerID: "test://" + name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: "job-executor-proxy", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		},
	})
	r.Start(string(p.UID))
	s.change(func(g *crdv1.JobRunnerGroup) {
		g.Status.Runners = append(g.Status.Runners, crdv1.RunnerPod{Name: name, UID: p.UID, Version: "v"})
	})
	return p, r
}

// change changes the status of the group.
func (s *scene) change(change func(*crdv1.JobRunnerGroup)) {
	s.Helper()
	s.Eventually("the status of the group is written", func() error {
		if err := s.Look(s.group); err != nil {
			return err
		}
		change(s.group)
		return s.Client.Status().Update(s.Context(), s.group)
	})
}

// submit creates a job with a script; more are further lines of its spec.
func (s *scene) submit(name, script string, more ...string) *crdv1.Job {
	s.Helper()
	j := s.job(name, script, more...)
	s.Create(j)
	return j
}

// job returns such a job.
func (s *scene) job(name, script string, more ...string) *crdv1.Job {
	s.Helper()
	j := &crdv1.Job{}
	s.Read(j, "spec:\n  runnerGroup: {namespace: "+s.group.Namespace+", name: tests}\n  "+strings.Join(more, "\n  "))
	j.Name, j.Spec.Content.Script = s.group.Namespace+"-"+name, "#!/bin/sh\n"+script
	return j
}

// ended waits for the end of a job.
func (s *scene) ended(j *crdv1.Job) *crdv1.JobTerminated {
	s.Helper()
	s.Eventually("job "+j.Name+" ends", func() error {
		if err := s.Look(j); err != nil {
			return err
		}
		if j.Status.State == nil || j.Status.State.Terminated == nil {
			return fmt.Errorf("its status is %+v, %+v", j.Status.State, j.Status.Execution)
		}
		return nil
	})
	return j.Status.State.Terminated
}

// waits waits until a job waits for a reason, and returns the message.
func (s *scene) waits(j *crdv1.Job, reason string) string {
	s.Helper()
	return s.Condition(j, crdv1.ConditionRunnerAssigned, "False", reason)
}

// begun waits until a script has written its name to the ledger.
func (s *scene) begun(line string) {
	s.Helper()
	s.Eventually("the ledger has "+line, func() error {
		if !slices.Contains(s.lines(), line) {
			return fmt.Errorf("it is %q", s.lines())
		}
		return nil
	})
}

func (s *scene) ledger() string { return filepath.Join(s.dir, "ledger") }

// lines are those of the ledger.
func (s *scene) lines() []string {
	text, err := os.ReadFile(s.ledger())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	return strings.Fields(string(text))
}

// free waits until no pod of the group has a job.
func (s *scene) free() {
	s.Helper()
	s.Eventually("no pod has a job", func() error {
		var list corev1.PodList
		s.List(&list, client.InNamespace(s.group.Namespace), client.HasLabels{crdv1.AssignedJobLabel})
		if len(list.Items) > 0 {
			return fmt.Errorf("%s has %s", list.Items[0].Name, list.Items[0].Labels[crdv1.AssignedJobLabel])
		}
		return nil
	})
}

// killed waits until the controller is killed, or a job has ended and no pod has one; it reports which.
func (s *scene) killed(j *crdv1.Job) (killed bool) {
	s.Helper()
	s.Eventually("the controller is killed, or "+j.Name+" has ended", func() error {
		if killed = s.gate.dead(); killed {
			return nil
		}
		var busy corev1.PodList
		s.List(&busy, client.InNamespace(s.group.Namespace), client.HasLabels{crdv1.AssignedJobLabel})
		s.Get(j)
		if len(busy.Items) > 0 || j.Status.State == nil || j.Status.State.Terminated == nil {
			return errors.New("neither")
		}
		return nil
	})
	return killed
}

// target makes a sandbox that is ready.
func (s *scene) sandbox(name string) *crdv1.SignadotSandbox {
	s.Helper()
	sb := &crdv1.SignadotSandbox{}
	s.Make(sb, "metadata: {name: "+s.group.Namespace+"-"+name+"}\nspec: {id: key-"+s.group.Namespace+", name: users-name}")
	return sb
}

// ready sets the condition Ready of a sandbox.
func (s *scene) ready(sb *crdv1.SignadotSandbox, status, reason string) {
	s.Helper()
	s.Eventually("the status is written", func() error {
		if err := s.Look(sb); err != nil {
			return err
		}
		crdv1.SetCondition(&sb.Status.Conditions, metav1.Condition{
			Type: crdv1.ConditionReady, Status: metav1.ConditionStatus(status), Reason: reason, Message: "m", ObservedGeneration: sb.Generation, LastTransitionTime: metav1.Now(),
		})
		return s.Client.Status().Update(s.Context(), sb)
	})
}

// gate counts the effects of a controller, and ends it after one of them, as a kill would: from then on no request of
// it reaches anything.
type gate struct {
	mu sync.Mutex
	// writes are those to the API server, and effects these and calls to runners, in order.
	writes, effects []string
	// last is the effect with which it is killed, counted from 1; 0: it is not.
	last   int
	killed chan struct{}
	// refused are effects that fail, and refusals how often they still do.
	refused  string
	refusals int
	// streams are those of statuses that were opened, and cut ends the last one.
	streams int
	cut     context.CancelFunc
	// held is a write that waits until free is closed, and reached is closed once it does.
	held          string
	reached, free chan struct{}
	// spoil is the name of a job with requests that no runner accepts.
	spoil string
	// asked counts the answers that name results which were released.
	asked atomic.Int32
	// release is called before results are released.
	release func(context.Context, *jobexecv1.ExecutionRef)
}

var errKilled = errors.New("the controller was killed")

// pass counts an effect, and returns whether it is done, and whether its answer arrives.
func (g *gate) pass(what string, write bool) (does, answers bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.dead() {
		return false, false
	}
	if g.refusals > 0 && what == g.refused {
		g.refusals--
		return false, false
	}
	g.effects = append(g.effects, what)
	if write {
		g.writes = append(g.writes, what)
	}
	if g.last == 0 || len(g.effects) < g.last {
		return true, true
	}
	close(g.killed)
	return true, false
}

func (g *gate) dead() bool {
	select {
	case <-g.killed:
		return true
	default:
		return false
	}
}

// refuse has an effect fail n times, and returns how many effects there are before.
func (g *gate) refuse(what string, n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refused, g.refusals = what, n
	return len(g.effects)
}

// reset forgets all effects, and kills at an effect.
func (g *gate) reset(last int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writes, g.effects, g.last, g.killed = nil, nil, last, make(chan struct{})
}

// count returns how many effects with this name there were.
func (g *gate) count(what string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.effects {
		if e == what {
			n++
		}
	}
	return n
}

// hold has the next write with this name wait until the function is called that it returns.
func (g *gate) hold(what string) (reached <-chan struct{}, free func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	opens := make(chan struct{})
	g.held, g.reached, g.free = what, make(chan struct{}), opens
	return g.reached, sync.OnceFunc(func() { close(opens) })
}

// wait waits if a write with this name is held.
func (g *gate) wait(what string) {
	g.mu.Lock()
	if g.held == "" || what != g.held {
		g.mu.Unlock()
		return
	}
	g.held = ""
	close(g.reached)
	free := g.free
	g.mu.Unlock()
	<-free
}

func (g *gate) wrap(next http.RoundTripper) http.RoundTripper {
	return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
		g.wait(nameOf(r))
		does, answers := true, true
		if r.Method != http.MethodGet {
			does, answers = g.pass(nameOf(r), true)
		} else {
			g.mu.Lock()
			does = !g.dead()
			g.mu.Unlock()
		}
		if !does {
			return nil, errKilled
		}
		response, err := next.RoundTrip(r)
		if !answers && err == nil {
			_ = response.Body.Close()
			return nil, errKilled
		}
		return response, err
	})
}

// runningLong is the end of the name of a write that records the start of a script which runs for long.
const runningLong = " (running)"

// nameOf returns the name of a write.
func nameOf(r *http.Request) string {
	name := r.Method + " " + r.URL.Path
	if r.GetBody != nil {
		if body, err := r.GetBody(); err == nil {
			if text, err := io.ReadAll(body); err == nil && strings.Contains(string(text), `"phase":"Running"`) {
				name += runningLong
			}
		}
	}
	return name
}

// gated puts runners behind a gate.
func gated(reach job.Runners, g *gate) job.Runners {
	return func(p *corev1.Pod) (*runner.Client, error) {
		c, err := reach(p)
		if err == nil {
			c.ExecutorClient = gatedRunner{c.ExecutorClient, g}
		}
		return c, err
	}
}

type gatedRunner struct {
	jobexecv1.ExecutorClient
	gate *gate
}

func (g gatedRunner) Run(ctx context.Context, r *jobexecv1.RunRequest, o ...grpc.CallOption) (*jobexecv1.Status, error) {
	if r.GetJobName() == g.gate.spoil {
		r.Timeout = durationpb.New(-1)
	}
	return g.through("run "+r.GetJobName(), func() (*jobexecv1.Status, error) { return g.ExecutorClient.Run(ctx, r, o...) })
}

func (g gatedRunner) Stop(ctx context.Context, r *jobexecv1.StopRequest, o ...grpc.CallOption) (*jobexecv1.Status, error) {
	return g.through("stop", func() (*jobexecv1.Status, error) { return g.ExecutorClient.Stop(ctx, r, o...) })
}

func (g gatedRunner) Watch(ctx context.Context, r *jobexecv1.ExecutionRef, o ...grpc.CallOption) (grpc.ServerStreamingClient[jobexecv1.Status], error) {
	g.gate.mu.Lock()
	g.gate.streams++
	ctx, g.gate.cut = context.WithCancel(ctx)
	g.gate.mu.Unlock()
	return g.ExecutorClient.Watch(ctx, r, o...)
}

func (g gatedRunner) Runner(ctx context.Context, r *jobexecv1.RunnerRequest, o ...grpc.CallOption) (*jobexecv1.RunnerStatus, error) {
	st, err := g.ExecutorClient.Runner(ctx, r, o...)
	if len(st.GetReleased()) > 0 {
		g.gate.asked.Add(1)
	}
	return st, err
}

func (g gatedRunner) Release(ctx context.Context, r *jobexecv1.ExecutionRef, o ...grpc.CallOption) (*jobexecv1.Status, error) {
	if g.gate.release != nil {
		g.gate.release(ctx, r)
	}
	return g.ExecutorClient.Release(ctx, r, o...)
}

func (g gatedRunner) through(what string, call func() (*jobexecv1.Status, error)) (*jobexecv1.Status, error) {
	does, answers := g.gate.pass(what, false)
	if !does {
		return nil, errKilled
	}
	st, err := call()
	if !answers {
		return nil, errKilled
	}
	return st, err
}

// uid returns the UID of an object.
func uid(o client.Object) types.UID { return o.GetUID() }

package job_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/reconcilers/job"
	"switchyard.dev/tests/runners"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/jobs"
)

// Jobs run in a pod that is reused, one after the other, and end as their scripts do.
func TestJobsEndAsTheirScriptsDo(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	s.manage()
	early := s.submit("early", "echo early >> $LEDGER; exit 3")
	s.waits(early, "PodsNotReady")
	pod, _ := s.pod("t-1")
	if got := s.ended(early); got.Success || got.Reason != "ScriptFailed" || *got.ExitCode != 3 || got.Retryable || got.StartedAt == nil || got.FinishedAt == nil {
		t.Errorf("%+v", got)
	}
	if e := early.Status.Execution; e.Count != 1 || e.PodUID != string(pod.UID) || e.ContainerID != "test://t-1" || e.Output.State != crdv1.OutputKept {
		t.Errorf("%+v", e)
	}

	sb := s.sandbox("sb")
	against := s.submit("against", `env | grep ^SIGNADOT | sort | tr '\n' ' ' >> $LEDGER; echo out; echo err >&2; echo x > file`,
		"routingContext: {sandboxName: "+sb.Name+"}", "env: [{name: A, value: b}]", "artifacts: [{path: file, meta: {k: v}}, {path: missing}]", "trafficManager: {injectRoutingKey: Auto}")
	s.Says(s.waits(against, "SandboxNotReady"), "is not ready yet")
	s.ready(sb, "False", "X")
	s.Eventually("the reason is there", func() error {
		s.Get(against)
		if m := against.Status.State.Waiting.Message; !strings.Contains(m, "is not ready: m") {
			return fmt.Errorf("%q", m)
		}
		return nil
	})
	s.ready(sb, "True", "Ready")
	if got := s.ended(against); !got.Success || *got.ExitCode != 0 {
		t.Errorf("%+v", got)
	}
	s.Eventually("its artifacts are recorded", func() error {
		s.Get(against)
		if o := against.Status.Execution.Output; o == nil || o.Stdout != 4 || o.Stderr != 4 {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})
	if a := against.Status.Execution.Artifacts; len(a) != 2 || a[0].Size != 2 || len(a[0].SHA256) != 64 || a[1].Problem == "" {
		t.Errorf("%+v", a)
	}
	if got, want := strings.Join(s.lines()[1:], " "), strings.Join([]string{"SIGNADOT_CONTROL_JOB_ATTEMPT_ID=0", "SIGNADOT_CONTROL_JOB_NAME=" + against.Name, "SIGNADOT_CONTROL_ORG_NAME=",
		"SIGNADOT_ROUTEGROUP_NAME=", "SIGNADOT_ROUTING_KEY=" + sb.Spec.ID, "SIGNADOT_SANDBOX_NAME=users-name"}, " "); got != want {
		t.Errorf("the environment is %s, want %s", got, want)
	}

	late := s.submit("late", "echo late >> $LEDGER; sleep 600", "timeout: 1s")
	if got := s.ended(late); got.Success || !got.TimedOut || got.Canceled || got.Reason != "TimedOut" {
		t.Errorf("%+v", got)
	}
	canceled := s.submit("canceled", "echo canceled >> $LEDGER; sleep 600")
	s.begun("canceled")
	waiting := s.submit("waiting", "echo never")
	s.Says(s.waits(waiting, "NoIdlePod"), "Every ready pod of runner group")
	for _, j := range []*crdv1.Job{waiting, canceled} {
		world.Edit(s.World, j, func(j *crdv1.Job) { j.Spec.Canceled = true })
		if got := s.ended(j); got.Success || !got.Canceled || got.Reason != "Canceled" {
			t.Errorf("%+v", got)
		}
	}
	deleted := s.submit("deleted", `trap 'sleep 1; echo stopped >> $LEDGER; exit' TERM; echo deleted >> $LEDGER; sleep 600 & wait`)
	s.begun("deleted")
	s.Remove(deleted)
	s.Gone(deleted)
	if lines := s.lines(); !slices.Contains(lines, "stopped") {
		t.Errorf("the Job was deleted before its script ended: %q", lines)
	}
	lost := s.submit("lost", "echo lost >> $LEDGER; sleep 600", "routingContext: {sandboxName: "+sb.Name+"}")
	s.begun("lost")
	s.Remove(sb)
	if got := s.ended(lost); got.Success || got.Canceled || got.Reason != "SandboxDeleted" {
		t.Errorf("%+v", got)
	}
	invalid := s.submit("invalid", "true", "env: [{name: SIGNADOT_X}]")
	if got := s.ended(invalid); got.Reason != "InvalidSpec" {
		t.Errorf("%+v", got)
	}
	s.Condition(invalid, crdv1.ConditionAccepted, "False", "InvalidSpec")
	s.free()
	s.Get(pod)
	if pod.Annotations[crdv1.AnnotationDraining] != "" || pod.Annotations[crdv1.AnnotationJobResults] != crdv1.JobResultsKept {
		t.Errorf("the pod is %v", pod.Annotations)
	}
}

// An execution with a deleted pod, or a killed executor, has no outcome: it fails, or runs once more if the
// job permits it. No script begins twice in one execution.
func TestAnExecutionWithoutAnOutcomeFails(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	s.manage()
	first, one := s.pod("t-1")
	killed := s.submit("killed", "echo killed >> $LEDGER; sleep 600")
	s.begun("killed")
	one.KillExecutor()
	one.StartExecutor()
	if got := s.ended(killed); got.Success || !got.Retryable || got.Reason != "ExecutorLost" {
		t.Errorf("%+v", got)
	}
	gone := s.submit("gone", "echo gone >> $LEDGER; sleep 600")
	s.begun("gone")
	one.Kill()
	s.Remove(first)
	if got := s.ended(gone); got.Success || !got.Retryable || got.Reason != "PodDeleted" {
		t.Errorf("%+v", got)
	}
	if o := gone.Status.Execution.Output; o == nil || o.State != crdv1.OutputLost {
		t.Errorf("%+v", o)
	}
	s.Eventually("the loss of earlier output is stated", func() error {
		s.Get(killed)
		if o := killed.Status.Execution.Output; o.State != crdv1.OutputLost {
			return fmt.Errorf("%+v", o)
		}
		return nil
	})

	second, two := s.pod("t-2")
	again := s.submit("again", "echo again >> $LEDGER; [ -e go ] || { touch go; sleep 600; }")
	world.Edit(s.World, again, func(j *crdv1.Job) { j.Annotations = map[string]string{crdv1.AnnotationRetries: "1"} })
	s.begun("again")
	two.Kill()
	s.Remove(second)
	s.Says(s.waits(again, "PodsNotReady"))
	_, three := s.pod("t-3")
	s.Eventually("it runs again", func() error {
		if n := strings.Count(strings.Join(s.lines(), " "), "again"); n != 2 {
			return fmt.Errorf("it ran %d times", n)
		}
		return nil
	})
	world.Edit(s.World, again, func(j *crdv1.Job) { j.Spec.Canceled = true })
	if got := s.ended(again); !got.Canceled || again.Status.Execution.Count != 2 {
		t.Errorf("%+v %+v", got, again.Status.Execution)
	}
	evicted := s.submit("evicted", "echo evicted >> $LEDGER; sleep 600")
	s.begun("evicted")
	three.Terminate(time.Minute)
	if got := s.ended(evicted); got.Success || !got.Retryable || got.Reason != "PodTerminated" {
		t.Errorf("%+v", got)
	}
	if lines := strings.Join(s.lines(), " "); lines != "killed gone again again evicted" {
		t.Error(lines)
	}
}

// Results in a pod that is reused, which another program has read and released, are not reported as lost when the pod is
// deleted, and no job costs a write for that before.
func TestResultsThatWereReadAreNotLostWithTheirPod(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	s.manage()
	pod, process := s.pod("t-1")
	read, unread := s.submit("read", "true"), s.submit("unread", "true")
	for _, j := range []*crdv1.Job{read, unread} {
		s.ended(j)
	}
	s.free()
	s.gate.reset(0)
	runner, err := job.Reach(s.authority.PEM, s.authority.Issue)(pod)
	s.Must(err)
	_, err = runner.Release(s.Context(), jobs.Ref(read))
	s.Must(errors.Join(err, runner.Close()))
	s.Eventually("the controller knows that", func() error {
		if s.gate.asked.Load() < 3 { // An answer is recorded before the next question.
			return errors.New("it is not")
		}
		return nil
	})
	s.Get(read)
	if n := s.gate.count("PATCH /apis/signadot.com/v1/jobs/" + read.Name + "/status"); n > 0 || read.Status.Execution.Output.State != crdv1.OutputKept {
		t.Errorf("%d writes, and %+v", n, read.Status.Execution.Output)
	}
	process.Kill()
	s.Remove(pod)
	for j, want := range map[*crdv1.Job]string{read: crdv1.OutputReleased, unread: crdv1.OutputLost} {
		s.Eventually("the end of the pod is recorded", func() error {
			if s.Get(j); j.Status.Execution.Output.State == crdv1.OutputKept {
				return errors.New("it is not")
			}
			return nil
		})
		if got := j.Status.Execution.Output.State; got != want {
			t.Errorf("%s: %+v", j.Name, j.Status.Execution.Output)
		}
	}
}

// A pod of a group that does not reuse pods gets one job, and keeps its results.
func TestAPodThatIsNotReusedGetsOneJob(t *testing.T) {
	s := newScene(t, "reusePods: false")
	s.gate.reset(0)
	s.manage()
	pod, _ := s.pod("t-1")
	one := s.submit("one", "true")
	if got := s.ended(one); !got.Success {
		t.Errorf("%+v", got)
	}
	s.free()
	s.Get(pod)
	if a := pod.Annotations; a[crdv1.AnnotationDraining] != crdv1.DrainingJobEnded || a[crdv1.AnnotationJobResults] != crdv1.JobResultsKept || a[crdv1.AnnotationJobResultsSince] == "" {
		t.Errorf("%v", a)
	}
	runner, err := job.Reach(s.authority.PEM, s.authority.Issue)(pod)
	s.Must(err)
	_, err = runner.Release(s.Context(), jobs.Ref(one))
	s.Must(errors.Join(err, runner.Close()))
	s.Eventually("the pod is released", func() error {
		s.Get(pod)
		s.Get(one)
		if one.Status.Execution.Output.State != crdv1.OutputReleased || pod.Annotations[crdv1.AnnotationJobResults] != crdv1.JobResultsReleased {
			return fmt.Errorf("%+v %v", one.Status.Execution.Output, pod.Annotations)
		}
		return nil
	})
	next := s.submit("next", "true")
	s.waits(next, "NoIdlePod")
	world.Edit(s.World, s.group, func(g *crdv1.JobRunnerGroup) { g.Finalizers = []string{crdv1.Finalizer} }) // As its controller would.
	s.Remove(s.group)
	if got := s.ended(next); got.Success || got.Reason != "RunnerGroupDeleted" {
		t.Errorf("%+v", got)
	}
	s.Get(s.group)
	s.cached.Store(s.group.DeepCopy())
	world.Edit(s.World, s.group, func(g *crdv1.JobRunnerGroup) { g.Finalizers = nil })
	s.Gone(s.group) // which the cache does not know yet
	s.waits(s.submit("another", "true"), "RunnerGroupNotFound")
}

// The controller is killed after any of its effects while a job runs and another one waits for its pod: the next
// controller ends both, and each script has begun once.
func TestAControllerIsKilledAtAnyEffect(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	s.pod("t-1")
	var want []string
	last := 0
	for killed := true; killed; { // until both need fewer effects
		last++
		s.gate.reset(last)
		s.manage()
		var pair []*crdv1.Job
		for _, name := range []string{fmt.Sprint("first-", last), fmt.Sprint("next-", last)} {
			pair = append(pair, s.submit(name, "echo "+name+" >> $LEDGER"))
			want = append(want, name)
		}
		killed = s.killed(pair[1])
		s.stop()
		s.gate.reset(0)
		s.manage()
		for _, j := range pair {
			if got := s.ended(j); !got.Success || j.Status.Execution.Count != 1 {
				t.Errorf("%s: %+v %+v", j.Name, got, j.Status.Execution)
			}
		}
		s.free()
		s.stop()
	}
	if last <= 10 {
		t.Errorf("two jobs have %d effects", last-1)
	}
	lines := s.lines()
	slices.Sort(lines)
	slices.Sort(want)
	if !slices.Equal(lines, want) {
		t.Errorf("the ledger is %s", lines)
	}
}

// A job gets the label of a pod while the outcome of the job before is written. It begins after that is recorded.
func TestTheNextJobBeginsAfterTheOutcomeIsRecorded(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	s.pod("t-1")
	s.manage()
	first := s.submit("first", "echo first >> $LEDGER; while [ ! -e $LEDGER.go ]; do sleep 0.05; done")
	s.begun("first")
	next := s.submit("next", "echo next >> $LEDGER")
	s.waits(next, "NoIdlePod")
	outcome := "PATCH /apis/signadot.com/v1/jobs/" + first.Name + "/status"
	before := s.gate.refuse(outcome, 3)
	s.Must(os.WriteFile(s.ledger()+".go", nil, 0o600))
	s.ended(next)
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	effects := s.gate.effects[before:]
	if s.gate.refusals != 0 || slices.Index(effects, outcome) < 0 || slices.Index(effects, "run "+next.Name) < slices.Index(effects, outcome) {
		t.Errorf("%d refusals are left of %q", s.gate.refusals, effects)
	}
}

// A short job on a pod that is reused costs at most six writes with its creation, whether the pod is idle or the job
// waits for it. A job that a busy machine has run for more than two seconds costs one more.
func TestWritesOfAJob(t *testing.T) { newScene(t, "reusePods: true").writesOfAJob() }

// writesOfAJob counts them.
func (s *scene) writesOfAJob() {
	t := s.TB
	s.gate.reset(0)
	s.pod("t-1")
	s.manage()
	s.ended(s.submit("first", "true"))
	s.free()
	atMost := func(jobs []*crdv1.Job, what string) {
		for _, j := range jobs {
			s.inBucket(j)
		}
		s.gate.mu.Lock()
		defer s.gate.mu.Unlock()
		writes := slices.DeleteFunc(slices.Clone(s.gate.writes), func(w string) bool {
			// The controller also writes the jobs of scenes before this one.
			return strings.HasSuffix(w, runningLong) || !strings.Contains(w, s.group.Namespace)
		})
		if n := len(writes); n > 5*len(jobs)+len(jobs)/2 { // conflicts on a busy machine add a few
			t.Errorf("%d writes for %d jobs %s: %q", n, len(jobs), what, writes)
		}
	}
	s.gate.reset(0)
	var all []*crdv1.Job
	for i := range 10 {
		all = append(all, s.submit(fmt.Sprint("idle-", i), "true"))
		s.ended(all[i])
		s.free()
	}
	atMost(all, "on an idle pod")
	s.gate.reset(0)
	all = nil
	for i := range 30 {
		all = append(all, s.submit(fmt.Sprint("queued-", i), "true"))
	}
	for _, j := range all {
		if got := s.ended(j); !got.Success {
			t.Errorf("%s: %+v", j.Name, got)
		}
	}
	s.free()
	atMost(all, "that wait")
}

// A user with many jobs does not keep another one waiting: with one pod, the last of five jobs is among the next 12 that
// begin.
func TestUsersTakeTurns(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	s.pod("t-1")
	s.manage()
	queue := func(user string, n int) (all []*crdv1.Job) {
		for i := range n {
			j := s.job(fmt.Sprint(user, "-", i), "echo "+user+" >> $LEDGER; while [ ! -e $LEDGER.go ]; do sleep 0.05; done")
			j.Annotations = map[string]string{crdv1.AnnotationAuthor: crdv1.Author{User: user}.String()}
			s.Create(j)
			all = append(all, j)
		}
		return all
	}
	queue("a", 30)
	s.begun("a")
	other := queue("b", 5)
	s.waits(other[4], "NoIdlePod") // the controller knows all of them
	before := len(s.lines())
	s.Must(os.WriteFile(s.ledger()+".go", nil, 0o600))
	for _, j := range other {
		s.ended(j)
	}
	starts := s.lines()[before:]
	if len(starts) > 30 || slices.Contains(starts[min(12, len(starts)):], "b") {
		t.Errorf("the next starts are %q", starts)
	}
}

// Finished Jobs are deleted when they are old, or too many, and their results after that: no runner is awaited.
func TestFinishedJobsAreDeleted(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	released := make(chan error, 2)
	s.gate.release = func(ctx context.Context, ref *jobexecv1.ExecutionRef) {
		there := func(j crdv1.Job) bool { return string(j.UID) == ref.GetJobUid() && j.DeletionTimestamp == nil }
		for list := (crdv1.JobList{}); ; time.Sleep(50 * time.Millisecond) {
			if s.List(&list); !slices.ContainsFunc(list.Items, there) || ctx.Err() != nil {
				released <- ctx.Err()
				return
			}
		}
	}
	s.limits.Keep, s.limits.Most, s.limits.Unread = time.Hour, 2, time.Nanosecond
	s.pod("t-1")
	s.manage()
	for i := range 4 {
		s.ended(s.submit(fmt.Sprint("j-", i), "true"))
		time.Sleep(time.Second) // times of statuses are whole seconds
	}
	s.Eventually("two are left", func() error {
		var list crdv1.JobList
		s.List(&list)
		left := 0
		for _, j := range list.Items {
			if strings.HasPrefix(j.Name, s.group.Namespace+"-") {
				left++
			}
		}
		if left != 2 {
			return fmt.Errorf("%d", left)
		}
		return nil
	})
	for range 2 {
		if err := <-released; err != nil {
			t.Errorf("a runner that did not answer was awaited: %v", err)
		}
	}
	var pods corev1.PodList
	s.List(&pods, client.InNamespace(s.group.Namespace))
	if len(pods.Items) != 1 {
		t.Error("the pod was deleted")
	}
}

// A stream of statuses that ends, as each does with its ticket, is continued, and nothing is written.
func TestAStreamThatEndsIsContinued(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	s.pod("t-1")
	s.manage()
	j := s.submit("long", "echo long >> $LEDGER; while [ ! -e $LEDGER.go ]; do sleep 0.05; done")
	s.Eventually("it has run for longer than a pod may be silent", func() error {
		s.Get(j)
		if at := jobs.StartedAt(j.Status.State); at == nil || time.Since(at.Time) < 7*time.Second {
			return fmt.Errorf("%+v", j.Status.State)
		}
		return nil
	})
	s.gate.mu.Lock()
	before, streams := len(s.gate.writes), s.gate.streams
	s.gate.cut()
	s.gate.mu.Unlock()
	s.Eventually("there is another stream", func() error {
		s.gate.mu.Lock()
		defer s.gate.mu.Unlock()
		if s.gate.streams == streams {
			return errors.New("there is none")
		}
		return nil
	})
	s.Must(os.WriteFile(s.ledger()+".go", nil, 0o600))
	if got := s.ended(j); !got.Success {
		t.Errorf("%+v", got)
	}
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	writes := slices.DeleteFunc(s.gate.writes[before:], func(w string) bool { return !strings.HasSuffix(w, "/"+j.Name+"/status") })
	if len(writes) != 1 {
		t.Errorf("the writes after the end of the stream are %q", writes)
	}
}

// A runner refuses to begin a job, and begins it while the reconciliation that knows the refusal is slow: the script is not
// stopped.
func TestAScriptThatBeginsAfterARefusalIsNotStopped(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	_, r := s.pod("t-1")
	s.manage()
	s.ended(s.submit("first", "true"))
	s.free()
	begun := filepath.Join(r.Dir, "volume", "begun")
	s.Must(errors.Join(os.RemoveAll(begun), os.WriteFile(begun, nil, 0o600)))
	write := func(name string) string {
		return "PATCH /apis/signadot.com/v1/jobs/" + s.group.Namespace + "-" + name + "/status"
	}
	reached, free := s.gate.hold(write("second"))
	defer free()
	j := s.submit("late", "echo late >> $LEDGER; while [ ! -e $LEDGER.go ]; do sleep 0.05; done")
	s.Eventually("it is refused", func() error {
		if s.gate.count("run "+j.Name) < 2 {
			return errors.New("it is not")
		}
		return nil
	})
	s.submit("second", "true")
	<-reached
	refused := s.gate.count("run " + j.Name)
	s.Eventually("it is refused for longer than a runner may", func() error {
		if s.gate.count("run "+j.Name) < refused+7 {
			return errors.New("it is not")
		}
		return nil
	})
	reached, again := s.gate.hold(write("third"))
	defer again()
	s.submit("third", "true")
	time.Sleep(time.Second) // The cache gets it, or the test proves less.
	free()
	<-reached
	s.Must(errors.Join(os.Remove(begun), os.Mkdir(begun, 0o777)))
	s.begun("late")
	again()
	s.Must(os.WriteFile(s.ledger()+".go", nil, 0o600))
	if got := s.ended(j); !got.Success {
		t.Errorf("%+v", got)
	}
}

// The sandbox of a pod is made again, as when its node restarts: the pod has another address. The script that ran is lost, and
// the next one runs there.
func TestAPodGetsAnotherAddress(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	s.manage()
	p, r := s.pod("t-1")
	lost := s.submit("lost", "echo lost >> $LEDGER; sleep 600")
	s.begun("lost")
	r.Kill()
	r.IP = runners.New(s, s.authority).IP
	r.StartExecutor()
	r.StartProxy()
	s.Eventually("the pod has the address", func() error {
		if err := s.Look(p); err != nil {
			return err
		}
		p.Status.PodIP, p.Status.PodIPs = r.IP, []corev1.PodIP{{IP: r.IP}}
		return s.Client.Status().Update(s.Context(), p)
	})
	if got := s.ended(lost); got.Success || got.Reason != jobs.ReasonExecutorLost {
		t.Errorf("%+v", got)
	}
	if got := s.ended(s.submit("next", "true")); !got.Success {
		t.Errorf("%+v", got)
	}
}

// A job that a runner refuses for good ends, and its pod gets the next one.
func TestAJobThatARunnerNeverBeginsEnds(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	j := s.job("refused", "echo refused >> $LEDGER")
	s.gate.spoil = j.Name
	s.pod("t-1")
	s.manage()
	s.Create(j)
	if got := s.ended(j); got.Reason != jobs.ReasonInvalidSpec || !strings.Contains(got.Message, "negative duration") {
		t.Errorf("%+v", got)
	}
	if got := s.ended(s.submit("next", "echo next >> $LEDGER")); !got.Success || len(s.lines()) != 1 {
		t.Errorf("%+v %q", got, s.lines())
	}
}

// A runner with a volume that cannot be written neither begins a job nor records that it never will: the job states that, and
// goes to another pod once it is recorded.
func TestARunnerWithABrokenVolumeIsStated(t *testing.T) {
	s := newScene(t, "reusePods: true")
	s.gate.reset(0)
	s.manage()
	_, r := s.pod("t-1")
	s.ended(s.submit("first", "true"))
	s.free()
	begun := filepath.Join(r.Dir, "volume", "begun")
	s.Must(errors.Join(os.RemoveAll(begun), os.WriteFile(begun, nil, 0o600)))
	r.KillProxy()
	j := s.submit("broken", "true")
	s.Eventually("the status states that nothing answers", func() error {
		s.Get(j)
		if st := j.Status.State; st == nil || st.Running == nil || st.Running.Reason != jobs.ReasonPodSilent {
			return fmt.Errorf("%+v", j.Status.Conditions)
		}
		return nil
	})
	r.StartProxy()
	s.Eventually("the status states the volume", func() error {
		s.Get(j)
		st := j.Status.State
		if st == nil || st.Running == nil || st.Running.Reason != jobs.ReasonPodSilent || !strings.Contains(st.Running.Message, "VolumeFailed") {
			return fmt.Errorf("%+v", j.Status.Conditions)
		}
		return nil
	})
	s.Must(errors.Join(os.Remove(begun), os.Mkdir(begun, 0o777)))
	s.waits(j, jobs.ReasonNoIdlePod) // the pod gets no other job, and is to be replaced
	s.pod("t-2")
	if got := s.ended(j); !got.Success || j.Status.Execution.Count != 1 {
		t.Errorf("%+v", got)
	}
}

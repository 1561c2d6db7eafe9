package jobrunnergroup_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/jobrunnergroup"
	"switchyard.dev/tests/fields"
	"switchyard.dev/workflows/jobpod"
)

var now = metav1.NewTime(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))

var settings = jobpod.Settings{InitImage: "init:1", ProxyImage: "proxy:1", OperatorNamespace: "signadot", AuthorAsked: true}

// group returns a group with this spec.
func group(t *testing.T, spec string) *crdv1.JobRunnerGroup {
	t.Helper()
	g := &crdv1.JobRunnerGroup{}
	g.Name, g.Namespace, g.UID, g.Generation = "smoke", "shop", "g", 3
	if err := yaml.UnmarshalStrict([]byte("{image: runner:1, "+spec+"}"), &g.Spec); err != nil {
		t.Fatal(err)
	}
	return g
}

// pods returns the pods that a line describes, and records them in the group. Each is a name with flags: r it is
// ready, b it has job NAME-job, d it is draining because of its job, x because of a scale down, k it keeps results
// since 5 minutes, K since 20, l its results are released, o it is of another version, f it has failed a minute
// ago, F a second ago, t it is being deleted, s it is not recorded, u no node takes it, i its image is missing. Each is a second
// younger than the one before.
func pods(g *crdv1.JobRunnerGroup, line string) (out []*corev1.Pod) {
	version := jobpod.Version(g, settings)
	for i, word := range strings.Fields(line) {
		name, flags, _ := strings.Cut(word, ":")
		has := func(flag string) bool { return strings.Contains(flags, flag) }
		p := jobpod.Pod(g, name, settings)
		p.UID, p.ResourceVersion, p.Annotations = types.UID(name), "1", map[string]string{}
		p.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(i)*time.Second - time.Hour))
		p.Status.Phase = corev1.PodRunning
		for flag, add := range map[string]func(){
			"r": func() { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: "True"}} },
			"b": func() { p.Labels[crdv1.AssignedJobLabel] = name + "-job" },
			"d": func() { p.Annotations[crdv1.AnnotationDraining] = crdv1.DrainingJobEnded },
			"x": func() { p.Annotations[crdv1.AnnotationDraining] = crdv1.DrainingScaledDown },
			"k": func() { keep(p, 5*time.Minute-time.Duration(i)*time.Second) },
			"K": func() { keep(p, 20*time.Minute) },
			"l": func() { p.Annotations[crdv1.AnnotationJobResults] = crdv1.JobResultsReleased },
			"f": func() { fail(p, time.Minute) },
			"F": func() { fail(p, time.Second) },
			"t": func() { p.DeletionTimestamp = &now },
			"u": func() {
				p.Status.Phase = corev1.PodPending
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Message: "0/1 nodes are available."}}
			},
			"i": func() {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
			},
		} {
			if has(flag) {
				add()
			}
		}
		if !has("s") {
			of := version
			if has("o") {
				of = "old"
			}
			g.Status.Runners = append(g.Status.Runners, crdv1.RunnerPod{Name: name, UID: p.UID, Version: of})
		}
		out = append(out, p)
	}
	return out
}

// keep makes a pod keep results since some time.
func keep(p *corev1.Pod, since time.Duration) {
	p.Annotations[crdv1.AnnotationJobResults] = crdv1.JobResultsKept
	p.Annotations[crdv1.AnnotationJobResultsSince] = now.Add(-since).Format(time.RFC3339)
}

// fail makes a pod fail some time ago.
func fail(p *corev1.Pod, ago time.Duration) {
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Message: "The node was low on memory.", Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: "False", LastTransitionTime: metav1.NewTime(now.Add(-ago))},
	}}
}

// line returns a decision and its result in one line.
func line(d jobrunnergroup.Decision, g *crdv1.JobRunnerGroup) string {
	var out []string
	if d.Create > 0 {
		out = append(out, fmt.Sprintf("create %d", d.Create))
	}
	for _, s := range d.Steps {
		text := s.Pod.Name
		if why := s.Annotations[crdv1.AnnotationDraining]; why != "" {
			text = "drain " + text + " (" + why + ")"
		}
		if s.Annotations[crdv1.AnnotationJobResultsSince] != "" {
			text = "date " + text
		}
		if s.Dropped != "" {
			text = "drop " + text
		}
		if s.Delete {
			text += " delete"
		}
		out = append(out, text)
	}
	slices.Sort(out)
	if d.Over {
		out = append(out, "over")
	}
	s := g.Status
	c := crdv1.FindCondition(s.Conditions, crdv1.ConditionReady)
	return fmt.Sprintf("%s: %d/%d idle %d old %d failed %d %s %s", strings.Join(out, ", "),
		s.ReadyReplicas, s.Replicas, s.ReadyIdleReplicas, s.Replicas-s.UpdatedReplicas, s.FailedPhaseReplicas, c.Status, c.Reason)
}

func TestDecide(t *testing.T) {
	deleted := metav1.NewTime(now.Add(-time.Minute))
	for name, tt := range map[string]struct {
		spec     string
		pods     string
		jobs     []*crdv1.Job
		refused  string
		deleted  *metav1.Time
		redirect *crdv1.RunnerRedirection
		want     string
	}{
		"a new group has one pod":                   {want: "create 1: 0/0 idle 0 old 0 failed 0 False RunnersProgressing"},
		"zero is a number":                          {spec: "replicas: 0", want: ": 0/0 idle 0 old 0 failed 0 True Ready"},
		"several":                                   {spec: "replicas: 3", pods: "a:r b", want: "create 1: 1/2 idle 1 old 0 failed 0 False RunnersProgressing"},
		"as many as wanted":                         {spec: "replicas: 2", pods: "a:r b:rb", want: ": 2/2 idle 1 old 0 failed 0 True Ready"},
		"a spec that is not valid":                  {spec: "replicas: -1", pods: "a:ro", want: ": 1/1 idle 1 old 1 failed 0 False InvalidReplicas"},
		"more replicas than there can be":           {spec: "replicas: 20000", pods: "a:r b", want: "create 998: 1/2 idle 1 old 0 failed 0 False TooManyReplicas"},
		"a timeout that is not valid":               {spec: "jobExecutionTimeout: 5", want: ": 0/0 idle 0 old 0 failed 0 False InvalidTimeout"},
		"jobs with larger timeouts":                 {spec: "replicas: 0, allowIncreaseJobExecutionTimeout: true, jobExecutionTimeout: 1h", want: ": 0/0 idle 0 old 0 failed 0 True Ready"},
		"a template that is refused":                {spec: "podTemplate: {spec: {hostPID: true}}", want: ": 0/0 idle 0 old 0 failed 0 False PodNotAllowed"},
		"a pod that is not recorded":                {pods: "a:r b:rs", want: "b delete: 1/1 idle 1 old 0 failed 0 True Ready"},
		"a pod that terminates is replaced":         {pods: "a:rt", want: "create 1: 0/0 idle 0 old 0 failed 0 False RunnersProgressing"},
		"the job has ended":                         {pods: "a:rdk", want: "create 1: 0/0 idle 0 old 0 failed 0 False RunnersProgressing"},
		"its results are read":                      {pods: "a:rdl b:r", want: "a delete: 1/1 idle 1 old 0 failed 0 True Ready"},
		"its results were kept for too long":        {pods: "a:rdK b:r", want: "drop a delete: 1/1 idle 1 old 0 failed 0 True Ready"},
		"too many keep results":                     {spec: "replicas: 2", pods: "a:rdk b:rdk c:rdk d:r e:r", want: "drop a delete: 2/2 idle 2 old 0 failed 0 True Ready"},
		"a scale down does not drop results":        {spec: "replicas: 0", pods: "a:rxk b:rxk c:rxk", want: ": 0/0 idle 0 old 0 failed 0 True Ready"},
		"scaling down removes idle pods":            {spec: "replicas: 1", pods: "a:rb b:r c:rb", want: "drain b (ScaledDown) delete, drain c (ScaledDown): 3/3 idle 1 old 0 failed 0 True Ready"},
		"surplus pods of other versions":            {spec: "replicas: 1", pods: "a:r b:ro c:ro", want: "drain b (ScaledDown) delete, drain c (ScaledDown) delete: 3/3 idle 3 old 2 failed 0 True Ready"},
		"scaling down keeps results":                {spec: "replicas: 0, reusePods: true", pods: "a:rk", want: "drain a (ScaledDown): 1/1 idle 1 old 0 failed 0 True Ready"},
		"a pod that is reused":                      {spec: "reusePods: true", pods: "a:rk", want: ": 1/1 idle 1 old 0 failed 0 True Ready"},
		"a leaving pod is a replica":                {spec: "replicas: 1", pods: "a:rb b:rbx", want: ": 2/2 idle 0 old 0 failed 0 True Ready"},
		"scaling up while pods leave":               {spec: "replicas: 2", pods: "a:rb b:rbx", want: ": 2/2 idle 0 old 0 failed 0 True Ready"},
		"a new template begins with one pod":        {spec: "replicas: 2", pods: "a:ro b:rob", want: "create 1: 2/2 idle 1 old 2 failed 0 True Ready"},
		"no other one until that is ready":          {spec: "replicas: 2", pods: "a:ro b:rob c", want: ": 2/3 idle 1 old 2 failed 0 True Ready"},
		"then an idle one goes":                     {spec: "replicas: 2", pods: "a:ro b:rob c:r", want: "drain a (Outdated) delete: 3/3 idle 2 old 2 failed 0 True Ready"},
		"and a busy one drains":                     {spec: "replicas: 2", pods: "b:rob c:r d:r", want: "drain b (Outdated): 3/3 idle 2 old 1 failed 0 True Ready"},
		"a quota has no space for another pod":      {spec: "replicas: 2", pods: "a:ro b:ro", refused: apply.ReasonQuota, want: "drain b (Outdated) delete: 2/2 idle 2 old 2 failed 0 False QuotaExceeded"},
		"no node has space for another pod":         {spec: "replicas: 1", pods: "a:ro b:u", want: "drain a (Outdated) delete: 1/2 idle 1 old 1 failed 0 False Unschedulable"},
		"a template that did not start is replaced": {pods: "a:oi", want: "create 1, drain a (Outdated) delete: 0/1 idle 0 old 1 failed 0 False ImagePullFailed"},
		"a failed pod is replaced":                  {pods: "a:f", want: "create 1, drain a (Failed): 0/0 idle 0 old 0 failed 1 False RunnersFailed"},
		"after several the next waits":              {pods: "a:f b:f", want: "create 1, drain a (Failed), drain b (Failed): 0/0 idle 0 old 0 failed 2 False RunnersFailed"},
		"until some time has passed":                {pods: "a:fd b:Fd", want: ": 0/0 idle 0 old 0 failed 2 False RunnersFailed"},
		"few failed pods are kept":                  {pods: "a:fd b:fd c:fd d:r", want: "a delete: 1/1 idle 1 old 0 failed 3 True Ready"},
		"a refused pod is tried again later":        {refused: apply.ReasonForbidden, want: ": 0/0 idle 0 old 0 failed 0 False Forbidden"},
		"a group that ends":                         {spec: "replicas: 3", pods: "a:r b:rb c:rdk", jobs: []*crdv1.Job{job("b-job", false)}, deleted: &now, want: "drain a (GroupEnds) delete, drain b (GroupEnds): 2/2 idle 1 old 0 failed 0 False RunnerGroupDeleted"},
		"that ends after its job":                   {pods: "b:rbd", jobs: []*crdv1.Job{job("b-job", true)}, deleted: &now, want: "b delete: 0/0 idle 0 old 0 failed 0 False RunnerGroupDeleted"},
		"that ends without a reader":                {pods: "c:rdk", deleted: &deleted, want: "drop c delete: 0/0 idle 0 old 0 failed 0 False RunnerGroupDeleted"},
		"that has no pod":                           {deleted: &now, want: "over: 0/0 idle 0 old 0 failed 0 False RunnerGroupDeleted"},
		"connections are redirected":                {pods: "a:r", redirect: &crdv1.RunnerRedirection{Enabled: true, Version: "v"}, want: ": 1/1 idle 1 old 0 failed 0 True Ready"},
		"connections cannot be redirected":          {pods: "a:r", redirect: &crdv1.RunnerRedirection{Message: "No.", Version: "v"}, want: ": 1/1 idle 1 old 0 failed 0 True Ready"},
		"that has a terminating pod":                {pods: "a:t", deleted: &now, want: ": 0/0 idle 0 old 0 failed 0 False RunnerGroupDeleted"},
	} {
		t.Run(name, func(t *testing.T) {
			g := group(t, tt.spec)
			g.DeletionTimestamp = tt.deleted
			in := jobrunnergroup.Input{Pods: pods(g, tt.pods), Jobs: tt.jobs, Settings: settings, Limits: jobrunnergroup.Limits{Results: 15 * time.Minute}, Redirection: tt.redirect, Now: now}
			if tt.refused != "" {
				in.Refusal, in.Retry = &apply.Refusal{Reason: tt.refused, Message: "No."}, now.Add(time.Second)
			}
			decide := func(g *crdv1.JobRunnerGroup) (any, client.Object) {
				in := in
				in.Group = g
				d := jobrunnergroup.Decide(in)
				return d, jobrunnergroup.Conclude(in, d, nil, in.Refusal)
			}
			d, after := decide(g)
			got := line(d.(jobrunnergroup.Decision), after.(*crdv1.JobRunnerGroup))
			if tt.want != got {
				t.Errorf("%s\nwant %s\n%+v", got, tt.want, after.(*crdv1.JobRunnerGroup).Status.Conditions)
			}
			fields.Row(t, crdv1.KindJobRunnerGroup, g, decide)
		})
	}
}

// The number is the highest of jobs that were given to a pod, and never falls.
func TestTheHighestSequenceNumberIsKept(t *testing.T) {
	g := group(t, "")
	numbered := func(n string, assigned bool) *crdv1.Job {
		j := job("j", false)
		if !assigned {
			j.Status.Runner = nil
		}
		j.Annotations = map[string]string{crdv1.AnnotationJobSequence: n}
		return j
	}
	for _, tt := range []struct {
		jobs []*crdv1.Job
		want int64
	}{
		{nil, -1},
		{[]*crdv1.Job{numbered("4", false), numbered("x", true)}, -1},
		{[]*crdv1.Job{numbered("4", true), numbered("7", true), numbered("9", false)}, 7},
		{[]*crdv1.Job{numbered("5", true)}, 7},
	} {
		in := jobrunnergroup.Input{Group: g, Jobs: tt.jobs, Settings: settings, Now: now}
		g = jobrunnergroup.Conclude(in, jobrunnergroup.Decide(in), nil, nil)
		if got := *g.Status.MaxAssignedJobSequenceNum; got != tt.want {
			t.Errorf("%d, want %d", got, tt.want)
		}
	}
}

// A created pod is recorded with its signature, and counts at once.
func TestACreatedPodIsRecorded(t *testing.T) {
	g := group(t, "replicas: 2")
	decide := func(g *crdv1.JobRunnerGroup) (any, client.Object) {
		in := jobrunnergroup.Input{Group: g, Settings: settings, Now: now}
		d := jobrunnergroup.Decide(in)
		return d, jobrunnergroup.Conclude(in, d, []crdv1.RunnerPod{{Name: "a", UID: "a", Version: d.Version, Proof: []byte("signed")}}, nil)
	}
	_, after := decide(g)
	s := after.(*crdv1.JobRunnerGroup).Status
	if len(s.Runners) != 1 || string(s.Runners[0].Proof) != "signed" || s.Replicas != 1 || s.UpdatedReplicas != 1 || s.UnavailableReplicas != 1 {
		t.Errorf("%+v", s)
	}
	fields.Row(t, crdv1.KindJobRunnerGroup, g, decide)
}

// A pod does not outlive the trust in the manager's certificates: it is replaced once there is one that it does not
// have. One that it has too many does not matter.
func TestAPodWithoutANewAuthorityIsOutdated(t *testing.T) {
	cert := func(s string) string { return "-----BEGIN CERTIFICATE-----\n" + s + "\n-----END CERTIFICATE-----\n" }
	for _, tt := range []struct {
		has, now string
		want     bool
	}{
		{cert("a") + cert("b"), cert("a"), false},
		{cert("a"), cert("a") + cert("b"), true},
		{cert("a"), "", false},
		{"", cert("a"), true},
	} {
		g := group(t, "")
		in := jobrunnergroup.Input{Group: g, Pods: pods(g, "a:r"), Settings: settings, Now: now}
		created := settings
		created.CA, in.Settings.CA = tt.has, tt.now
		in.Pods[0].Spec = jobpod.Pod(g, "a", created).Spec
		if got := jobrunnergroup.Decide(in).Create > 0; got != tt.want {
			t.Errorf("a pod with %q while there is %q is outdated: %v", tt.has, tt.now, got)
		}
	}
}

// job returns a job with a pod.
func job(uid types.UID, ended bool) *crdv1.Job {
	j := &crdv1.Job{}
	j.UID, j.Status.Runner = uid, &crdv1.JobRunner{}
	if ended {
		j.Status.State = &crdv1.JobState{Terminated: &crdv1.JobTerminated{}}
	}
	return j
}

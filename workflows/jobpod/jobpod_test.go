package jobpod_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tests/fields"
	"switchyard.dev/tests/golden"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobpod"
)

var settings = jobpod.Settings{
	InitImage: "init:1", ProxyImage: "proxy:1", Authority: "signadot-controller-manager.signadot.svc:9444", CA: "PEM",
	ArtifactBytes: 1 << 30, OperatorNamespace: "signadot", AuthorAsked: true,
}

// redirecting are settings with which connections are redirected.
func redirecting() jobpod.Settings {
	s := settings
	s.Redirector, s.Allow = &corev1.Container{Name: layout.RedirectContainer, Image: "redirect:1"}, execunit.Powers{execunit.HostNamespaces}
	return s
}

// group reads the spec of a group.
func group(t *testing.T, spec string) *crdv1.JobRunnerGroup {
	t.Helper()
	g := &crdv1.JobRunnerGroup{}
	g.Name, g.Namespace, g.UID = "smoke", "shop", "11111111-1111-1111-1111-111111111111"
	if err := yaml.UnmarshalStrict([]byte(spec), &g.Spec); err != nil {
		t.Fatal(err)
	}
	return g
}

const full = `
image: runner:2
podTemplate:
  metadata: {labels: {team: pay, signadot.com/assigned-job: forged}, annotations: {note: x, signadot.com/draining: forged}}
  spec:
    serviceAccountName: runner
    terminationGracePeriodSeconds: 5
    imagePullSecrets: [{name: own}]
    initContainers: [{name: prepare, image: "p:1"}]
    containers:
    - {name: beside, image: "b:1"}
    - {name: main, image: "ignored:1", command: [sleep], args: ["1"], env: [{name: A, value: b}], volumeMounts: [{name: v, mountPath: /v}], resources: {limits: {memory: 64Mi}}}
    volumes: [{name: v, emptyDir: {}}]
`

// beside is a template with containers that run beside the main one.
const beside = `
image: runner:1
podTemplate:
  spec:
    initContainers: [{name: prepare, image: "p:1"}, {name: poll, image: "p:2", restartPolicy: Always}]
    containers: [{name: main}, {name: metrics, image: "m:1"}]
`

// restricted is a template that Pod Security restricted accepts.
const restricted = `
image: runner:2
podTemplate:
  spec:
    securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
    containers: [{name: main, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]
`

func TestPodsAndServicesEqualTheGoldenFiles(t *testing.T) {
	mesh := settings
	mesh.ProxyLogLevel = "debug"
	mesh.PullSecrets, mesh.Labels, mesh.Annotations = []string{"own", "operator"}, map[string]string{"sidecar.istio.io/inject": "true", "team": "other"}, map[string]string{"linkerd.io/inject": "enabled"}
	for name, of := range map[string]struct {
		spec string
		with jobpod.Settings
	}{"plain": {"image: runner:1", settings}, "full": {full, mesh}, "redirected": {"image: runner:1", redirecting()}, "redirected-beside": {beside, redirecting()}, "node": {"image: runner:1\npodTemplate: {spec: {hostNetwork: true}}", redirecting()}} {
		t.Run(name, func(t *testing.T) {
			g := group(t, of.spec)
			before := g.DeepCopy()
			if p := jobpod.Accept(g, of.with); p != nil {
				t.Fatal(p.Message)
			}
			rendered := func(g *crdv1.JobRunnerGroup) (any, client.Object) {
				return asYAML(t, jobpod.Pod(g, jobpod.PodName(g.Name, "random"), of.with)) + "---\n" + asYAML(t, jobpod.Service(g)), g
			}
			text, _ := rendered(g)
			golden.Compare(t, "testdata/"+name+".yaml", text.(string))
			fields.Row(t, crdv1.KindJobRunnerGroup, g, rendered)
			if asYAML(t, g) != asYAML(t, before) {
				t.Error("the group was changed")
			}
		})
	}
}

func asYAML(t *testing.T, o any) string {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheOperatorsPartsAreAcceptedByRestricted(t *testing.T) {
	for spec, want := range map[string]bool{restricted: true, "image: runner:1": false} {
		pod := jobpod.Pod(group(t, spec), "p", settings)
		checked := 0
		for _, check := range policy.DefaultChecks() {
			if check.Level != api.LevelRestricted && check.Level != api.LevelBaseline {
				continue
			}
			checked++
			result := check.Versions[len(check.Versions)-1].CheckPod(&pod.ObjectMeta, &pod.Spec)
			if !result.Allowed && (want || strings.Contains(result.ForbiddenDetail, layout.InitContainer) || strings.Contains(result.ForbiddenDetail, layout.ProxyContainer)) {
				t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
			}
		}
		if checked < 15 {
			t.Errorf("only %d checks", checked)
		}
	}
}

func TestOnlyTheProxyHasTheTokenAndTheStore(t *testing.T) {
	pod := jobpod.Pod(group(t, full), "p", settings)
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		for _, m := range c.VolumeMounts {
			if own := m.Name == layout.VolumeStore || m.Name == layout.VolumeToken; own && c.Name != layout.ProxyContainer {
				t.Errorf("container %s mounts %s", c.Name, m.Name)
			}
		}
	}
	if of := pod.Spec.AutomountServiceAccountToken; of != nil {
		t.Errorf("an account that the template names is changed: %v", *of)
	}
	if of := jobpod.Pod(group(t, "image: i"), "p", settings).Spec.AutomountServiceAccountToken; of == nil || *of {
		t.Error("a pod without an account in its template mounts a token")
	}
}

func TestTheVersionIsThatOfThePods(t *testing.T) {
	g := group(t, full)
	was := jobpod.Version(g, settings)
	if was == "" || jobpod.Pod(g, "p", settings).Labels[crdv1.JobRunnerGroupVersionLabel] != was {
		t.Fatalf("version %q", was)
	}
	same := settings
	same.CA = "other"
	g.Spec.Replicas, g.Spec.ReusePods, g.Spec.JobExecutionTimeout = new(int32(7)), true, "1h"
	if got := jobpod.Version(g, same); got != was {
		t.Error("fields that are not in pods change the version")
	}
	for name, change := range map[string]func(g *crdv1.JobRunnerGroup, s *jobpod.Settings){
		"image":       func(g *crdv1.JobRunnerGroup, _ *jobpod.Settings) { g.Spec.Image = "other" },
		"template":    func(g *crdv1.JobRunnerGroup, _ *jobpod.Settings) { g.Spec.PodTemplate.Labels["team"] = "other" },
		"redirection": func(_ *crdv1.JobRunnerGroup, s *jobpod.Settings) { *s = redirecting() },
		"proxy image": func(_ *crdv1.JobRunnerGroup, s *jobpod.Settings) { s.ProxyImage = "other" },
	} {
		g, s := g.DeepCopy(), settings
		change(g, &s)
		if jobpod.Version(g, s) == was {
			t.Errorf("another %s has the same version", name)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	with := func(pod, main string) string {
		return "image: i\npodTemplate: {spec: {" + pod + " containers: [{name: main" + main + "}]}}"
	}
	for _, tt := range []struct{ spec, reason, says string }{
		{`image: ""`, jobpod.ReasonInvalidImage, "Set spec.image"},
		{"image: i\nreplicas: -1", jobpod.ReasonInvalidReplicas, "0 or more"},
		{"image: i\njobExecutionTimeout: soon", jobpod.ReasonInvalidTimeout, `"soon"`},
		{"image: i\njobExecutionTimeout: 0s", jobpod.ReasonInvalidTimeout, "30m"},
		{with("shareProcessNamespace: true,", ""), execunit.ReasonTemplateRefused, "shareProcessNamespace"},
		{with("restartPolicy: Never,", ""), execunit.ReasonTemplateRefused, "restartPolicy"},
		{with("activeDeadlineSeconds: 5,", ""), execunit.ReasonTemplateRefused, "activeDeadlineSeconds"},
		{with("", ", restartPolicy: Never"), execunit.ReasonTemplateRefused, `container "main"`},
		{"image: i\npodTemplate: {metadata: {namespace: other}}", execunit.ReasonTemplateRefused, `"other"`},
		{"image: i\npodTemplate: {metadata: {finalizers: [a/b]}}", execunit.ReasonTemplateRefused, "finalizers"},
		{with("initContainers: [{name: job-executor-proxy, image: i}],", ""), execunit.ReasonTemplateRefused, "job-executor-proxy"},
		{with("volumes: [{name: signadot-job-store, emptyDir: {}}],", ""), execunit.ReasonTemplateRefused, "signadot-job-store"},
		{with("initContainers: [{name: x, image: i, volumeMounts: [{name: signadot-job-store, mountPath: /x}]}],", ""), execunit.ReasonTemplateRefused, "none of the pod template's"},
		{with("volumes: [{name: v, emptyDir: {}}],", ", volumeMounts: [{name: v, mountPath: /signadot/job/bin}]"), execunit.ReasonTemplateRefused, "/signadot/job/bin"},
		{with("hostPID: true,", ""), execunit.ReasonNotAllowed, "jobs.allow: [hostNamespaces]"},
		{with("", ", securityContext: {privileged: true}"), execunit.ReasonNotAllowed, `for every runner group`},
		{with("volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}],", ""), execunit.ReasonNotAllowed, "serviceAccountToken"},
	} {
		p := jobpod.Accept(group(t, tt.spec), settings)
		if p == nil || p.Reason != tt.reason || !strings.Contains(p.Message, tt.says) || !strings.Contains(p.Message, `runner group "smoke"`) {
			t.Errorf("%s: %+v", tt.spec, p)
		}
	}
	own := group(t, with("serviceAccountName: a,", ""))
	own.Namespace = settings.OperatorNamespace
	if p := jobpod.Accept(own, settings); p == nil || !strings.Contains(p.Message, "create the group in another one") {
		t.Errorf("an account of the operator: %+v", p)
	}
	allowed := settings
	allowed.Allow = execunit.Powers{execunit.HostNamespaces}
	if p := jobpod.Accept(group(t, with("hostPID: true,", "")), allowed); p != nil {
		t.Errorf("a power that the chart lists: %+v", p)
	}
}

func TestAPodIsObserved(t *testing.T) {
	g := group(t, full)
	pod := jobpod.Pod(g, "p", settings)
	waits := func(name, reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}},
		}
	}
	for _, tt := range []struct {
		status       corev1.PodStatus
		reason, says string
	}{
		{corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no CPU"}}}, execunit.ReasonUnschedulable, `of runner group "smoke": no CPU`},
		{corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits("main", "ImagePullBackOff", "no")}}, execunit.ReasonImagePullFailed, "imagePullSecrets of the pod template"},
		{corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits(layout.ProxyContainer, "ErrImagePull", "no")}}, execunit.ReasonImagePullFailed, "imagePullSecrets of the operator's chart"},
		{corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{waits("prepare", "CrashLoopBackOff", "back-off")}}, execunit.ReasonInitFailed, "last with exit code 3"},
		{corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waits("main", "CrashLoopBackOff", "back-off")}}, execunit.ReasonContainerStart, "back-off"},
	} {
		pod.Status = tt.status
		if o := execunit.Observe(jobpod.ObservedOf(g, pod), pod); o.Reason != tt.reason || !strings.Contains(o.Message, tt.says) || !execunit.Blocked(o.Reason) && o.Reason != execunit.ReasonInitFailed {
			t.Errorf("%+v, want %s with %q", o, tt.reason, tt.says)
		}
	}
}

// A group of Smart Tests has the operator's interpreter, whatever it asks for.
func TestSmartTestsHaveTheInterpreter(t *testing.T) {
	s := settings
	s.SmartTest = jobpod.SmartTest{Image: "smart-test:1", PullPolicy: corev1.PullAlways, Elide: "X-Secret,X-Other"}
	g := group(t, full)
	for namespace, image := range map[string]string{crdv1.SmartTestsNamespace: "smart-test:1", "shop": "runner:2"} {
		g.Namespace = namespace
		pod := jobpod.Pod(g, "p", s)
		main := pod.Spec.Containers[execunit.MainIndex(pod.Spec)]
		if main.Image != image || len(main.Command) == 0 {
			t.Errorf("%s: %+v", namespace, main)
		}
		if own := namespace == crdv1.SmartTestsNamespace; own && (len(main.Env) != 1 || main.Env[0].Value != "X-Secret,X-Other" || main.ImagePullPolicy != corev1.PullAlways || main.SecurityContext == nil) {
			t.Errorf("%+v", main)
		}
	}
}

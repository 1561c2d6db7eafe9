package jobrunnergroup_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/drain"
	"switchyard.dev/reconcilers/jobrunnergroup"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/world"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobpod"
)

// cluster is an API server with a manager; pods do not run.
type cluster struct {
	*world.World
	// writes counts the writes of the status of groups.
	writes atomic.Int64
	began  time.Time
}

// start starts both.
func start(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{World: world.New(t), began: time.Now()}
	c.Namespaces("ops")
	c.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: publish.EpochConfigMap, Namespace: "ops"}}) // The mark of an installation.
	access := c.As("")
	access.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/jobrunnergroups/") && strings.HasSuffix(r.URL.Path, "/status") {
				c.writes.Add(1)
			}
			return next.RoundTrip(r)
		})
	})
	of := settings
	of.Authority, of.OperatorNamespace, of.SmartTest.Image = "manager:9444", "", "interpreter:1"
	of.Redirector = &corev1.Container{Name: layout.RedirectContainer, Image: "redirect:1", SecurityContext: &corev1.SecurityContext{
		Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}},
	}}
	main, err := manager.New(c.Context(), manager.Config{
		REST: access, Log: memory.New(), WithoutWebhook: true, SeveralInProcess: true, MetricsAddress: "0", HealthAddress: "0",
		Namespace: "ops", Logger: world.Quiet, Jobs: manager.Jobs{Settings: of, Limits: jobrunnergroup.Limits{Results: 15 * time.Minute}, GroupsAlone: true},
	})
	c.Must(err)
	t.Cleanup(background.Run(c, main.Run))
	return c
}

// in creates a namespace, in which Pod Security of a level is enforced.
func (c *cluster) in(name, level string) {
	c.Helper()
	c.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}}})
	c.Accounts(name, "default")
}

// group creates a group.
func (c *cluster) group(ns, name, spec string) *crdv1.JobRunnerGroup {
	c.Helper()
	g := &crdv1.JobRunnerGroup{}
	c.Make(g, "metadata: {namespace: "+ns+", name: "+name+"}\nspec: {image: \"runner:1\", "+spec+"}")
	return g
}

// pods returns the pods of a group, the oldest first.
func (c *cluster) pods(g *crdv1.JobRunnerGroup) []corev1.Pod {
	c.Helper()
	var all corev1.PodList
	c.List(&all, client.InNamespace(g.Namespace), client.MatchingLabels(jobpod.Labels(g.Name)))
	slices.SortFunc(all.Items, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	return all.Items
}

// await waits until a group has as many pods, all recorded, as it has in its status, and returns them.
func (c *cluster) await(g *crdv1.JobRunnerGroup, n int, also ...func() error) (pods []corev1.Pod) {
	c.Helper()
	c.Eventually(fmt.Sprintf("group %s has %d pods", g.Name, n), func() error {
		pods = c.pods(g)
		if err := c.Look(g); err != nil {
			return err
		}
		for _, p := range pods {
			if g.Runner(p.UID) == nil {
				return fmt.Errorf("pod %s is not recorded", p.Name)
			}
		}
		if len(pods) != n || len(g.Status.Runners) != n {
			return fmt.Errorf("%d pods, %+v", len(pods), g.Status)
		}
		for _, check := range also {
			if err := check(); err != nil {
				return err
			}
		}
		return nil
	})
	return pods
}

// ready makes pods ready, as a kubelet would.
func (c *cluster) ready(pods ...corev1.Pod) {
	c.Helper()
	for i := range pods {
		c.Eventually("the status of pod "+pods[i].Name+" can be changed", func() error {
			p := &pods[i]
			if err := c.Look(p); err != nil {
				return err
			}
			p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			return c.Client.Status().Update(c.Context(), p)
		})
	}
}

// mark changes the labels and annotations of a pod, as the Job controller does.
func (c *cluster) mark(p *corev1.Pod, job string, annotations map[string]string) {
	c.Helper()
	world.Edit(c.World, p, func(p *corev1.Pod) {
		delete(p.Labels, crdv1.AssignedJobLabel)
		if job != "" {
			p.Labels[crdv1.AssignedJobLabel] = job
		}
		for key, value := range annotations {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
		}
	})
}

// has returns a check that the status of a group has a number.
func has(g *crdv1.JobRunnerGroup, what string, field func(crdv1.JobRunnerGroupStatus) int32, want int32) func() error {
	return func() error {
		if got := field(g.Status); got != want {
			return fmt.Errorf("%s: %d, not %d", what, got, want)
		}
		return nil
	}
}

func isReady(s crdv1.JobRunnerGroupStatus) int32 { return s.ReadyReplicas }
func isIdle(s crdv1.JobRunnerGroupStatus) int32  { return s.ReadyIdleReplicas }

// ended is what the Job controller writes when a job has ended that leaves results.
var ended = map[string]string{crdv1.AnnotationDraining: crdv1.DrainingJobEnded, crdv1.AnnotationJobResults: crdv1.JobResultsKept}

const restrictedTemplate = `podTemplate: {spec: {securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}},
  containers: [{name: main, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}`

func TestGroupsKeepTheirPods(t *testing.T) {
	c := start(t)
	for name, test := range map[string]func(*testing.T, *cluster){
		"restricted": testRestricted, "smart tests": testSmartTests, "redirected": testRedirected, "mesh": testMesh, "webhook away": testWebhookAway, "pulling": testPulling, "a job": testJob, "forged": testForged, "scale": testScale, "template": testTemplate, "deletion": testDeletion,
	} {
		t.Run(name, func(t *testing.T) { test(t, &cluster{World: c.In(t)}) })
	}
	if n, most := c.writes.Load(), 2*int64(len("rsrmwpjfstd"))*(int64(time.Since(c.began).Seconds())+2); n == 0 || n > most {
		t.Errorf("%d writes of the status of groups, at most %d are possible with two a second for each", n, most)
	}
}

// While the kubelet pulls an image, which only its Events show, the condition states that.
func testPulling(_ *testing.T, c *cluster) {
	c.in("pulling", "privileged")
	g := c.group("pulling", "pulls", "replicas: 1")
	pod := &c.await(g, 1)[0]
	c.Must(c.Client.SubResource("binding").Create(c.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}))
	c.Eventually("the pod waits for its image", func() error {
		if err := c.Look(pod); err != nil {
			return err
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}
		return c.Client.Status().Update(c.Context(), pod)
	})
	states := func(text string) {
		c.Eventually("the condition states "+text, func() error {
			if err := c.Look(g); err != nil {
				return err
			}
			if of := crdv1.FindCondition(g.Status.Conditions, crdv1.ConditionRunnersAvailable); of == nil || !strings.Contains(of.Message, text) {
				return fmt.Errorf("%+v", of)
			}
			return nil
		})
	}
	states("is starting.")
	c.Create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "pulling", Name: "pulls"}, Reason: "Pulling", FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: "pulling", Name: pod.Name, UID: pod.UID, FieldPath: "spec.containers{main}"}})
	states(`the image "runner:1" of its container main is being pulled since `)
}

// A namespace that enforces restricted accepts the pods of a template that is restricted, and the group of another
// one has the reason.
func testRestricted(_ *testing.T, c *cluster) {
	c.in("strict", "restricted")
	g := c.group("strict", "fits", "replicas: 2, "+restrictedTemplate)
	c.ready(c.await(g, 2)...)
	c.Condition(g, crdv1.ConditionReady, "True", "Ready")
	c.await(g, 2, has(g, "replicas", func(s crdv1.JobRunnerGroupStatus) int32 { return s.Replicas }, 2), has(g, "ready", isReady, 2), has(g, "idle", isIdle, 2))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "strict", Name: jobpod.Service(g).Name}}
	c.Get(service)
	if service.Spec.ClusterIP != corev1.ClusterIPNone || service.Spec.Ports[0].Name != "job-exec" {
		c.Errorf("the Service is %+v", service.Spec)
	}
	plain := c.group("strict", "plain", "replicas: 1")
	c.Says(c.Condition(plain, crdv1.ConditionReady, "False", jobrunnergroup.ReasonPodSecurity), `runner group "plain"`, "strict", "change the pod template")
	if len(c.pods(plain)) > 0 {
		c.Error("it has a pod")
	}
	if s := plain.Status.Redirection; s == nil || s.Enabled || s.Version != "" || !strings.Contains(s.Message, "not known") {
		c.Errorf("the group states %+v", s)
	}
}

// The namespace of Smart Tests in the chart enforces restricted, and accepts the pods of its group.
func testSmartTests(t *testing.T, c *cluster) {
	c.Must(apiserver.EachFromChart("agent", func(o *unstructured.Unstructured) error {
		if o.GetKind() != "Namespace" || o.GetName() != crdv1.SmartTestsNamespace {
			return nil
		}
		if level := o.GetLabels()["pod-security.kubernetes.io/enforce"]; level != "restricted" {
			t.Errorf("it enforces %q", level)
		}
		return c.Client.Create(c.Context(), o)
	}))
	c.Accounts(crdv1.SmartTestsNamespace, "default")
	g := c.group(crdv1.SmartTestsNamespace, "smart-tests-east", "replicas: 1")
	pod := c.await(g, 1)[0]
	if image := pod.Spec.Containers[0].Image; image != "interpreter:1" {
		t.Errorf("its image is %s", image)
	}
	c.ready(pod)
	c.Condition(g, crdv1.ConditionReady, "True", "Ready")
}

// Pods redirect connections where the API server accepts NET_ADMIN, and no longer where it has refused a pod for that.
func testRedirected(t *testing.T, c *cluster) {
	c.in("open", "privileged")
	g := c.group("open", "g", "replicas: 1")
	if first := c.await(g, 1)[0]; !redirects(first) || g.Status.Redirection == nil || !g.Status.Redirection.Enabled {
		t.Errorf("pod %s redirects nothing: %+v", first.Name, g.Status.Redirection)
	}
	world.Edit(c.World, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "open"}}, func(n *corev1.Namespace) {
		n.Labels["pod-security.kubernetes.io/enforce"] = "baseline"
	})
	world.Edit(c.World, g, func(g *crdv1.JobRunnerGroup) { g.Spec.Replicas = new(int32(2)) })
	c.Eventually("pods no longer redirect", func() error {
		pods := c.pods(g)
		c.ready(slices.DeleteFunc(slices.Clone(pods), redirects)...)
		if err := c.Look(g); err != nil || len(pods) != 2 || slices.ContainsFunc(pods, redirects) {
			return errors.Join(fmt.Errorf("%d pods, %+v", len(pods), g.Status), err)
		}
		return nil
	})
	if s := g.Status.Redirection; s == nil || s.Enabled || !strings.Contains(s.Message, "NET_ADMIN") || !strings.HasSuffix(s.Message, "Change the pod template to have it checked again.") {
		t.Errorf("the group states %+v", s)
	}
}

// redirects reports whether a pod has the container that redirects connections.
func redirects(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == layout.RedirectContainer })
}

// webhook registers a webhook for new pods of a namespace until the test ends.
func (c *cluster) webhook(ns, url string, ca []byte) {
	c.Helper()
	hook := &registrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ns}, Webhooks: []registrationv1.MutatingWebhook{{
		Name: "pods.example.com", SideEffects: new(registrationv1.SideEffectClassNone), FailurePolicy: new(registrationv1.Fail), AdmissionReviewVersions: []string{"v1"},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
		ClientConfig:      registrationv1.WebhookClientConfig{URL: &url, CABundle: ca},
		Rules: []registrationv1.RuleWithOperations{{
			Operations: []registrationv1.OperationType{registrationv1.Create},
			Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
		}},
	}}}
	c.Create(hook)
	c.Cleanup(func() { _ = c.Client.Delete(context.Background(), hook) }) // The API server ends with the test.
	probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe:1"}}}}
	c.Eventually("the webhook is asked", func() error {
		if p := probe.DeepCopy(); c.Client.Create(c.Context(), p, client.DryRunAll) == nil && len(p.Spec.Containers) == 1 {
			return errors.New("it is not")
		}
		return nil
	})
}

// Pods of a group stop redirecting connections when those that are created get the proxy of a mesh.
func testMesh(t *testing.T, c *cluster) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, PatchType: new(admissionv1.PatchTypeJSONPatch),
			Patch: []byte(`[{"op": "add", "path": "/spec/containers/-", "value": {"name": "istio-proxy", "image": "proxy:1"}}]`),
		}
		_ = json.NewEncoder(out).Encode(review) // The API server has closed the connection.
	}))
	t.Cleanup(s.Close)
	c.in("mesh", "privileged")
	g := c.group("mesh", "g", "replicas: 1")
	if first := c.await(g, 1)[0]; !redirects(first) {
		t.Errorf("pod %s redirects nothing: %+v", first.Name, g.Status.Redirection)
	}
	c.webhook("mesh", s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	world.Edit(c.World, g, func(g *crdv1.JobRunnerGroup) { g.Spec.Replicas = new(int32(2)) })
	c.Eventually("no pod redirects", func() error {
		pods := c.pods(g)
		c.ready(slices.DeleteFunc(slices.Clone(pods), redirects)...)
		if err := c.Look(g); err != nil || len(pods) != 2 || slices.ContainsFunc(pods, redirects) {
			return errors.Join(fmt.Errorf("%d pods, %+v", len(pods), g.Status), err)
		}
		return nil
	})
	if s := g.Status.Redirection; s == nil || s.Enabled || !strings.Contains(s.Message, "a webhook adds container istio-proxy") {
		t.Errorf("the group states %+v", s)
	}
}

// While a webhook is away, no pod can be created; a group still scales down, and states its pods.
func testWebhookAway(_ *testing.T, c *cluster) {
	c.in("away", "privileged")
	g := c.group("away", "g", "replicas: 2")
	c.ready(c.await(g, 2)...)
	c.webhook("away", "https://127.0.0.1:1/", nil)
	world.Edit(c.World, g, func(g *crdv1.JobRunnerGroup) { g.Spec.Image, g.Spec.Replicas = "runner:2", new(int32(1)) })
	c.await(g, 1, func() error {
		if s := g.Status; s.Replicas != 1 || s.ObservedGeneration != g.Generation {
			return fmt.Errorf("the status is %+v", s)
		}
		return nil
	})
}

// A pod with a job that has ended is no replica: it is replaced at once, and deleted when its results are read.
func testJob(t *testing.T, c *cluster) {
	c.in("once", "baseline")
	g := c.group("once", "g", "")
	first := c.await(g, 1)[0]
	c.ready(first)
	c.mark(&first, "job-1", nil)
	c.await(g, 1, has(g, "idle", isIdle, 0), has(g, "ready", isReady, 1))
	c.mark(&first, "", ended)
	c.await(g, 2, func() error {
		if g.Status.Replicas != 1 {
			return fmt.Errorf("%d replicas", g.Status.Replicas)
		}
		return nil
	})
	c.Get(&first)
	if _, err := time.Parse(time.RFC3339, first.Annotations[crdv1.AnnotationJobResultsSince]); err != nil {
		t.Errorf("since when results are kept: %v", err)
	}
	c.mark(&first, "", map[string]string{crdv1.AnnotationJobResults: crdv1.JobResultsReleased})
	if rest := c.await(g, 1); rest[0].UID == first.UID {
		t.Error("the pod is there, and its replacement is not")
	}
}

// A pod with a forged owner and labels is not adopted.
func testForged(t *testing.T, c *cluster) {
	c.in("forged", "baseline")
	g := c.group("forged", "g", "replicas: 1")
	c.await(g, 1)
	pod := jobpod.Pod(g, "forged", settings)
	c.Create(pod)
	c.Eventually("it is deleted", func() error {
		if err := c.Look(pod); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return nil
	})
	if c.await(g, 1); g.Runner(pod.UID) != nil {
		t.Error("it was recorded")
	}
}

// The scale subresource works, the operator leaves the number to others, and pods with jobs go last.
func testScale(t *testing.T, c *cluster) {
	c.in("scale", "baseline")
	g := c.group("scale", "g", "replicas: 3")
	pods := c.await(g, 3)
	c.ready(pods...)
	c.mark(&pods[0], "job-0", nil)
	c.mark(&pods[1], "job-1", nil)
	c.await(g, 3, has(g, "idle", isIdle, 1))
	scale := &autoscalingv1.Scale{}
	c.Must(c.Client.SubResource("scale").Get(c.Context(), g, scale))
	if scale.Status.Replicas != 3 || scale.Status.Selector != crdv1.JobRunnerGroupLabel+"=g" {
		t.Errorf("scale: %+v", scale)
	}
	scale.Spec.Replicas = 1
	c.Must(c.Client.SubResource("scale").Update(c.Context(), g, client.WithSubResourceBody(scale)))
	left := c.await(g, 2)
	if left[0].UID == pods[2].UID || left[1].UID == pods[2].UID {
		t.Error("the idle pod is there, and a busy one is not")
	}
	going := slices.IndexFunc(left, func(p corev1.Pod) bool { return p.Annotations[crdv1.AnnotationDraining] != "" })
	c.mark(&left[going], "", nil)
	if last := c.await(g, 1); last[0].UID != left[1-going].UID || last[0].Labels[crdv1.AssignedJobLabel] == "" {
		t.Errorf("pod %s is left", last[0].Name)
	}
	if *g.Spec.Replicas != 1 || g.Generation != 2 {
		t.Errorf("the operator changed the spec: %+v", g.Spec)
	}
}

// Another template replaces pods one by one, those with jobs after these.
func testTemplate(t *testing.T, c *cluster) {
	c.in("template", "baseline")
	g := c.group("template", "g", "replicas: 2, reusePods: true")
	old := c.await(g, 2)
	c.ready(old...)
	c.mark(&old[0], "job", nil)
	c.await(g, 2, has(g, "idle", isIdle, 1))
	world.Edit(c.World, g, func(g *crdv1.JobRunnerGroup) { g.Spec.Image = "runner:2" })
	added := func(pods []corev1.Pod) []corev1.Pod {
		return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.UID == old[0].UID || p.UID == old[1].UID })
	}
	three := c.await(g, 3)
	c.ready(added(three)...)
	c.Eventually("the idle one is replaced, and the busy one drains once that is ready", func() error {
		pods := c.pods(g)
		c.ready(added(pods)...)
		if err := c.Look(&old[0]); err != nil || old[0].Annotations[crdv1.AnnotationDraining] != crdv1.DrainingOutdated || len(added(pods)) != 2 {
			return errors.Join(fmt.Errorf("%d new pods, the busy one has %v", len(added(pods)), old[0].Annotations), err)
		}
		return nil
	})
	c.mark(&old[0], "", nil)
	for _, p := range c.await(g, 2, has(g, "updated", func(s crdv1.JobRunnerGroupStatus) int32 { return s.UpdatedReplicas }, 2)) {
		if p.Spec.Containers[0].Image != "runner:2" {
			t.Errorf("pod %s has %s", p.Name, p.Spec.Containers[0].Image)
		}
	}
}

// A group that is deleted waits for its job, and leaves nothing.
func testDeletion(t *testing.T, c *cluster) {
	c.in("deletion", "baseline")
	g := c.group("deletion", "g", "replicas: 2")
	j := &crdv1.Job{}
	c.Make(j, "metadata: {name: last}\nspec: {canceled: false, content: {command: [make]}, runnerGroup: {namespace: deletion, name: g}}")
	pods := c.await(g, 2)
	c.mark(&pods[0], string(j.UID), nil)
	c.Remove(g)
	c.Gone(&pods[1])
	c.Condition(g, crdv1.ConditionReady, "False", crdv1.ReasonRunnerGroupDeleted)
	c.Get(&pods[0])
	if pods[0].DeletionTimestamp != nil {
		t.Error("the pod with the job is deleted")
	}
	c.mark(&pods[0], "", nil)
	c.Gone(g)
	c.Gone(&pods[0])
	c.Gone(jobpod.Service(g))
}

// An uninstallation keeps groups, and no pod.
func TestUninstallingLeavesNoPod(t *testing.T) {
	c := start(t)
	c.in("shop", "baseline")
	g := c.group("shop", "g", "replicas: 2")
	c.await(g, 2)
	var told bytes.Buffer
	c.Must(drain.Run(c.Context(), drain.Config{
		Client: c.Client, Wait: time.Minute, Keep: true, Namespace: "ops", Logger: slog.New(slog.NewTextHandler(&told, nil)),
	}))
	if c.Get(g); len(c.pods(g)) > 0 || len(g.Finalizers) > 0 || strings.Contains(told.String(), "WITHOUT") {
		t.Errorf("%d pods, finalizers %v:\n%s", len(c.pods(g)), g.Finalizers, told.String())
	}
}

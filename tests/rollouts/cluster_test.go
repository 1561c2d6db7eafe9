package rollouts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/conformance/crd"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/argo"
	"switchyard.dev/tools/wait"
)

const (
	// namespace is where everything is.
	namespace = "argo"
	// patience is how long a test waits for what has to happen.
	patience = 60 * time.Second
)

// cluster is an API server with the ReplicaSet and Deployment controllers, our
// manager, a kubelet that is played, and Argo Rollouts when it is installed.
type cluster struct {
	*world.World
	log    facts
	asked  *requests
	output *background.Output
	// stopArgo ends the controller of Argo.
	stopArgo func()
}

func start(t *testing.T) *cluster {
	t.Helper()
	return startIn(t, istioadapter.Settings{})
}

// startIn starts it with a mesh, if that is enabled.
func startIn(t *testing.T, mesh istioadapter.Settings) *cluster {
	t.Helper()
	c := &cluster{World: world.New(t), log: facts{memory.New()}, asked: &requests{}, output: &background.Output{}}
	c.Namespaces(namespace, namespace+"-operator")
	c.program(filepath.Join(apiserver.Binaries(), "kube-controller-manager"), "--kubeconfig", c.Kubeconfig, "--leader-elect=false",
		"--controllers=replicaset-controller,deployment-controller", "--secure-port=0")
	if mesh.Enabled {
		c.DefineIstio()
	}
	c.manage(mesh)
	go c.kubelet(t.Context())
	return c
}

// program runs a program until stop is called or the test ends.
func (c *cluster) program(path string, args ...string) (stop func()) {
	c.Helper()
	said := &background.Output{}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = said, said
	p, err := program.Start("", filepath.Base(path), cmd, nil)
	c.Must(err)
	stop = sync.OnceFunc(func() {
		p.Kill()
		if c.Failed() {
			text := said.String()
			c.Logf("end of the log of %s:\n%s", filepath.Base(path), text[max(0, len(text)-4000):])
		}
	})
	c.Cleanup(stop)
	return stop
}

// manage runs our manager.
func (c *cluster) manage(mesh istioadapter.Settings) {
	c.Helper()
	logger := slog.New(slog.NewTextHandler(c.output, nil))
	klog.SetSlogLogger(logger)
	access := c.As("")
	access.Wrap(c.asked.wrap)
	main, err := manager.New(c.Context(), manager.Config{
		REST: access, Log: c.log.Log, WithoutWebhook: true, SeveralInProcess: true,
		MetricsAddress: "0", HealthAddress: "0", Namespace: namespace + "-operator", Istio: mesh, Logger: logger,
	})
	c.Must(err)
	c.Cleanup(func() {
		if c.Failed() {
			c.Logf("the manager said:\n%s", c.output)
		}
	})
	background.Run(c, main.Run)
}

// installArgo installs the kinds of Argo and starts its controller.
func (c *cluster) installArgo() {
	c.Helper()
	root, err := crd.Root()
	c.Must(err)
	its, err := argo.Find(c.Context(), root)
	c.Must(err)
	files, err := filepath.Glob(filepath.Join(its.Definitions, "*-crd.yaml"))
	if err != nil || len(files) == 0 {
		c.Fatalf("definitions of Argo: %v (%v)", files, err)
	}
	if _, err := envtest.InstallCRDs(c.Config, envtest.CRDInstallOptions{Paths: files, MaxTime: patience}); err != nil {
		c.Fatal(err)
	}
	c.stopArgo = c.program(its.Controller, "--kubeconfig", c.Kubeconfig, "--namespace", namespace, "--leader-elect=false",
		"--metricsPort", "0", "--healthzPort", "0", "--loglevel", "warn")
}

// removeArgo ends the controller of Argo and removes the kind Rollout.
func (c *cluster) removeArgo() {
	c.Helper()
	c.stopArgo()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "rollouts.argoproj.io"}}
	c.Remove(definition)
	c.Gone(definition)
}

// kubelet says of each pod that it runs and is ready, but for those with an image
// named broken: those cannot be pulled.
func (c *cluster) kubelet(ctx context.Context) {
	for ctx.Err() == nil {
		var pods corev1.PodList
		if err := c.Client.List(ctx, &pods, client.InNamespace(namespace)); err == nil {
			for i := range pods.Items {
				if p := &pods.Items[i]; p.Status.Phase == corev1.PodPending && len(p.Status.ContainerStatuses) == 0 {
					p.Status = statusOf(p)
					_ = c.Client.Status().Update(ctx, p) // Else the next time.
				}
			}
		}
		_ = wait.For(ctx, 50*time.Millisecond)
	}
}

// statusOf is the status of a pod as a kubelet would write it.
func statusOf(p *corev1.Pod) corev1.PodStatus {
	now := metav1.Now()
	if image := p.Spec.Containers[0].Image; strings.HasSuffix(image, ":broken") {
		return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: p.Spec.Containers[0].Name, Image: image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "ImagePullBackOff", Message: `Back-off pulling image "` + image + `": ErrImagePull: rpc error: code = NotFound desc = not found`,
			}},
		}}}
	}
	return corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: p.Spec.Containers[0].Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
}

// create makes the object of a YAML document, or those of its list.
func (c *cluster) create(text string) {
	c.Helper()
	u := &unstructured.Unstructured{}
	c.Read(u, text)
	if !u.IsList() {
		c.Create(u)
		return
	}
	list, err := u.ToList()
	c.Must(err)
	for i := range list.Items {
		c.Create(&list.Items[i])
	}
}

// fork makes a ForkedWorkload of a Rollout, with merge patches.
func (c *cluster) fork(name, rollout string, patches ...string) *crdv1.ForkedWorkload {
	c.Helper()
	return c.forkOf(baseline.RolloutKind(), name, rollout, patches...)
}

// forkOf makes a ForkedWorkload of a workload of this kind, with merge patches.
func (c *cluster) forkOf(kind schema.GroupVersionKind, name, workload string, patches ...string) *crdv1.ForkedWorkload {
	c.Helper()
	w := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	w.Spec.Baseline.APIVersion, w.Spec.Baseline.Kind = kind.ToAPIVersionAndKind()
	w.Spec.Baseline.Name = workload
	for _, p := range patches {
		w.Spec.Patches = append(w.Spec.Patches, crdv1.Patch{Merge: &runtime.RawExtension{Raw: json.RawMessage(p)}})
	}
	c.Create(w)
	return w
}

// rollout and deployment read a workload.
func (c *cluster) rollout(name string) *unstructured.Unstructured {
	c.Helper()
	u := baseline.NewRollout()
	c.get(u, name)
	return u
}

func (c *cluster) deployment(name string) *unstructured.Unstructured {
	c.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("apps/v1")
	u.SetKind("Deployment")
	c.get(u, name)
	return u
}

func (c *cluster) get(o client.Object, name string) {
	c.Helper()
	o.SetNamespace(namespace)
	o.SetName(name)
	c.Get(o)
}

// healthy returns why Argo does not call a Rollout healthy; nil when it does.
func (c *cluster) healthy(name string) error {
	u := c.rollout(name)
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	observed, _, _ := unstructured.NestedString(u.Object, "status", "observedGeneration")
	if phase != "Healthy" || observed != fmt.Sprint(u.GetGeneration()) {
		return fmt.Errorf("Rollout %s: %v", name, u.Object["status"])
	}
	return nil
}

// containers gives the first container of a workload.
func containerOf(u *unstructured.Unstructured) map[string]any {
	list, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec", "containers")
	if containers, ok := list.([]any); ok && len(containers) > 0 {
		if first, ok := containers[0].(map[string]any); ok {
			return first
		}
	}
	return map[string]any{}
}

func imageOf(u *unstructured.Unstructured) string {
	image, _ := containerOf(u)["image"].(string)
	return image
}

func setImage(u *unstructured.Unstructured, image string) { containerOf(u)["image"] = image }

// calm waits until the manager has stopped to ask about Rollouts.
func (c *cluster) calm() {
	c.Helper()
	last, since := c.asked.of(""), time.Now()
	c.Eventually("the manager comes to rest", func() error {
		if now := c.asked.of(""); now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) < time.Second {
			return errors.New("it does not")
		}
		return nil
	})
}

// facts is the routing log.
type facts struct{ *memory.Log }

// fact returns the newest fact about a ForkedWorkload; nil when there is none.
func (f facts) fact(w *crdv1.ForkedWorkload) any {
	r, ok, err := f.Newest(context.Background(), member.Key(crdv1.KindForkedWorkload, w.Namespace, w.Name))
	if err != nil || !ok {
		return nil
	}
	return r.Fact.Data
}

// requests notes what is asked of the API server.
type requests struct {
	mu    sync.Mutex
	paths []string
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return world.RoundTrip(func(q *http.Request) (*http.Response, error) {
		r.mu.Lock()
		r.paths = append(r.paths, q.URL.Path)
		r.mu.Unlock()
		return next.RoundTrip(q)
	})
}

// of counts the requests with a part in their path.
func (r *requests) of(part string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, p := range r.paths {
		if strings.Contains(p, part) {
			n++
		}
	}
	return n
}

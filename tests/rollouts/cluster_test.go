package rollouts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"switchyard.dev/eventbus/memory"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/manager"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/conformance/crd"
	"switchyard.dev/tests/wait"
	"switchyard.dev/tools/argo"
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
	t      *testing.T
	client client.Client
	server *apiserver.Server
	access string
	log    facts
	asked  *requests
	output *output
	// stopArgo ends the controller of Argo.
	stopArgo func()
}

func start(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, log: facts{memory.New()}, asked: &requests{}, output: &output{}}
	var err error
	if c.server, err = apiserver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.server.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme, err := manager.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if c.client, err = client.New(c.server.Config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	c.create(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + namespace + `}}`)
	c.create(`{apiVersion: v1, kind: Namespace, metadata: {name: ` + namespace + `-operator}}`)
	c.access = c.kubeconfig()
	c.program(filepath.Join(apiserver.Binaries(), "kube-controller-manager"), "--kubeconfig", c.access, "--leader-elect=false",
		"--controllers=replicaset-controller,deployment-controller", "--secure-port=0")
	c.manage()
	go c.kubelet(t.Context())
	return c
}

// kubeconfig writes how the API server is reached into a file.
func (c *cluster) kubeconfig() string {
	c.t.Helper()
	tls := c.server.Config.TLSClientConfig
	written, err := clientcmd.Write(api.Config{
		Clusters:       map[string]*api.Cluster{"it": {Server: c.server.Config.Host, CertificateAuthorityData: tls.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{"it": {ClientCertificateData: tls.CertData, ClientKeyData: tls.KeyData}},
		Contexts:       map[string]*api.Context{"it": {Cluster: "it", AuthInfo: "it"}},
		CurrentContext: "it",
	})
	if err != nil {
		c.t.Fatal(err)
	}
	path := filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, written, 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// program runs a program until stop is called or the test ends.
func (c *cluster) program(path string, args ...string) (stop func()) {
	c.t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if c.t.Failed() {
			c.t.Logf("%s said at its end:\n%s", filepath.Base(path), said.Bytes()[max(0, said.Len()-4000):])
		}
	})
	c.t.Cleanup(stop)
	return stop
}

// manage runs our manager.
func (c *cluster) manage() {
	c.t.Helper()
	logger := slog.New(slog.NewTextHandler(c.output, nil))
	klog.SetSlogLogger(logger)
	access := rest.CopyConfig(c.server.Config)
	access.Wrap(c.asked.wrap)
	main, err := manager.New(c.t.Context(), manager.Config{
		REST: access, Log: c.log.Log, WithoutWebhook: true, SeveralInProcess: true,
		MetricsAddress: "0", HealthAddress: "0", Namespace: namespace + "-operator", Logger: logger,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- main.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Error(err)
		}
		if c.t.Failed() {
			c.t.Logf("the manager said:\n%s", strings.Join(c.output.lines(""), "\n"))
		}
	})
}

// installArgo installs the kinds of Argo and starts its controller.
func (c *cluster) installArgo() {
	c.t.Helper()
	root, err := crd.Root()
	if err != nil {
		c.t.Fatal(err)
	}
	its, err := argo.Find(c.t.Context(), root)
	if err != nil {
		c.t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(its.Definitions, "*-crd.yaml"))
	if err != nil || len(files) == 0 {
		c.t.Fatalf("definitions of Argo: %v (%v)", files, err)
	}
	if _, err := envtest.InstallCRDs(c.server.Config, envtest.CRDInstallOptions{Paths: files, MaxTime: patience}); err != nil {
		c.t.Fatal(err)
	}
	c.stopArgo = c.program(its.Controller, "--kubeconfig", c.access, "--namespace", namespace, "--leader-elect=false",
		"--metricsPort", "0", "--healthzPort", "0", "--loglevel", "warn")
}

// removeArgo ends the controller of Argo and removes the kind Rollout.
func (c *cluster) removeArgo() {
	c.t.Helper()
	c.stopArgo()
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	definition.SetName("rollouts.argoproj.io")
	if err := c.client.Delete(c.t.Context(), definition); err != nil {
		c.t.Fatal(err)
	}
	c.gone(definition)
}

// kubelet says of each pod that it runs and is ready, but for those with an image
// named broken: those cannot be pulled.
func (c *cluster) kubelet(ctx context.Context) {
	for ctx.Err() == nil {
		var pods corev1.PodList
		if err := c.client.List(ctx, &pods, client.InNamespace(namespace)); err == nil {
			for i := range pods.Items {
				if p := &pods.Items[i]; p.Status.Phase == corev1.PodPending && len(p.Status.ContainerStatuses) == 0 {
					p.Status = statusOf(p)
					_ = c.client.Status().Update(ctx, p) // Else the next time.
				}
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
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

// create makes the objects of a YAML document.
func (c *cluster) create(text string) {
	c.t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		c.t.Fatal(err)
	}
	each := func(o runtime.Object) error { return c.client.Create(c.t.Context(), o.(client.Object)) }
	var err error
	if u.IsList() {
		err = u.EachListItem(each)
	} else {
		err = each(u)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// fork makes a ForkedWorkload of a Rollout, with merge patches.
func (c *cluster) fork(name, rollout string, patches ...string) *crdv1.ForkedWorkload {
	c.t.Helper()
	return c.forkOf(baseline.RolloutKind(), name, rollout, patches...)
}

// forkOf makes a ForkedWorkload of a workload of this kind, with merge patches.
func (c *cluster) forkOf(kind schema.GroupVersionKind, name, workload string, patches ...string) *crdv1.ForkedWorkload {
	c.t.Helper()
	w := &crdv1.ForkedWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	w.Spec.Baseline.APIVersion, w.Spec.Baseline.Kind = kind.ToAPIVersionAndKind()
	w.Spec.Baseline.Name = workload
	for _, p := range patches {
		w.Spec.Patches = append(w.Spec.Patches, crdv1.Patch{Merge: &runtime.RawExtension{Raw: json.RawMessage(p)}})
	}
	if err := c.client.Create(c.t.Context(), w); err != nil {
		c.t.Fatal(err)
	}
	return w
}

// rollout and deployment read a workload.
func (c *cluster) rollout(name string) *unstructured.Unstructured {
	c.t.Helper()
	u := baseline.NewRollout()
	c.get(u, name)
	return u
}

func (c *cluster) deployment(name string) *unstructured.Unstructured {
	c.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("apps/v1")
	u.SetKind("Deployment")
	c.get(u, name)
	return u
}

func (c *cluster) get(o client.Object, name string) {
	c.t.Helper()
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		c.t.Fatal(err)
	}
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

// eventually waits until check gives nil.
func (c *cluster) eventually(what string, check func() error) {
	c.t.Helper()
	wait.Eventually(c.t, patience, what, check)
}

// condition waits until a condition has a status and a reason, and gives its message.
func (c *cluster) condition(w *crdv1.ForkedWorkload, conditionType, status, reason string) string {
	c.t.Helper()
	var message string
	c.eventually(fmt.Sprintf("%s has %s=%s, %s", w.Name, conditionType, status, reason), func() error {
		if err := c.client.Get(c.t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			return err
		}
		have := crdv1.FindCondition(w.Status.Conditions, conditionType)
		if have == nil || have.Status != status || have.Reason != reason {
			return fmt.Errorf("it is %+v", have)
		}
		message = have.Message
		return nil
	})
	return message
}

// says fails the test when a message lacks one of the parts.
func (c *cluster) says(message string, parts ...string) {
	c.t.Helper()
	for _, p := range parts {
		if !strings.Contains(message, p) {
			c.t.Errorf("message %q does not say %q", message, p)
		}
	}
}

// edit changes an object, again when somebody else changed it meanwhile.
func (c *cluster) edit(o client.Object, change any) {
	c.t.Helper()
	c.eventually("an object can be changed", func() error {
		if err := c.client.Get(c.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		switch change := change.(type) {
		case func(*unstructured.Unstructured):
			change(o.(*unstructured.Unstructured))
		case func(*crdv1.ForkedWorkload):
			change(o.(*crdv1.ForkedWorkload))
		}
		return c.client.Update(c.t.Context(), o)
	})
}

// gone waits until an object does not exist.
func (c *cluster) gone(o client.Object) {
	c.t.Helper()
	c.eventually(o.GetName()+" is gone", func() error {
		err := c.client.Get(c.t.Context(), client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is there"), err)
	})
}

// calm waits until the manager has stopped to ask about Rollouts.
func (c *cluster) calm() {
	c.t.Helper()
	last, since := c.asked.of(""), time.Now()
	c.eventually("the manager comes to rest", func() error {
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
	return roundTrip(func(q *http.Request) (*http.Response, error) {
		r.mu.Lock()
		r.paths = append(r.paths, q.URL.Path)
		r.mu.Unlock()
		return next.RoundTrip(q)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

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

// output is what the manager logs.
type output struct {
	mu   sync.Mutex
	text []string
}

// Write implements io.Writer; each call is one line.
func (o *output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, strings.TrimSpace(string(line)))
	return len(line), nil
}

// lines returns the lines with this level, or all.
func (o *output) lines(level string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, line := range o.text {
		if level == "" || strings.Contains(line, "level="+level) {
			out = append(out, line)
		}
	}
	return out
}

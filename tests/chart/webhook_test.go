package chart

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tools/wait"
)

// webhooks reads the live webhook configuration.
func (s apiServer) webhooks(ctx context.Context) (*registrationv1.MutatingWebhookConfiguration, error) {
	config := &registrationv1.MutatingWebhookConfiguration{}
	return config, s.Get(ctx, client.ObjectKey{Name: webhookConfiguration}, config)
}

// asked is a webhook that keeps which pods it was asked about, on which paths.
type asked struct {
	sync.Mutex
	paths map[string][]string // by the pod's name
}

// ServeHTTP notes the pod and allows it.
func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.Lock()
	a.paths[review.Request.Name] = append(a.paths[review.Request.Name], r.URL.Path)
	a.Unlock()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if err := json.NewEncoder(w).Encode(review); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// about returns the paths on which the webhook was asked about a pod.
func (a *asked) about(name string) []string {
	a.Lock()
	defer a.Unlock()
	return slices.Clone(a.paths[name])
}

const (
	inject      = "sidecar.signadot.com/inject"
	byPod       = "/mutate-v1-pod"
	byNamespace = "/mutate-v1-pod/namespace"
	confined    = "/confined"

	podSecurity = "pod-security.kubernetes.io/enforce"
)

// askable are pods, and on which path the webhook is asked about them, if it is.
var askable = []struct {
	sentence, namespace string
	pod                 corev1.Pod
	path                string
}{
	{"a pod that asks", "shop", pod(map[string]string{inject: "true"}), byPod},
	{"a pod that asks in the old way", "shop", pod(map[string]string{inject: "http"}), byPod},
	{"a pod without annotations", "shop", pod(nil), ""},
	{"a pod that says nothing", "shop", pod(map[string]string{"other": "true"}), ""},
	{"a pod that says nothing where the namespace asks", "asking", pod(nil), byNamespace},
	{"a pod that says nothing where the namespace declines", "declining", pod(nil), ""},
	{"a pod that declines where the namespace asks", "asking", pod(map[string]string{inject: "false"}), byPod},
	{"a pod that asks where webhooks are disabled", "disabled", pod(map[string]string{inject: "true"}), ""},
	{"a pod that asks where pod security is enforced", "confined", pod(map[string]string{inject: "true"}), byPod + confined},
	{"a pod that says nothing where the namespace asks and pod security is enforced", "askingconfined", pod(nil), byNamespace + confined},
	{"a pod that asks in our own namespace", namespace, pod(map[string]string{inject: "true"}), ""},
	{"a pod that asks in kube-system", "kube-system", pod(map[string]string{inject: "true"}), ""},
	{"a pod that the kubelet runs already", "shop", mirror(), ""},
	{"a pod that has the sidecar as a container", "shop", pod(map[string]string{inject: "true"}, "app", "sd-sidecar"), ""},
	{"a pod that has the sidecar as an init container", "shop", sidecarFirst(), ""},
}

// pod makes a pod with the given annotations and containers.
func pod(annotations map[string]string, containers ...string) corev1.Pod {
	if len(containers) == 0 {
		containers = []string{"app"}
	}
	out := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	for _, name := range containers {
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Name: name, Image: "app", SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}})
	}
	out.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	return out
}

// mirror makes a pod that stands for one of a kubelet's own.
func mirror() corev1.Pod {
	out := pod(map[string]string{inject: "true", corev1.MirrorPodAnnotationKey: "x"})
	out.Spec.NodeName = "node"
	return out
}

// sidecarFirst makes a pod that has a native sidecar already.
func sidecarFirst() corev1.Pod {
	out := pod(map[string]string{inject: "true"}, "sd-sidecar", "app")
	out.Spec.InitContainers, out.Spec.Containers = out.Spec.Containers[:1:1], out.Spec.Containers[1:]
	out.Spec.InitContainers[0].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	return out
}

func (s apiServer) asksTheWebhook(t *testing.T) {
	s.label(t, "asking", inject, "true")
	s.label(t, "declining", inject, "false")
	s.label(t, "disabled", "signadot.com/admission-webhooks", "disabled")
	s.label(t, "confined", podSecurity, "baseline")
	s.label(t, "askingconfined", podSecurity, "restricted")
	s.label(t, "askingconfined", inject, "true")
	hook := s.serveWebhook(t)
	s.awaitWebhook(t, hook)
	for i, c := range askable {
		t.Run(c.sentence, func(t *testing.T) {
			c.pod.Name, c.pod.Namespace = "pod-"+string(rune('a'+i)), c.namespace
			if err := s.Create(t.Context(), &c.pod, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			want := []string{c.path}
			if c.path == "" {
				want = nil
			}
			if got := hook.about(c.pod.Name); !slices.Equal(got, want) {
				t.Errorf("asked on the paths %q, want %q", got, want)
			}
		})
	}
}

// label labels a namespace.
func (s apiServer) label(t *testing.T, name, key, value string) {
	t.Helper()
	ns := &corev1.Namespace{}
	if err := s.Get(t.Context(), client.ObjectKey{Name: name}, ns); err != nil {
		t.Fatal(err)
	}
	ns.Labels[key] = value
	if err := s.Update(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
}

// serveWebhook installs the chart's webhook configuration with a server of the
// test in place of the Service.
func (s apiServer) serveWebhook(t *testing.T) *asked {
	t.Helper()
	hook := &asked{paths: map[string][]string{}}
	https := httptest.NewTLSServer(hook)
	t.Cleanup(https.Close)
	config := as[registrationv1.MutatingWebhookConfiguration](t, mustRender(t, "").find("MutatingWebhookConfiguration", "", webhookConfiguration))
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw})
	for i := range config.Webhooks {
		url := https.URL + *config.Webhooks[i].ClientConfig.Service.Path
		config.Webhooks[i].ClientConfig = registrationv1.WebhookClientConfig{URL: &url, CABundle: ca}
	}
	if err := s.Create(t.Context(), &config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context has ended by now.
		if err := s.Delete(context.Background(), &config); err != nil {
			t.Error(err)
		}
	})
	return hook
}

// awaitWebhook waits until the API server has learned of the configuration and
// of the namespaces' labels.
func (s apiServer) awaitWebhook(t *testing.T, hook *asked) {
	t.Helper()
	for _, c := range []struct {
		namespace   string
		annotations map[string]string
	}{{"shop", map[string]string{inject: "true"}}, {"asking", nil}, {"confined", map[string]string{inject: "true"}}, {"askingconfined", nil}} {
		probe := pod(c.annotations)
		probe.Name, probe.Namespace = "probe-in-"+c.namespace, c.namespace
		wait.Holds(t, "the API server asks about pods in namespace "+c.namespace, func() bool {
			if err := s.Create(t.Context(), probe.DeepCopy(), client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			return len(hook.about(probe.Name)) > 0
		})
	}
}

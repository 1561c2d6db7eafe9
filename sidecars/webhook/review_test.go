package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
)

func testInject() inject.Config {
	return inject.Config{
		Sidecar:  inject.Container{Image: "sidecar:dev"},
		Redirect: inject.Container{Image: "redirect:dev"},
	}
}

func testReviewer() *reviewer {
	r, err := newReviewer(Config{Inject: testInject().WithDefaults(), Log: slog.New(slog.DiscardHandler),
		Metrics: prometheus.NewRegistry()})
	if err != nil {
		panic(err) // Nothing else is registered there.
	}
	return r
}

// customer is a pod of the Deployment customer.
func customer(name string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", Annotations: annotations,
			Labels: map[string]string{"pod-template-hash": "7d9f"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet",
				Name: "customer-7d9f", UID: "u", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{Name: "app", Image: "app:1",
			Ports: []corev1.ContainerPort{{ContainerPort: 8081}}}}},
	}
}

func asks() map[string]string { return map[string]string{inject.AnnotationInject: "true"} }

func reviewOf(t testing.TB, pod *corev1.Pod, change func(*admissionv1.AdmissionRequest)) []byte {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	req := &admissionv1.AdmissionRequest{UID: "review-1", Namespace: "shop", Operation: admissionv1.Create,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}}
	req.Object.Raw = raw
	change(req)
	body, err := json.Marshal(admissionv1.AdmissionReview{Request: req})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func unchanged(*admissionv1.AdmissionRequest) {}

func post(r *reviewer, path string, body io.Reader) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, body))
	return w
}

func answerTo(t *testing.T, r *reviewer, path string, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	w := post(r, path, bytes.NewReader(body))
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %s", w.Code, err, w.Body)
	}
	if review.Response == nil || review.Response.UID != "review-1" || !review.Response.Allowed || review.Kind != "AdmissionReview" {
		t.Fatalf("answer %+v: want allowed, with the request's UID", review)
	}
	return review.Response
}

func TestEveryPodIsAllowedAndThoseThatAskArePatched(t *testing.T) {
	cases := map[string]struct {
		pod     *corev1.Pod
		path    string
		change  func(*admissionv1.AdmissionRequest)
		patch   string
		warning string
	}{
		"a pod that asks":              {customer("a", asks()), PathPods, unchanged, devmesh.ContainerName, ""},
		"a pod that does not":          {customer("a", nil), PathPods, unchanged, "", ""},
		"a pod of a namespace that is": {customer("a", nil), PathNamespacePods, unchanged, devmesh.ContainerName, ""},
		"a pod that asks and cannot have it": {func() *corev1.Pod {
			p := customer("a", asks())
			p.Spec.HostNetwork = true
			return p
		}(), PathPods, unchanged, "sidecar.signadot.com~1processed", "no sidecar: the pod uses the node's network"},
		"a pod of a namespace that allows no capability": {customer("a", asks()), PathPods + PathConfined, unchanged,
			"sidecar.signadot.com~1processed", "no sidecar: namespace shop enforces a pod security level"},
		"a pod of a namespace that asks and allows no capability": {customer("a", nil), PathNamespacePods + PathConfined, unchanged,
			"sidecar.signadot.com/processed", "no sidecar: namespace shop enforces a pod security level"},
		"an update of a pod": {customer("a", asks()), PathPods,
			func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }, "", ""},
		"something that is no pod": {customer("a", asks()), PathPods,
			func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "services" }, "", ""},
		"a part of a pod": {customer("a", asks()), PathPods,
			func(r *admissionv1.AdmissionRequest) { r.SubResource = "binding" }, "", ""},
		"a pod that cannot be read": {customer("a", asks()), PathPods,
			func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte(`{"spec":7}`) }, "", "no sidecar: the object is not a pod"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := answerTo(t, testReviewer(), c.path, reviewOf(t, c.pod, c.change))
			if (len(got.Patch) > 0) != (c.patch != "") || !strings.Contains(string(got.Patch), c.patch) {
				t.Errorf("patch %s, want one with %q", got.Patch, c.patch)
			}
			if (got.PatchType != nil) != (len(got.Patch) > 0) {
				t.Error("a patch and its type go together")
			}
			if warnings := strings.Join(got.Warnings, "\n"); !strings.Contains(warnings, c.warning) || (c.warning == "") != (warnings == "") {
				t.Errorf("warnings %q, want one with %q", warnings, c.warning)
			}
		})
	}
}

func TestTheNamespacesLabelAsksWhereItIsKnown(t *testing.T) {
	r := testReviewer()
	r.labels = func(name string) map[string]string {
		if name != "shop" {
			return nil
		}
		return map[string]string{inject.AnnotationInject: "true"}
	}
	got := answerTo(t, r, PathPods, reviewOf(t, customer("a", nil), unchanged))
	if !strings.Contains(string(got.Patch), devmesh.ContainerName) {
		t.Errorf("patch %s", got.Patch)
	}
}

func TestAFaultOfOursAllowsThePodAndSaysWhatItWas(t *testing.T) {
	faults := map[string]func([]byte, inject.Namespace, inject.Config) (inject.Result, error){
		"a panic": func([]byte, inject.Namespace, inject.Config) (inject.Result, error) { panic("boom") },
		"an error": func([]byte, inject.Namespace, inject.Config) (inject.Result, error) {
			return inject.Result{}, errors.New("boom")
		},
		"a patch that is no JSON": func([]byte, inject.Namespace, inject.Config) (inject.Result, error) {
			return inject.Result{Patch: []inject.Operation{{Value: func() {}}}, Warnings: []string{"boom"}}, nil
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			r := testReviewer()
			r.injectPod = fault
			got := answerTo(t, r, PathPods, reviewOf(t, customer("a", asks()), unchanged))
			if len(got.Patch) != 0 || len(got.Warnings) != 1 || got.AuditAnnotations[auditReason] == "" {
				t.Errorf("answer %+v: want no patch, a warning and an audit annotation", got)
			}
		})
	}
}

func TestInvalidReviewsAreRejectedEarly(t *testing.T) {
	big := bytes.Repeat([]byte(" "), maxBody+1)
	cases := map[string]struct {
		body io.Reader
		want int
	}{
		"nothing":                {strings.NewReader(""), http.StatusLengthRequired},
		"no length":              {io.MultiReader(strings.NewReader("{}")), http.StatusLengthRequired},
		"too much":               {bytes.NewReader(big), http.StatusRequestEntityTooLarge},
		"no JSON":                {strings.NewReader("<xml/>"), http.StatusBadRequest},
		"a review of nothing":    {strings.NewReader("{}"), http.StatusBadRequest},
		"a request that is text": {strings.NewReader(`{"request":"x"}`), http.StatusBadRequest},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if w := post(testReviewer(), PathPods, c.body); w.Code != c.want {
				t.Errorf("status %d (%s), want %d", w.Code, w.Body, c.want)
			}
		})
	}
	w := httptest.NewRecorder()
	testReviewer().handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, PathPods, nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: status %d", w.Code)
	}
}

func TestBodiesTogetherAreBounded(t *testing.T) {
	r := testReviewer()
	if !r.bodies.TryAcquire(maxBodies - 10) {
		t.Fatal("the bound is not what it is said to be")
	}
	body := reviewOf(t, customer("a", asks()), unchanged)
	if w := post(r, PathPods, bytes.NewReader(body)); w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d with no room left", w.Code)
	}
	r.bodies.Release(maxBodies - 10)
	for range 3 { // and each review gives back what it took
		answerTo(t, r, PathPods, body)
	}
	if !r.bodies.TryAcquire(maxBodies) {
		t.Error("a review kept what it took")
	}
}

func TestAReviewIsCountedByItsOutcome(t *testing.T) {
	registry := prometheus.NewRegistry()
	config := Config{Inject: testInject().WithDefaults(), Log: slog.New(slog.DiscardHandler), Metrics: registry}
	r, err := newReviewer(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newReviewer(config); err == nil {
		t.Error("two webhooks count in one place")
	}
	for _, annotations := range []map[string]string{asks(), asks(), nil} {
		answerTo(t, r, PathPods, reviewOf(t, customer("a", annotations), unchanged))
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				got[l.GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if diff := cmp.Diff(map[string]float64{"injected": 2, "untouched": 1}, got); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkReview is one review without the network: decode, decide, encode.
func BenchmarkReview(b *testing.B) {
	r := testReviewer()
	pod := customer("a", asks())
	for i := range 40 {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: "value"})
	}
	body := reviewOf(b, pod, unchanged)
	handler := r.handler()
	for b.Loop() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, PathPods, bytes.NewReader(body)))
		if w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}

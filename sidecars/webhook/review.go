package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/sidecars/inject"
)

// The paths that are served.
const (
	// PathPods takes all pods.
	PathPods = "/mutate-v1-pod"
	// PathNamespacePods takes pods of namespaces that ask for sidecars.
	PathNamespacePods = PathPods + "/namespace"
	// PathConfined behind one of them takes those of namespaces that enforce a pod
	// security level under which no sidecar starts.
	PathConfined = "/confined"
)

// Limits of a request, and of all of them together: an object of the greatest size etcd
// accepts, in its old and its new form, with the rest of the review, and room for sixteen such.
const (
	maxBody   = 4 << 20
	maxBodies = 64 << 20
)

// auditReason is the audit annotation of a fault; the API server puts the
// webhook's name before it.
const auditReason = "not-injected"

// reviewer answers AdmissionReviews.
type reviewer struct {
	inject    inject.Config
	labels    func(namespace string) map[string]string
	log       *slog.Logger
	metrics   *metrics
	others    map[string]Review
	bodies    *semaphore.Weighted
	trust     *trust.Roots // nil: sidecars speak plain
	injectPod func([]byte, inject.Namespace, inject.Config) (inject.Result, error)
}

func newReviewer(cfg Config) (*reviewer, error) {
	counted, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	r := &reviewer{inject: cfg.Inject, labels: cfg.NamespaceLabels, log: cfg.Log,
		metrics: counted, others: cfg.Reviews, trust: cfg.Certs.Roots, bodies: semaphore.NewWeighted(maxBodies), injectPod: inject.Inject}
	if r.labels == nil {
		r.labels = func(string) map[string]string { return nil }
	}
	return r, nil
}

// handler serves the paths.
func (r *reviewer) handler() http.Handler {
	mux := http.NewServeMux()
	for path, found := range map[string]inject.Namespace{
		PathPods:                         {},
		PathNamespacePods:                {Selected: true},
		PathPods + PathConfined:          {Confined: true},
		PathNamespacePods + PathConfined: {Selected: true, Confined: true},
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, req *http.Request) {
			r.serve(w, req, func(_ context.Context, a *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string) {
				return r.answer(a, found)
			})
		})
	}
	for path, review := range r.others {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, req *http.Request) {
			r.serve(w, req, func(ctx context.Context, a *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string) {
				response := review(ctx, a)
				if response.Allowed {
					return response, "admitted"
				}
				return response, "denied"
			})
		})
	}
	return mux
}

// serve reads one review and calls answer, which also returns its outcome for metrics. A body
// that is not a review gets an HTTP error, which the API server handles by failurePolicy.
func (r *reviewer) serve(w http.ResponseWriter, req *http.Request, answer func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string)) {
	began := time.Now()
	review, status, err := r.read(w, req)
	if err != nil {
		r.metrics.count("refused", began)
		http.Error(w, err.Error(), status)
		return
	}
	response, outcome := answer(req.Context(), review.Request)
	response.UID = review.Request.UID
	r.metrics.count(outcome, began)
	w.Header().Set("Content-Type", "application/json")
	reply := admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: response,
	}
	if err := json.NewEncoder(w).Encode(reply); err != nil {
		r.log.Warn("an admission answer was not delivered", "error", err)
	}
}

func (r *reviewer) read(w http.ResponseWriter, req *http.Request) (*admissionv1.AdmissionReview, int, error) {
	switch {
	case req.ContentLength <= 0:
		return nil, http.StatusLengthRequired, errors.New("a review has a Content-Length")
	case req.ContentLength > maxBody:
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("a review has at most %d bytes", maxBody)
	case !r.bodies.TryAcquire(req.ContentLength):
		return nil, http.StatusServiceUnavailable, errors.New("too many reviews at once")
	}
	defer r.bodies.Release(req.ContentLength)
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxBody))
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("cannot read the review: %w", err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("not an AdmissionReview: %w", err)
	}
	if review.Request == nil {
		return nil, http.StatusBadRequest, errors.New("an AdmissionReview without a request")
	}
	return &review, http.StatusOK, nil
}

// answer decides about one pod. found is what the API server has found out about its
// namespace before it asked. outcome is for metrics: injected, declined
// (asked for, refused with a reason), untouched or fault.
func (r *reviewer) answer(req *admissionv1.AdmissionRequest, ns inject.Namespace) (response *admissionv1.AdmissionResponse, outcome string) {
	defer func() {
		if fault := recover(); fault != nil {
			r.log.Error("the injector panicked; the pod starts without a sidecar",
				"namespace", req.Namespace, "pod", req.Name, "panic", fmt.Sprint(fault))
			response, outcome = faulty(fmt.Errorf("internal fault: %v", fault)), "fault"
		}
	}()
	allowed := &admissionv1.AdmissionResponse{Allowed: true}
	pod := metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	if req.Operation != admissionv1.Create || req.Resource != pod || req.SubResource != "" {
		return allowed, "untouched"
	}
	ns.Name, ns.Labels = req.Namespace, r.labels(req.Namespace)
	result, err := r.injectPod(req.Object.Raw, ns, r.now())
	if err != nil {
		r.log.Error("the injector cannot read a pod, which starts without a sidecar", "namespace", req.Namespace, "error", err)
		return faulty(err), "fault"
	}
	allowed.Warnings = result.Warnings
	if result.Asked && !result.Inject {
		allowed.Warnings = append(allowed.Warnings, "no sidecar: "+result.Reason)
		r.log.Info("a pod asked for a sidecar and gets none", "namespace", req.Namespace, "pod", req.Name, "reason", result.Reason)
	}
	return withPatch(allowed, result)
}

// now returns the configuration for new pods, with the current trust bundle for their sidecars.
func (r *reviewer) now() inject.Config {
	c := r.inject
	if c.TLS {
		bundle, _ := r.trust.Bundle()
		c.Trust = string(bundle)
	}
	return c
}

func withPatch(allowed *admissionv1.AdmissionResponse, result inject.Result) (*admissionv1.AdmissionResponse, string) {
	if len(result.Patch) > 0 {
		patch, err := json.Marshal(result.Patch)
		if err != nil {
			return faulty(err), "fault"
		}
		allowed.Patch, allowed.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	}
	switch {
	case result.Inject:
		return allowed, "injected"
	case result.Asked:
		return allowed, "declined"
	}
	return allowed, "untouched"
}

// faulty allows the pod unchanged and reports why it was not patched.
func faulty(err error) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{
		Allowed:          true,
		Warnings:         []string{"no sidecar: " + err.Error()},
		AuditAnnotations: map[string]string{auditReason: err.Error()},
	}
}

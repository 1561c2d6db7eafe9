package apply_test

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"switchyard.dev/reconcilers/apply"
)

// A policy refuses an object that is valid, with a code of its choice.
func TestRefusalsOfPoliciesAreExplained(t *testing.T) {
	d := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "d"}}
	for text, reason := range map[string]string{
		"ValidatingAdmissionPolicy 'owners' with binding 'owners' denied request: each Deployment needs an owner": "Refused",
		`admission webhook "validate.gatekeeper.sh" denied the request: [owners] you must provide labels: {"x"}`:  "Refused",
		`admission webhook "a.b" denied the request without explanation`:                                          "Refused",
		"spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 99999":                           "Rejected",
	} {
		for _, code := range []metav1.StatusReason{metav1.StatusReasonInvalid, metav1.StatusReasonForbidden, metav1.StatusReasonBadRequest} {
			err := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Reason: code, Message: text}}
			want := reason
			if reason == "Rejected" && code == metav1.StatusReasonForbidden {
				want = "Forbidden"
			}
			if r := apply.RefusalOf(d, err); r == nil || r.Reason != want || !strings.HasSuffix(r.Message, ": "+text) {
				t.Errorf("%s, %s: %+v", code, text, r)
			}
		}
	}
}

// An exhausted quota is not a missing right.
func TestForbiddenWritesAreExplained(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}}
	for cause, want := range map[string][2]string{
		"exceeded quota: objects, requested: pods=1":             {"QuotaExceeded", "a ResourceQuota of namespace shop refuses Pod shop/p (retried every 15s): "},
		"failed quota: limits: must specify limits.cpu for: a":   {"QuotaExceeded", "a ResourceQuota of namespace shop refuses Pod shop/p (retried every 15s): "},
		"maximum memory usage per Container is 256Mi":            {"Forbidden", "the API server refuses Pod shop/p (retried every 15s): "},
		`User "m" cannot create resource "pods" in API group ""`: {"Forbidden", "Pod shop/p may not be written: "},
	} {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New(cause))
		r := apply.RefusalOf(pod, err)
		if r == nil || r.Reason != want[0] || r.Message != want[1]+err.Error() {
			t.Errorf("%s: %+v", cause, r)
		}
	}
}

package apply_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"switchyard.dev/reconcilers/apply"
)

// An exhausted quota is not a missing right.
func TestWhatIsForbidden(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}}
	for cause, want := range map[string][2]string{
		"exceeded quota: objects, requested: pods=1":             {"QuotaExceeded", "a ResourceQuota of namespace shop refuses Pod shop/p, which is retried every 15s: "},
		"failed quota: limits: must specify limits.cpu for: a":   {"QuotaExceeded", "a ResourceQuota of namespace shop refuses Pod shop/p, which is retried every 15s: "},
		"maximum memory usage per Container is 256Mi":            {"Forbidden", "the API server refuses Pod shop/p, which is retried every 15s: "},
		`User "m" cannot create resource "pods" in API group ""`: {"Forbidden", "Pod shop/p may not be written: "},
	} {
		err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New(cause))
		r := apply.RefusalOf(pod, err)
		if r == nil || r.Reason != want[0] || r.Message != want[1]+err.Error() {
			t.Errorf("%s: %+v", cause, r)
		}
	}
}

package controller_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/reconcilers/controller"
)

// noted is a kind that records its reconciliations.
type noted struct {
	calls []string
	after time.Duration
	err   error
}

func (n *noted) Reconcile(_ context.Context, o *corev1.ConfigMap) (time.Duration, error) {
	n.calls = append(n.calls, "reconcile "+o.Name+" "+o.Data["a"])
	return n.after, n.err
}

func (n *noted) Gone(_ context.Context, name types.NamespacedName) error {
	n.calls = append(n.calls, "gone "+name.String())
	return n.err
}

func (*noted) Watch(*builder.Builder, ctrl.Manager) error { return nil }

func TestAnObjectIsReadAndHandedToItsKind(t *testing.T) {
	cache := fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "there"}, Data: map[string]string{"a": "b"}}).Build()
	trouble := errors.New("away")
	for _, tt := range []struct {
		name  string
		kind  noted
		want  string
		after time.Duration
		err   error
	}{
		{"there", noted{after: time.Minute}, "reconcile there b", time.Minute, nil},
		{"there", noted{after: time.Minute, err: trouble}, "reconcile there b", 0, trouble},
		{"absent", noted{}, "gone ns/absent", 0, nil},
		{"absent", noted{err: trouble}, "gone ns/absent", 0, trouble},
	} {
		result, err := controller.Of(cache, &tt.kind).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: tt.name}})
		if result.RequeueAfter != tt.after || !errors.Is(err, tt.err) || !slices.Equal(tt.kind.calls, []string{tt.want}) {
			t.Errorf("%q: %+v, %v, not %q, %s, %v", tt.kind.calls, result, err, tt.want, tt.after, tt.err)
		}
	}
}

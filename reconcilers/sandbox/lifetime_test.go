package sandbox

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

func TestASandboxGoesWhenItsLifetimeIsOver(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := crdv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		age, sinceUpdate time.Duration
		ttl, from        string
		left             time.Duration
		over             bool
	}{
		"no lifetime":                          {age: time.Hour},
		"some is left":                         {age: time.Hour, ttl: "2h", left: time.Hour},
		"it is over":                           {age: 2 * time.Hour, ttl: "2h", over: true},
		"it began anew with the last change":   {age: 9 * time.Hour, sinceUpdate: time.Hour, ttl: "2h", from: "updatedAt", left: time.Hour},
		"it is over since the last change":     {age: 9 * time.Hour, sinceUpdate: 3 * time.Hour, ttl: "2h", from: "updatedAt", over: true},
		"one that cannot be read ends nothing": {age: 9 * time.Hour, ttl: "2 hours"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{
				Name: "sb", UID: "u", CreationTimestamp: metav1.NewTime(now.Add(-tt.age)), Annotations: map[string]string{},
			}}
			for key, value := range map[string]string{crdv1.AnnotationTTL: tt.ttl, crdv1.AnnotationTTLFrom: tt.from} {
				if value != "" {
					s.Annotations[key] = value
				}
			}
			if tt.sinceUpdate > 0 {
				s.Annotations[crdv1.AnnotationUpdatedAt] = now.Add(-tt.sinceUpdate).Format(time.RFC3339)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(s).Build()
			r := New(Config{Access: apply.Access{Client: c, Now: func() time.Time { return now }}})
			seen := &crdv1.SignadotSandbox{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(s), seen); err != nil {
				t.Fatal(err)
			}
			left, over, err := r.expire(t.Context(), seen)
			if left != tt.left || over != tt.over || err != nil {
				t.Errorf("%s is left, and it is over: %t, %v", left, over, err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(s), s); apierrors.IsNotFound(err) != tt.over {
				t.Errorf("it is there: %v", err)
			}
		})
	}
}

func TestTheSoonerOfTwoTimesCounts(t *testing.T) {
	for _, tt := range []struct{ a, b, want time.Duration }{{0, 0, 0}, {0, 2, 2}, {2, 0, 2}, {1, 2, 1}, {2, 1, 1}} {
		if got := wake.Sooner(tt.a, tt.b); got != tt.want {
			t.Errorf("of %d and %d it is %d", tt.a, tt.b, got)
		}
	}
}

package dryrun

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// The fields that an API server sets in written objects, and the notifications about writes.
func TestWritesAreAdmittedAsAnAPIServerWould(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	w, err := newWorld(t.Context(), Config{Reader: fake.NewClientBuilder().WithScheme(scheme).Build()}, scheme, now)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	w.changed = func(id identity, before, after client.Object) {
		told = append(told, fmt.Sprint(before != nil, after != nil))
	}
	o := &crdv1.RoutingConfig{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"a/b"}}}
	is := func(what string, generation int64, times ...string) {
		t.Helper()
		if o.UID != newUID+"1" || o.Generation != generation || !o.CreationTimestamp.Time.Equal(now.Truncate(time.Second)) {
			t.Errorf("%s: %+v", what, o.ObjectMeta)
		}
		if !slices.Equal(told, times) {
			t.Errorf("%s: told of %q", what, told)
		}
		told = nil
	}
	patch := func(change func()) {
		t.Helper()
		before := o.DeepCopy()
		change()
		if err := w.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	is("it is new", 1, "false true")
	patch(func() {})
	is("nothing changes", 1)
	patch(func() { o.Annotations = map[string]string{"a": "b"} })
	is("an annotation is set", 1, "true true")
	patch(func() { o.Spec.SandboxedWorkloads = []crdv1.SandboxedWorkload{} })
	is("the spec changes", 2, "true true")
	before := o.DeepCopy()
	o.Status.ObservedGeneration = 2
	if err := w.Status().Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	is("the status changes", 2, "true true")
	if err := w.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	is("it is deleted, but for its finalizer", 2, "true true")
	patch(func() { o.Finalizers = nil })
	is("it goes", 2, "true false")
}

package controller_test

import (
	"context"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/reconcilers/controller"
)

func TestAPanicInAMapFunctionMeansNothingToDo(t *testing.T) {
	f := controller.MapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if o.GetName() == "bad" {
			panic("a fault")
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetName()}}}
	})
	if got := f(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := f(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "good"}}); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if got := f(t.Context(), nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestRequestsAreForWhatTheOptionsSelect(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pod := func(namespace, name string) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod("a", "one"), pod("a", "two"), pod("b", "three")).Build()
	got := controller.Requests(t.Context(), c, &corev1.PodList{}, client.InNamespace("a"))
	want := []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "a", Name: "one"}}, {NamespacedName: types.NamespacedName{Namespace: "a", Name: "two"}}}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := controller.Requests(t.Context(), c, &appsv1.DeploymentList{}); got != nil {
		t.Errorf("of a kind that cannot be read: %v", got)
	}
}

func TestAPanicInAPredicateLetsTheEventPass(t *testing.T) {
	p := controller.Updates(func(before, _ client.Object) bool {
		if before.GetName() == "bad" {
			panic("a fault")
		}
		return false
	})
	update := func(name string) event.UpdateEvent {
		o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		return event.UpdateEvent{ObjectOld: o, ObjectNew: o}
	}
	if !p.Update(update("bad")) || p.Update(update("good")) || !p.Update(event.UpdateEvent{}) {
		t.Error("an update was judged wrongly")
	}
	if !p.Create(event.CreateEvent{}) || !p.Delete(event.DeleteEvent{}) || !p.Generic(event.GenericEvent{}) {
		t.Error("only updates are judged")
	}
}

func TestSpecChanged(t *testing.T) {
	now := metav1.Now()
	tests := map[string]struct {
		change func(o *corev1.Pod)
		want   bool
	}{
		"status":          {func(o *corev1.Pod) { o.Status.Phase = "Running"; o.ResourceVersion = "2" }, false},
		"generation":      {func(o *corev1.Pod) { o.Generation = 2 }, true},
		"labels":          {func(o *corev1.Pod) { o.Labels = map[string]string{"a": "b"} }, true},
		"annotations":     {func(o *corev1.Pod) { o.Annotations = map[string]string{"a": "b"} }, true},
		"finalizers":      {func(o *corev1.Pod) { o.Finalizers = []string{"a"} }, true},
		"deletion begins": {func(o *corev1.Pod) { o.DeletionTimestamp = &now }, true},
		"another object":  {func(o *corev1.Pod) { o.UID = "2" }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			after := &corev1.Pod{}
			tt.change(after)
			if got := controller.SpecChanged(&corev1.Pod{}, after); got != tt.want {
				t.Errorf("%t", got)
			}
		})
	}
}

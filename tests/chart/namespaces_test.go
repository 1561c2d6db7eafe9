package chart

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clients "k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withValues creates the namespace of values, for objects of the chart that are applied without helm,
// and returns what deletes it.
func (s apiServer) withValues(t *testing.T) (remove func()) {
	t.Helper()
	o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: values}}
	if err := s.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := s.Delete(context.WithoutCancel(t.Context()), o); err != nil {
			t.Error(err)
		}
		s.eventually(t, "the namespace of values is deleted", func() error {
			if s.Get(t.Context(), client.ObjectKeyFromObject(o), o) == nil {
				return errors.New("not yet")
			}
			return nil
		})
	}
}

// deletesNamespaces does what the namespace controller of Kubernetes does with the namespace of values,
// until the test ends: it empties it when it is being deleted, and then lets it go.
func (s apiServer) deletesNamespaces(t *testing.T) {
	t.Helper()
	kube, err := clients.NewForConfig(s.config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, done := t.Context(), make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
			ns, err := kube.CoreV1().Namespaces().Get(ctx, values, metav1.GetOptions{})
			if err != nil || ns.DeletionTimestamp == nil {
				continue
			}
			for _, kind := range []client.Object{&corev1.Secret{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
				err = errors.Join(err, s.DeleteAllOf(ctx, kind, client.InNamespace(values)))
			}
			if err == nil {
				ns.Spec.Finalizers = nil
				_, _ = kube.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{}) // else it is tried again
			}
		}
	}()
}

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

// smartTests is the namespace of Smart Tests, which the chart creates.
const smartTests = "signadot-tests"

// withNamespaces creates the namespaces of the chart, for objects of it that are applied without helm,
// and returns what deletes them.
func (s apiServer) withNamespaces(t *testing.T) (remove func()) {
	t.Helper()
	var all []*corev1.Namespace
	for _, name := range []string{values, smartTests} {
		o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := s.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return func() {
		for _, o := range all {
			if err := s.Delete(context.WithoutCancel(t.Context()), o); err != nil {
				t.Error(err)
			}
			s.eventually(t, "namespace "+o.Name+" is deleted", func() error {
				if s.Get(t.Context(), client.ObjectKeyFromObject(o), o) == nil {
					return errors.New("not yet")
				}
				return nil
			})
		}
	}
}

// deletesNamespaces does what the namespace controller of Kubernetes does with the namespaces of the chart,
// until the test ends: it empties one when it is being deleted, and then lets it go.
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
			for _, name := range []string{values, smartTests} {
				ns, err := kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
				if err != nil || ns.DeletionTimestamp == nil {
					continue
				}
				for _, kind := range []client.Object{&corev1.Secret{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
					err = errors.Join(err, s.DeleteAllOf(ctx, kind, client.InNamespace(name)))
				}
				if err == nil {
					ns.Spec.Finalizers = nil
					_, _ = kube.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{}) // else it is tried again
				}
			}
		}
	}()
}

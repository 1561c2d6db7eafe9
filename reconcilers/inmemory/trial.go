package inmemory

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// DryRuns returns interceptors that implement dry runs of applies and patches, which a fake client
// lacks: the object is written and then restored in the tracker.
func DryRuns(t testing.ObjectTracker) interceptor.Funcs {
	return interceptor.Funcs{
		Apply: func(ctx context.Context, store client.WithWatch, c runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			all := (&client.ApplyOptions{}).ApplyOptions(options)
			if !slices.Contains(all.DryRun, metav1.DryRunAll) {
				return store.Apply(ctx, c, options...)
			}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
			if err != nil {
				return err
			}
			real := *all
			real.DryRun = nil
			return trial(t, store, &unstructured.Unstructured{Object: content}, func() error { return store.Apply(ctx, c, &real) })
		},
		Patch: func(ctx context.Context, store client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			all := (&client.PatchOptions{}).ApplyOptions(options)
			if !slices.Contains(all.DryRun, metav1.DryRunAll) {
				return store.Patch(ctx, o, patch, options...)
			}
			real := *all
			real.DryRun = nil
			return trial(t, store, o, func() error { return store.Patch(ctx, o, patch, &real) })
		},
	}
}

// trial runs do, which writes the object, and puts it back as it was.
func trial(t testing.ObjectTracker, store client.Client, o client.Object, do func() error) error {
	gvk, err := apiutil.GVKForObject(o, store.Scheme())
	if err != nil {
		return err
	}
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	namespace := o.GetNamespace()
	before, err := t.Get(resource, namespace, o.GetName())
	if err != nil {
		return err
	}
	before = before.DeepCopyObject()
	return errors.Join(do(), t.Update(resource, before, namespace))
}

// Package inmemory creates clients of clusters in memory for controllers: for dry runs, and for tests
// that need thousands of clusters. They are controller-runtime's fake clients, which support patches
// and server-side apply, but not what an API server does beyond that (UIDs, generations, validation).
package inmemory

import (
	"context"
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/kinds"
)

// NewBuilder returns a builder of such a client, with the indexes that controllers use, and with a
// status subresource for the operator's kinds.
func NewBuilder(ctx context.Context, scheme *runtime.Scheme) (*fake.ClientBuilder, error) {
	b := fake.NewClientBuilder().WithScheme(scheme)
	for name, extract := range kinds.RolloutIndexes() {
		b.WithIndex(baseline.NewRollout(), name, extract)
	}
	for _, kind := range crdv1.Kinds() {
		b.WithStatusSubresource(kind.New())
	}
	return b, kinds.AddIndexes(ctx, indexer{b})
}

// NewTracker returns the object tracker of such a client. It has the schemas of Kubernetes' own kinds,
// for managed fields, and deduces those of others.
func NewTracker(scheme *runtime.Scheme) testing.ObjectTracker {
	return tracker{testing.NewFieldManagedObjectTracker(scheme, serializer.NewCodecFactory(scheme).UniversalDecoder(),
		schemas{managedfields.NewDeducedTypeConverter(), known()})}
}

// known are the schemas of Kubernetes' own kinds. They take a while to read.
var known = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(kubernetes.Scheme) })

// schemas guess the fields of kinds that are not known.
type schemas struct {
	managedfields.TypeConverter
	known managedfields.TypeConverter
}

// ObjectToTyped implements managedfields.TypeConverter.
func (s schemas) ObjectToTyped(o runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if v, err := s.known.ObjectToTyped(o, options...); err == nil {
		return v, nil
	}
	return s.TypeConverter.ObjectToTyped(o, options...)
}

// tracker sets the field manager of updates without one.
type tracker struct{ testing.ObjectTracker }

// Update implements testing.ObjectTracker. Fields that an API server sets itself, such as the deletion
// timestamp, have no manager there. Here it is the operator, which publish.CauseOf ignores if there is
// another.
func (t tracker) Update(gvr schema.GroupVersionResource, o runtime.Object, ns string, options ...metav1.UpdateOptions) error {
	if len(options) == 0 || options[0].FieldManager == "" {
		options = []metav1.UpdateOptions{{FieldManager: crdv1.FieldManager}}
	}
	return t.ObjectTracker.Update(gvr, o, ns, options...)
}

// indexer makes indexes of a client in memory.
type indexer struct{ *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i indexer) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(o, field, extract)
	return nil
}

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

package resource

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/workflows/iocontext/store"
)

// Config configures a Reconciler.
type Config struct {
	apply.Access
	// Values keeps the values of units.
	Values store.Store
	// Rand is the source of random names. Default: crypto/rand.
	Rand io.Reader
}

// Reconciler keeps Resources. Create one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	store  store.Store
	// retried has the values of crdv1.AnnotationRetry, by the UID of the Resource, for which this process has
	// written the Secrets with outputs again.
	retried sync.Map
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	c.Rand = cmp.Or(c.Rand, rand.Reader)
	return &Reconciler{config: c, writer: c.Writer(), store: c.Values}
}

// Reconcile brings one Resource into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=resources,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=resources/status,verbs=patch
// +kubebuilder:rbac:groups=signadot.com,resources=resources/finalizers,verbs=update
func (r *Reconciler) Reconcile(ctx context.Context, o *crdv1.Resource) (time.Duration, error) {
	if o.DeletionTimestamp == nil {
		if err := r.writer.AddFinalizer(ctx, o); err != nil {
			return 0, err
		}
	}
	in, err := r.gather(ctx, o)
	if err != nil {
		return 0, err
	}
	if o.DeletionTimestamp != nil {
		return r.delete(ctx, in)
	}
	if in, err = r.methods(ctx, in); err != nil {
		return 0, err
	}
	var unwritten error
	in, in.Written, unwritten = r.outputs(ctx, in)
	if errors.Is(unwritten, errTaken) {
		in.Outputs = nil
	}
	err = errors.Join(unwritten, r.writer.Status(ctx, in.Resource, Conclude(in, metav1.NewTime(r.config.Now()))))
	if in.Refusal != nil || in.Written.IsFalse() && in.Written.Reason != crdv1.ReasonPending {
		return apply.RefusedAgain, err
	}
	return 0, err
}

// delete starts the units of postStop by deleting the object that runs them, and removes the finalizer of
// the Resource once that object is deleted.
func (r *Reconciler) delete(ctx context.Context, in Input) (time.Duration, error) {
	if in.Methods == nil {
		if err := r.unseen(ctx, &in); err != nil {
			return 0, err
		}
	}
	if in.Methods == nil {
		r.retried.Delete(in.Resource.UID)
		return 0, r.writer.RemoveFinalizer(ctx, in.Resource)
	}
	in, err := r.methods(ctx, in) // Copies annotations that users have set since.
	if err != nil {
		return 0, err
	}
	in.Written = condition.Unknown(ReasonDeleting, "The Secrets with the outputs go with the resource.")
	return 0, errors.Join(r.writer.Delete(ctx, in.Methods), r.writer.Status(ctx, in.Resource, Conclude(in, metav1.NewTime(r.config.Now()))))
}

// Gone deletes the object that runs the units of a Resource that is not in the cache.
func (r *Reconciler) Gone(ctx context.Context, name types.NamespacedName) error {
	_, err := r.writer.DeleteOrphans(ctx, apply.Maker{Kind: crdv1.KindResource, Name: name.Name}, "", &crdv1.SignadotObjectLifecycleMethodsList{})
	return err
}

// Watch adds a watch for the objects that run the units of Resources.
func (r *Reconciler) Watch(b *builder.Builder, _ ctrl.Manager) error {
	b.Owns(&crdv1.SignadotObjectLifecycleMethods{})
	return nil
}

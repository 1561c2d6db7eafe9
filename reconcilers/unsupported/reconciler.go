package unsupported

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
)

// New returns the controller that writes the status of the objects of the kind.
func New(access apply.Access, kind Kind) controller.Controller {
	return controller.With(access.Client, kind.New, reconciler{access, kind})
}

// reconciler writes the status of the objects of one Kind.
type reconciler struct {
	access apply.Access
	kind   Kind
}

// Reconcile writes the status of one object.
//
// +kubebuilder:rbac:groups=signadot.com,resources=jobs;jobrunnergroups;resources;signadotobjectlifecyclemethods,verbs=get;list;watch
// +kubebuilder:rbac:groups=signadot.com,resources=jobs/status;jobrunnergroups/status;resources/status;signadotobjectlifecyclemethods/status,verbs=patch
func (r reconciler) Reconcile(ctx context.Context, o crdv1.Object) (time.Duration, error) {
	return 0, r.access.Writer().Status(ctx, o, r.kind.Conclude(o, metav1.NewTime(r.access.Now())))
}

// Gone does nothing: no objects are created for such an object.
func (reconciler) Gone(context.Context, types.NamespacedName) error { return nil }

// Watch adds nothing.
func (reconciler) Watch(*builder.Builder, ctrl.Manager) error { return nil }

// Kind is a kind of objects that is not acted on. Its values come from Kinds.
type Kind struct {
	// Name is the kind as objects give it.
	Name string
	// New returns an empty object of the kind.
	New func() crdv1.Object
	// conclude returns the object with its status.
	conclude func(o crdv1.Object, now metav1.Time) crdv1.Object
}

// Kinds returns the kinds on which this version does not act, and those with pods of the operator's: an
// installation without images for these pods does not act on them.
func Kinds() []Kind {
	const (
		upgrade = "Upgrade it with the operator's chart, which sets IO_INIT_IMAGE and IO_SIDECAR_IMAGE, or have another program provide it."
		runners = "Upgrade it with the operator's chart, which sets JOB_EXECUTOR_INIT_IMAGE and JOB_EXECUTOR_PROXY_IMAGE."
	)
	return []Kind{
		kind(crdv1.KindJob, "this installation does not run jobs", runners,
			func(o *crdv1.Job) *int64 { return &o.Status.ObservedGeneration }),
		kind(crdv1.KindJobRunnerGroup, "this installation does not start job runners", runners,
			func(o *crdv1.JobRunnerGroup) *int64 { return &o.Status.ObservedGeneration }),
		kind(crdv1.KindResource, "this installation does not run the steps of resource plugins", upgrade,
			func(o *crdv1.Resource) *int64 { return &o.Status.ObservedGeneration }),
		kind(crdv1.KindLifecycleMethods, "this installation does not run the units of lifecycle methods", upgrade,
			func(o *crdv1.SignadotObjectLifecycleMethods) *int64 { return &o.Status.ObservedGeneration }),
	}
}

// kind returns a Kind: lacks names the missing function, advice is a sentence with the remedy for the
// author of an object, and observed returns a pointer to its status.observedGeneration.
func kind[T any, P interface {
	*T
	crdv1.Object
	DeepCopy() *T
}](name, lacks, advice string, observed func(*T) *int64) Kind {
	return Kind{
		Name: name,
		New:  func() crdv1.Object { return P(new(T)) },
		conclude: func(o crdv1.Object, now metav1.Time) crdv1.Object {
			have, ok := o.(P)
			if !ok {
				return o
			}
			after := have.DeepCopy()
			*observed(after) = have.GetGeneration()
			write(P(after), "Nothing acts on "+name+" "+place(o)+": "+lacks+". "+advice, now)
			return P(after)
		},
	}
}

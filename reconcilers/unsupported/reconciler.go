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

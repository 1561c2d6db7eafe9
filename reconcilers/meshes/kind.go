package meshes

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// Reports returns the reports of MeshRoutes of a kind, and requeues those with changed reports. The
// adapter of the mesh implements it.
type Reports[M any] interface {
	// Report returns the Report of a Target.
	Report(t Target) Report[M]
	// Settled reports whether the operator's objects have no route for a routing key.
	Settled(key string) bool
}

// Kind is a controller.Kind that writes the status of MeshRoutes of type O.
type Kind[O crdv1.MeshRoute, M any] struct {
	apply.Access
	// Reports is nil while no adapter acts on the kind.
	Reports Reports[M]
	// Conclude returns a copy of a MeshRoute with its status; the object itself if the status does not
	// change. known is its Report, nil if no adapter acts on it. now is the transition time of conditions
	// that change.
	Conclude func(o O, known *Report[M], now metav1.Time) O
}

// Reconcile writes the status of one MeshRoute.
func (k Kind[O, M]) Reconcile(ctx context.Context, o O) (time.Duration, error) {
	var known *Report[M]
	if k.Reports != nil {
		known = new(k.Reports.Report(TargetOf(o)))
	}
	return 0, k.Writer().Status(ctx, o, k.Conclude(o, known, metav1.NewTime(k.Now())))
}

// Gone ends nothing: the routes are those of the routing log, and are removed with its facts.
func (Kind[O, M]) Gone(context.Context, types.NamespacedName) error { return nil }

// Watch adds no watches: changed reports requeue the object.
func (Kind[O, M]) Watch(*builder.Builder, ctrl.Manager) error { return nil }

package istioroute

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/istioadapter"
)

// Reports returns the reports of IstioRoutes, and requeues those with changed reports.
// *istioadapter.Adapter implements it.
type Reports interface {
	// Report returns the Report of a Target.
	Report(t istioadapter.Target) istioadapter.Report
	// Settled reports whether no VirtualService has a route for a routing key.
	Settled(key string) bool
}

// Config has the dependencies of a Reconciler.
type Config struct {
	apply.Access
	// Reports is nil while istio.enabled is false.
	Reports Reports
}

// Reconciler writes the status of IstioRoutes. Create one with New.
type Reconciler struct{ config Config }

// New returns a Reconciler.
func New(c Config) *Reconciler { return &Reconciler{c} }

// Reconcile writes the status of one IstioRoute.
//
// +kubebuilder:rbac:groups=signadot.com,resources=istioroutes,verbs=get;list;watch
// +kubebuilder:rbac:groups=signadot.com,resources=istioroutes/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, o *crdv1.IstioRoute) (time.Duration, error) {
	var known *istioadapter.Report
	if r.config.Reports != nil {
		report := r.config.Reports.Report(meshes.TargetOf(o))
		known = &report
	}
	return 0, r.config.Writer().Status(ctx, o, Conclude(o, known, metav1.NewTime(r.config.Now())))
}

// Gone ends nothing: the routes are those of the routing log, and go with its facts.
func (*Reconciler) Gone(context.Context, types.NamespacedName) error { return nil }

// Watch adds no watches: changed reports requeue the object.
func (*Reconciler) Watch(*builder.Builder, ctrl.Manager) error { return nil }

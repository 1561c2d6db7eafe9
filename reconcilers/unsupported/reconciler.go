package unsupported

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/publish"
)

// Reconciler writes the status of the objects of one Kind. Make one with New.
type Reconciler struct {
	access apply.Access
	kind   Kind
}

// New returns a Reconciler for the kind, or what is missing in access.
func New(access apply.Access, kind Kind) (*Reconciler, error) {
	if err := access.Validate(); err != nil {
		return nil, fmt.Errorf("unsupported: %w", err)
	}
	return &Reconciler{access: access, kind: kind}, nil
}

// Reconcile writes the status of one object.
//
// +kubebuilder:rbac:groups=signadot.com,resources=jobs;jobrunnergroups;resources;signadotobjectlifecyclemethods;istioroutes,verbs=get;list;watch
// +kubebuilder:rbac:groups=signadot.com,resources=jobs/status;jobrunnergroups/status;resources/status;signadotobjectlifecyclemethods/status;istioroutes/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	o := r.kind.New()
	if err := r.access.Client.Get(ctx, req.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	after := r.kind.Conclude(o, metav1.NewTime(r.access.Now()))
	return apply.Again(r.access.Writer().Status(ctx, o, after))
}

// Setup makes the controller part of the manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, _ publish.Again, o controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("unsupported-" + strings.ToLower(r.kind.Name)).
		WithOptions(o).
		For(r.kind.New()).
		Complete(r)
}

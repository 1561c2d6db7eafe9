package externalworkload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/publish"
)

// Setup makes the controller part of the manager. again brings objects that are to be
// looked at although they have not changed.
func (r *Reconciler) Setup(mgr ctrl.Manager, again publish.Again, o controller.Options) error {
	members := baseline.Members{
		Client: mgr.GetClient(), List: func() client.ObjectList { return &crdv1.SignadotExternalWorkloadList{} },
	}
	b := baseline.Watch(ctrl.NewControllerManagedBy(mgr), members).
		Named("externalworkload").
		WithOptions(o).
		// Its status, too: that is where we are told of the tunnel.
		For(&crdv1.SignadotExternalWorkload{}).
		Owns(&corev1.Service{}).
		Owns(&discoveryv1.EndpointSlice{}).
		WatchesRawSource(source.Channel(again, &handler.EnqueueRequestForObject{}))
	if r.config.Limits.WriteEndpoints {
		b = b.Owns(&oldEndpoints{})
	} else if err := mgr.Add(manager.RunnableFunc(r.clearEndpoints)); err != nil {
		return fmt.Errorf("add what deletes former endpoints: %w", err)
	}
	return b.Complete(r)
}

package virtualworkload

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
)

// Watch adds watches for the baselines.
func (r *Reconciler) Watch(b *builder.Builder, _ ctrl.Manager) error {
	baseline.Watch(b, baseline.Members{Client: r.config.Client, List: func() client.ObjectList { return &crdv1.VirtualWorkloadList{} }})
	return nil
}

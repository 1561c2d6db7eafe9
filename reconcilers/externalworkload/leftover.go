package externalworkload

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// clearEndpoints deletes the v1 Endpoints that were created while Limits.WriteEndpoints was set: they are
// no longer updated and would forward to a previous end of a tunnel. A leader calls it when it starts. It
// reads past the cache, which has no Endpoints, and retries until ctx ends.
func (r *Reconciler) clearEndpoints(ctx context.Context) error {
	for {
		err := r.deleteEndpoints(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		ctrl.LoggerFrom(ctx).Error(err, "Endpoints of former tunnels cannot be deleted")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(apply.RefusedAgain):
		}
	}
}

// deleteEndpoints deletes all Endpoints that external workloads made, once.
//
// +kubebuilder:rbac:groups="",resources=endpoints,verbs=list;delete
func (r *Reconciler) deleteEndpoints(ctx context.Context) error {
	namespaces := r.config.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var errs []error
	for _, namespace := range namespaces {
		var left metav1.PartialObjectMetadataList
		left.SetGroupVersionKind(oldEndpointsKind().GroupVersion().WithKind("EndpointsList"))
		err := r.config.Live.List(ctx, &left, client.InNamespace(namespace), client.HasLabels{crdv1.LabelExternalWorkload})
		if err != nil {
			errs = append(errs, fmt.Errorf("list the Endpoints of external workloads: %w", err))
		}
		for i := range left.Items {
			o := &left.Items[i]
			o.SetGroupVersionKind(oldEndpointsKind())
			if maker := metav1.GetControllerOfNoCopy(o); maker != nil && maker.APIVersion == crdv1.APIVersion && maker.Kind == crdv1.KindExternalWorkload {
				errs = append(errs, r.Writer.Delete(ctx, o))
			}
		}
	}
	return errors.Join(errs...)
}

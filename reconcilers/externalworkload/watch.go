package externalworkload

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/controller"
)

// indexHolder finds external workloads by the pod that their status names as the end of
// the tunnel.
const indexHolder = "status.tunnel.info.tunnelProxyPodName"

// Index adds the index with which this package finds external workloads.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &crdv1.SignadotExternalWorkload{}, indexHolder, byHolderName)
}

// byHolderName returns the name of the pod that holds the tunnel of an external workload.
func byHolderName(o client.Object) []string {
	w, ok := o.(*crdv1.SignadotExternalWorkload)
	if !ok || w.Status.Tunnel == nil || w.Status.Tunnel.Info == nil || w.Status.Tunnel.Info.TunnelProxyPodName == "" {
		return nil
	}
	return []string{w.Status.Tunnel.Info.TunnelProxyPodName}
}

// byHolder maps a pod to the external workloads with a tunnel that it may hold: those in its namespace,
// and for a pod in the operator's namespace those in all namespaces.
func (r *Reconciler) byHolder(ctx context.Context, pod client.Object) []reconcile.Request {
	options := []client.ListOption{client.MatchingFields{indexHolder: pod.GetName()}}
	if pod.GetNamespace() != r.proxies() {
		options = append(options, client.InNamespace(pod.GetNamespace()))
	}
	return controller.Requests(ctx, r.config.Client, &crdv1.SignadotExternalWorkloadList{}, options...)
}

// holderChanged filters out updates of a pod that change neither whether it is allowed to hold a tunnel
// nor its addresses.
func holderChanged(before, after client.Object) bool {
	b, okB := before.(*corev1.Pod)
	a, okA := after.(*corev1.Pod)
	return !okA || !okB || b.UID != a.UID || b.Status.Phase != a.Status.Phase ||
		!slices.Equal(b.Status.PodIPs, a.Status.PodIPs) || !maps.Equal(b.Labels, a.Labels)
}

// Watch adds watches for baselines, for Services and endpoints of tunnels, and for the pods at their ends.
func (r *Reconciler) Watch(b *builder.Builder, mgr ctrl.Manager) error {
	baseline.Watch(b, baseline.Members{Client: mgr.GetClient(), List: func() client.ObjectList { return &crdv1.SignadotExternalWorkloadList{} }}).
		Owns(&corev1.Service{}).
		Owns(&discoveryv1.EndpointSlice{}).
		Watches(&corev1.Pod{}, controller.Enqueue(r.byHolder), builder.WithPredicates(controller.Updates(holderChanged)))
	if r.config.Limits.WriteEndpoints {
		b.Owns(&oldEndpoints{})
	} else if err := mgr.Add(manager.RunnableFunc(r.clearEndpoints)); err != nil {
		return fmt.Errorf("add what deletes former endpoints: %w", err)
	}
	return nil
}

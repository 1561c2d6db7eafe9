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
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/guard"
	"switchyard.dev/reconcilers/publish"
)

// indexHolder finds external workloads by the pod that their status names as the end of
// the tunnel.
const indexHolder = "status.tunnel.info.tunnelProxyPodName"

// Index makes the index that this package finds external workloads by.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &crdv1.SignadotExternalWorkload{}, indexHolder, byHolderName)
	if err != nil {
		return fmt.Errorf("make the index of pods that hold tunnels: %w", err)
	}
	return nil
}

// byHolderName returns the name of the pod that holds the tunnel of an external workload.
func byHolderName(o client.Object) []string {
	w, ok := o.(*crdv1.SignadotExternalWorkload)
	if !ok || w.Status.Tunnel == nil || w.Status.Tunnel.Info == nil || w.Status.Tunnel.Info.TunnelProxyPodName == "" {
		return nil
	}
	return []string{w.Status.Tunnel.Info.TunnelProxyPodName}
}

// byHolder leads from a pod to the external workloads whose tunnel it may hold: those of
// its namespace, and from one of the operator's namespace to all.
func (r *Reconciler) byHolder(ctx context.Context, pod client.Object) []reconcile.Request {
	options := []client.ListOption{client.MatchingFields{indexHolder: pod.GetName()}}
	if pod.GetNamespace() != r.proxies() {
		options = append(options, client.InNamespace(pod.GetNamespace()))
	}
	return guard.Requests(ctx, r.config.Client, &crdv1.SignadotExternalWorkloadList{}, options...)
}

// holderChanged passes over changes of a pod that do not touch whether it may hold a
// tunnel, or at which address.
func holderChanged(before, after client.Object) bool {
	b, okB := before.(*corev1.Pod)
	a, okA := after.(*corev1.Pod)
	return !okA || !okB || b.UID != a.UID || b.Status.Phase != a.Status.Phase ||
		!slices.Equal(b.Status.PodIPs, a.Status.PodIPs) || !maps.Equal(b.Labels, a.Labels)
}

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
		Watches(&corev1.Pod{}, guard.Enqueue(r.byHolder), builder.WithPredicates(guard.Updates(holderChanged))).
		WatchesRawSource(source.Channel(again, &handler.EnqueueRequestForObject{}))
	if r.config.Limits.WriteEndpoints {
		b = b.Owns(&oldEndpoints{})
	} else if err := mgr.Add(manager.RunnableFunc(r.clearEndpoints)); err != nil {
		return fmt.Errorf("add what deletes former endpoints: %w", err)
	}
	return b.Complete(r)
}

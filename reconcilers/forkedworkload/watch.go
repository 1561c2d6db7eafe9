package forkedworkload

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/guard"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/sidecars/coverage"
)

// Indexes that gather and the map functions read, beside apply.IndexOwner. With
// them a look at one fork costs the same however many there are.
const (
	// indexBaseline finds ForkedWorkloads by the name of their baseline.
	indexBaseline = "spec.baseline.name"
	// indexNotOfFork finds the Services that are not of a fork.
	indexNotOfFork = "notOfFork"
)

// Index makes the indexes that a Reconciler reads by.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := errors.Join(
		indexer.IndexField(ctx, &crdv1.ForkedWorkload{}, indexBaseline, func(o client.Object) []string {
			w, ok := o.(*crdv1.ForkedWorkload)
			if !ok || w.Spec.Baseline.Name == "" {
				return nil
			}
			return []string{w.Spec.Baseline.Name}
		}),
		indexer.IndexField(ctx, &corev1.Service{}, indexNotOfFork, func(o client.Object) []string {
			return []string{strconv.FormatBool(o.GetLabels()[crdv1.LabelForkedWorkload] == "")}
		}),
		indexer.IndexField(ctx, &corev1.Service{}, apply.IndexOwner, apply.OwnerOf),
		indexer.IndexField(ctx, &appsv1.Deployment{}, apply.IndexOwner, apply.OwnerOf),
	)
	if err != nil {
		return fmt.Errorf("make the indexes of forks: %w", err)
	}
	return nil
}

// Setup makes the controller part of the manager. again brings objects that are
// to be looked at although they have not changed.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager, again publish.Again, o controller.Options) error {
	if err := Index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("forkedworkload").
		WithOptions(o).
		// Its status, too: what was decided while our last write was not yet in the cache
		// may have found nothing to write, and is decided again when it is there.
		For(&crdv1.ForkedWorkload{}).
		Owns(&appsv1.Deployment{}, builder.WithPredicates(guard.Updates(deploymentChanged))).
		Owns(&corev1.Service{}).
		Watches(&appsv1.Deployment{}, r.enqueue(r.byDeployment), builder.WithPredicates(guard.Updates(guard.SpecChanged))).
		Watches(&corev1.Service{}, r.enqueue(r.byService), builder.WithPredicates(guard.Updates(serviceChanged))).
		Watches(&corev1.Pod{}, r.enqueue(r.byPod), builder.WithPredicates(guard.Updates(podChanged))).
		WatchesRawSource(source.Channel(again, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// enqueue makes a handler of a map function.
func (r *Reconciler) enqueue(f handler.MapFunc) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(guard.MapFunc(f))
}

// byDeployment leads from a baseline to its ForkedWorkloads.
func (r *Reconciler) byDeployment(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetLabels()[crdv1.LabelForkedWorkload] != "" {
		return nil // A fork; its owner is told.
	}
	return r.list(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{indexBaseline: o.GetName()})
}

// byService leads from a Service to the ForkedWorkloads of its namespace: it
// may have begun or ceased to select any baseline.
func (r *Reconciler) byService(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetLabels()[crdv1.LabelForkedWorkload] != "" {
		return nil
	}
	return r.list(ctx, client.InNamespace(o.GetNamespace()))
}

// byPod leads from a pod of a baseline to its ForkedWorkloads. A pod of a
// Deployment belongs to a ReplicaSet, whose name is that of the Deployment and
// a hash that the pod has as a label.
func (r *Reconciler) byPod(ctx context.Context, o client.Object) []reconcile.Request {
	owner := metav1.GetControllerOfNoCopy(o)
	hash := o.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]
	if owner == nil || owner.Kind != "ReplicaSet" || hash == "" || o.GetLabels()[crdv1.LabelForkedWorkload] != "" {
		return nil
	}
	name, ok := strings.CutSuffix(owner.Name, "-"+hash)
	if !ok {
		return nil
	}
	return r.list(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{indexBaseline: name})
}

// list gives requests for the ForkedWorkloads that the options select.
func (r *Reconciler) list(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var list crdv1.ForkedWorkloadList
	if err := r.config.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find the ForkedWorkloads that an event is about")
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// deploymentChanged passes over changes of a fork that nobody here reads.
func deploymentChanged(before, after client.Object) bool {
	b, okB := before.(*appsv1.Deployment)
	a, okA := after.(*appsv1.Deployment)
	return !okA || !okB || guard.SpecChanged(before, after) || !equality.Semantic.DeepEqual(b.Status, a.Status)
}

// serviceChanged passes over changes of a Service's status.
func serviceChanged(before, after client.Object) bool {
	b, okB := before.(*corev1.Service)
	a, okA := after.(*corev1.Service)
	return !okA || !okB || guard.SpecChanged(before, after) || !equality.Semantic.DeepEqual(b.Spec, a.Spec)
}

// podChanged passes over changes of a pod that do not touch its sidecar.
func podChanged(before, after client.Object) bool {
	b, okB := before.(*corev1.Pod)
	a, okA := after.(*corev1.Pod)
	if !okA || !okB {
		return true
	}
	return coverage.PodOf(b) != coverage.PodOf(a) || counts(b) != counts(a) ||
		!equality.Semantic.DeepEqual(b.Labels, a.Labels)
}

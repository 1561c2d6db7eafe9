package baseline

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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/guard"
	"switchyard.dev/sidecars/coverage"
)

// Indexes with which a look at one member costs the same however many there are.
const (
	// indexBaseline finds members by the name of their baseline.
	indexBaseline = "spec.baseline.name"
	// indexNotOfMember finds the Services that were not made for a member.
	indexNotOfMember = "notOfMember"
)

// Index makes the indexes that this package reads by, for members of all kinds.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	errs := []error{indexer.IndexField(ctx, &corev1.Service{}, indexNotOfMember, func(o client.Object) []string {
		return []string{strconv.FormatBool(!madeForMember(o))}
	})}
	for _, kind := range crdv1.MemberKinds() {
		member, _ := crdv1.NewMember(kind)
		errs = append(errs, indexer.IndexField(ctx, member, indexBaseline, byName))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("make the indexes of baselines: %w", err)
	}
	return nil
}

// byName gives the name of the baseline of a member.
func byName(o client.Object) []string {
	m, ok := o.(crdv1.Member)
	if !ok {
		return nil
	}
	if ref, ok := m.BaselineRef(); ok && ref.Name != "" {
		return []string{ref.Name}
	}
	return nil
}

// madeForMember says whether an object was made for a member.
func madeForMember(o client.Object) bool {
	labels := o.GetLabels()
	return labels[crdv1.LabelForkedWorkload] != "" || labels[crdv1.LabelExternalWorkload] != ""
}

// Members finds the members of one kind that an event about a baseline, a pod or a
// Service concerns.
type Members struct {
	// Client reads members from the cache.
	Client client.Reader
	// List makes an empty list of the kind.
	List func() client.ObjectList
}

// Watch makes a controller of members be told of what becomes of their baselines.
func Watch(b *builder.Builder, m Members) *builder.Builder {
	return b.
		Watches(&appsv1.Deployment{}, enqueue(m.byWorkload), builder.WithPredicates(guard.Updates(guard.SpecChanged))).
		Watches(&corev1.Service{}, enqueue(m.byService), builder.WithPredicates(guard.Updates(serviceChanged))).
		Watches(&corev1.Pod{}, enqueue(m.byPod), builder.WithPredicates(guard.Updates(podChanged)))
}

// enqueue makes a handler of a map function.
func enqueue(f handler.MapFunc) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(guard.MapFunc(f))
}

// byWorkload leads from a baseline to its members.
func (m Members) byWorkload(ctx context.Context, o client.Object) []reconcile.Request {
	if madeForMember(o) {
		return nil // A fork; its owner is told.
	}
	return m.find(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{indexBaseline: o.GetName()})
}

// byService leads from a Service to the members of its namespace: it may have
// begun or ceased to select any baseline.
func (m Members) byService(ctx context.Context, o client.Object) []reconcile.Request {
	if madeForMember(o) {
		return nil
	}
	return m.find(ctx, client.InNamespace(o.GetNamespace()))
}

// byPod leads from a pod of a baseline to its members. A pod of a Deployment
// belongs to a ReplicaSet, whose name is that of the Deployment and a hash that the
// pod has as a label.
func (m Members) byPod(ctx context.Context, o client.Object) []reconcile.Request {
	owner := metav1.GetControllerOfNoCopy(o)
	hash := o.GetLabels()[appsv1.DefaultDeploymentUniqueLabelKey]
	if owner == nil || owner.Kind != "ReplicaSet" || hash == "" || madeForMember(o) {
		return nil
	}
	name, ok := strings.CutSuffix(owner.Name, "-"+hash)
	if !ok {
		return nil
	}
	return m.find(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{indexBaseline: name})
}

// find gives requests for the members that the options select.
func (m Members) find(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	list := m.List()
	if err := m.Client.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find the members that an event is about")
		return nil
	}
	return requests(list)
}

// requests gives a request for each object of a list.
func requests(list client.ObjectList) []reconcile.Request {
	var out []reconcile.Request
	add := func(o client.Object) {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	}
	switch l := list.(type) {
	case *crdv1.ForkedWorkloadList:
		for i := range l.Items {
			add(&l.Items[i])
		}
	case *crdv1.SignadotExternalWorkloadList:
		for i := range l.Items {
			add(&l.Items[i])
		}
	case *crdv1.VirtualWorkloadList:
		for i := range l.Items {
			add(&l.Items[i])
		}
	}
	return out
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

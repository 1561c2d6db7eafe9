package baseline

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/sidecars/coverage"
	"switchyard.dev/sidecars/inject"
)

// Indexes that keep the cost of reconciling one member independent of the number of members.
const (
	// indexBaseline finds members by the name of their baseline, indexKind by its kind.
	indexBaseline = "spec.baseline.name"
	indexKind     = "spec.baseline.kind"
	// indexNotOfMember finds the Services and Deployments that were not created for a member.
	indexNotOfMember = "notOfMember"
	// IndexReferred finds Rollouts by the Deployment that they take their pods from.
	IndexReferred = "spec.workloadRef.name"
)

// Index adds the indexes that this package uses, for members of all kinds.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	notOfMember := func(o client.Object) []string { return []string{strconv.FormatBool(!madeForMember(o))} }
	errs := []error{
		indexer.IndexField(ctx, &corev1.Service{}, indexNotOfMember, notOfMember),
		indexer.IndexField(ctx, &appsv1.Deployment{}, indexNotOfMember, notOfMember),
		indexer.IndexField(ctx, &discoveryv1.EndpointSlice{}, indexService, byServiceName),
	}
	byName := byBaseline(func(ref crdv1.ObjectRef) string { return ref.Name })
	byKind := byBaseline(func(ref crdv1.ObjectRef) string { return ref.Kind })
	for _, kind := range crdv1.MemberKinds() {
		errs = append(errs, indexer.IndexField(ctx, kind.New(), indexBaseline, byName), indexer.IndexField(ctx, kind.New(), indexKind, byKind))
	}
	return errors.Join(errs...)
}

// byBaseline returns the index function of members by a part of the reference to their baseline.
func byBaseline(part func(crdv1.ObjectRef) string) client.IndexerFunc {
	return func(o client.Object) []string {
		if m, ok := o.(crdv1.Member); ok {
			if ref, ok := m.BaselineRef(); ok && part(ref) != "" {
				return []string{part(ref)}
			}
		}
		return nil
	}
}

// ByReferred returns the Deployment from which a Rollout takes its pod template. It is the function of
// IndexReferred.
func ByReferred(o client.Object) []string {
	if u, ok := o.(*unstructured.Unstructured); ok {
		if name, ok := ReferredDeployment(u); ok {
			return []string{name}
		}
	}
	return nil
}

// madeForMember reports whether an object was created for a member.
func madeForMember(o client.Object) bool {
	labels := o.GetLabels()
	return labels[crdv1.LabelForkedWorkload] != "" || labels[crdv1.LabelExternalWorkload] != "" || labels[crdv1.LabelVirtualWorkload] != ""
}

// Members finds the members of one kind that an event about a baseline, a pod or a
// Service concerns.
type Members struct {
	// Client reads members and workloads from the cache. When it is a RolloutSource,
	// Rollouts are watched as well.
	Client client.Reader
	// List returns an empty list of the kind.
	List func() client.ObjectList
}

// RolloutSource is a source of events of Rollouts while the cluster has that kind. When the kind is
// installed or removed it sends an event of a Rollout without a name. Package optional implements it.
type RolloutSource interface {
	Source(kind schema.GroupKind, h handler.EventHandler, predicates ...predicate.Predicate) source.Source
}

// Watch adds watches for the baselines of members. An event enqueues only the members of the baseline that
// it concerns; changes of fields that are not read enqueue none.
func Watch(b *builder.Builder, m Members) *builder.Builder {
	if rollouts, ok := m.Client.(RolloutSource); ok {
		b = b.WatchesRawSource(rollouts.Source(RolloutKind().GroupKind(), controller.Enqueue(m.byRollout), controller.Updates(workloadChanged))).
			WatchesRawSource(rollouts.Source(RolloutKind().GroupKind(), controller.Enqueue(m.byNeighbour), controller.Updates(selectionChanged)))
	}
	if pods, ok := m.Client.(PodSource); ok {
		b = b.WatchesRawSource(pods.PodEvents(controller.Enqueue(m.byPod), controller.Updates(podChanged)))
	} else {
		b = b.Watches(&corev1.Pod{}, controller.Enqueue(m.byPod), builder.WithPredicates(controller.Updates(podChanged)))
	}
	return b.
		Watches(&appsv1.Deployment{}, controller.Enqueue(m.byDeployment), builder.WithPredicates(controller.Updates(workloadChanged))).
		Watches(&appsv1.Deployment{}, controller.Enqueue(m.byNeighbour), builder.WithPredicates(controller.Updates(selectionChanged))).
		Watches(&corev1.Service{}, controller.Enqueue(m.byService), builder.WithPredicates(controller.Updates(serviceChanged))).
		Watches(&discoveryv1.EndpointSlice{}, controller.Enqueue(m.bySlice), builder.WithPredicates(controller.Updates(sliceChanged)))
}

// byDeployment maps a baseline to its members, including those of Rollouts that take their pods from it.
func (m Members) byDeployment(ctx context.Context, o client.Object) []reconcile.Request {
	if madeForMember(o) {
		return nil // A fork; its owner is enqueued.
	}
	out := m.named(ctx, o.GetNamespace(), o.GetName())
	if _, ok := m.Client.(RolloutSource); !ok {
		return out
	}
	rollouts := NewRolloutList()
	m.list(ctx, rollouts, client.InNamespace(o.GetNamespace()), client.MatchingFields{IndexReferred: o.GetName()})
	for i := range rollouts.Items {
		out = append(out, m.named(ctx, o.GetNamespace(), rollouts.Items[i].GetName())...)
	}
	return out
}

// byRollout maps a Rollout to its members, and the kind to all members of Rollouts.
func (m Members) byRollout(ctx context.Context, o client.Object) []reconcile.Request {
	switch {
	case o.GetName() == "":
		return m.find(ctx, client.MatchingFields{indexKind: KindRollout})
	case madeForMember(o):
		return nil
	}
	out := m.named(ctx, o.GetNamespace(), o.GetName())
	for _, deployment := range ByReferred(o) { // Whether that has pods of its own changes with the Rollout.
		if deployment != o.GetName() {
			out = append(out, m.named(ctx, o.GetNamespace(), deployment)...)
		}
	}
	return out
}

// byNeighbour returns the members of baselines that share a Service with this workload: the Services in
// the status of a member depend on the other workloads (Reach).
func (m Members) byNeighbour(ctx context.Context, o client.Object) []reconcile.Request {
	if o.GetName() == "" || madeForMember(o) || len(m.find(ctx, client.InNamespace(o.GetNamespace()), client.Limit(1))) == 0 {
		return nil
	}
	var services corev1.ServiceList
	m.list(ctx, &services, client.InNamespace(o.GetNamespace()), client.MatchingFields{indexNotOfMember: "true"})
	var out []reconcile.Request
	for i := range services.Items {
		if s := &services.Items[i]; ledTo(s)(labelsOfNew(o)) {
			out = append(out, m.byService(ctx, s)...)
		}
	}
	return out
}

// selectionChanged filters out updates of a workload that do not change whether Services select its pods.
func selectionChanged(before, after client.Object) bool {
	return hasPods(before) != hasPods(after) || before.GetUID() != after.GetUID() || !maps.Equal(labelsOfNew(before), labelsOfNew(after))
}

// byService maps a Service to the members of the baselines that it selects, in any of their forms (Forms).
// It is called for both the old and the new Service of an update.
func (m Members) byService(ctx context.Context, o client.Object) []reconcile.Request {
	s, ok := o.(*corev1.Service)
	if !ok || madeForMember(o) {
		return nil
	}
	seen := map[reconcile.Request]bool{}
	var out []reconcile.Request
	if withoutSelector(s) {
		out = m.byEndpoints(ctx, s)
	} else {
		leads := ledTo(s)
		out = append(m.byWorkloads(ctx, s.Namespace, func(w client.Object) bool { return leads(labelsOfNew(w)) }),
			m.byPods(ctx, s.Namespace, func(p *corev1.Pod) bool { return leads(p.Labels) })...)
	}
	return slices.DeleteFunc(out, func(r reconcile.Request) bool {
		again := seen[r]
		seen[r] = true
		return again
	})
}

// byWorkloads returns requests for the members of the baselines that about accepts.
func (m Members) byWorkloads(ctx context.Context, namespace string, about func(workload client.Object) bool) []reconcile.Request {
	var out []reconcile.Request
	var deployments appsv1.DeploymentList
	m.list(ctx, &deployments, client.InNamespace(namespace), client.MatchingFields{indexNotOfMember: "true"})
	for i := range deployments.Items {
		if d := &deployments.Items[i]; about(d) {
			out = append(out, m.byDeployment(ctx, d)...)
		}
	}
	if _, ok := m.Client.(RolloutSource); !ok {
		return out
	}
	rollouts := NewRolloutList()
	m.list(ctx, rollouts, client.InNamespace(namespace))
	for i := range rollouts.Items {
		if u := &rollouts.Items[i]; !madeForMember(u) && about(u) {
			out = append(out, m.named(ctx, namespace, u.GetName())...)
		}
	}
	return out
}

// labelsOfNew returns the labels of new pods of a workload.
func labelsOfNew(workload client.Object) map[string]string {
	switch o := workload.(type) {
	case *appsv1.Deployment:
		return o.Spec.Template.Labels
	case *unstructured.Unstructured:
		labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
		return labels
	}
	return nil
}

// byEndpoints maps a Service without a selector to the members of the baselines with pods in its
// EndpointSlices.
func (m Members) byEndpoints(ctx context.Context, s *corev1.Service) []reconcile.Request {
	all, err := slicesOf(ctx, m.Client, s)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find what an event is about")
	}
	var out []reconcile.Request
	for i := range all {
		out = append(out, m.bySlice(ctx, &all[i])...)
	}
	return out
}

// bySlice maps an EndpointSlice to the members of the baselines with pods in it. An endpoint that is none
// of the pods with the injector's label can be a pod of any baseline that has more pods than those, and of
// no other. Only pods with the label can rule that out, since they are watched: data of the others is from
// the last list, perhaps from before they had an IP.
func (m Members) bySlice(ctx context.Context, o client.Object) []reconcile.Request {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok || madeForMember(o) {
		return nil
	}
	out := m.byPods(ctx, s.Namespace, func(p *corev1.Pod) bool { return namesPod(s, p) })
	if _, some := m.Client.(PodSource); !some {
		return out
	}
	watched := slices.DeleteFunc(m.pods(ctx, s.Namespace), func(p corev1.Pod) bool { return p.Labels[crdv1.LabelInjected] == "" })
	if allAmong(s, watched) {
		return out
	}
	held := heldOf(watched)
	return append(out, m.byWorkloads(ctx, s.Namespace, func(w client.Object) bool {
		_, deployment := w.(*appsv1.Deployment)
		return podsCounted(w).all > held[maker{w.GetName(), !deployment}]
	})...)
}

// maker is the workload of a pod, as derived from the pod: a Rollout can have the name of a Deployment.
type maker struct {
	name    string
	rollout bool
}

// heldOf counts the pods of each workload as the workload counts them in its status.
func heldOf(pods []corev1.Pod) map[maker]int64 {
	out := map[maker]int64{}
	for i := range pods {
		if p := &pods[i]; p.DeletionTimestamp == nil && takesRequests(p) {
			out[maker{workloadOf(p), p.Labels[inject.RolloutHash] != ""}]++
		}
	}
	return out
}

// allAmong reports whether every endpoint of a slice is one of these pods.
func allAmong(s *discoveryv1.EndpointSlice, pods []corev1.Pod) bool {
	for i := range s.Endpoints {
		one := &discoveryv1.EndpointSlice{ObjectMeta: s.ObjectMeta, Endpoints: s.Endpoints[i : i+1]}
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return namesPod(one, &p) }) {
			return false
		}
	}
	return true
}

// byPods returns requests for the members of the baselines with pods to which a Service forwards. During a
// rollout of a baseline, some of its pods do not match its current template.
func (m Members) byPods(ctx context.Context, namespace string, leads func(*corev1.Pod) bool) []reconcile.Request {
	var out []reconcile.Request
	pods := m.pods(ctx, namespace)
	asked := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		if name := workloadOf(p); !asked[name] && !madeForMember(p) && leads(p) {
			asked[name] = true
			out = append(out, m.byPod(ctx, p)...)
		}
	}
	return out
}

// pods returns those pods of a namespace that are in memory.
func (m Members) pods(ctx context.Context, namespace string) []corev1.Pod {
	source, ok := m.Client.(PodSource)
	if !ok {
		var pods corev1.PodList
		m.list(ctx, &pods, client.InNamespace(namespace))
		return pods.Items
	}
	held, err := source.PodsHeld(ctx, namespace)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find what an event is about")
	}
	return held
}

// byPod maps a pod of a baseline to its members.
func (m Members) byPod(ctx context.Context, o client.Object) []reconcile.Request {
	if name := workloadOf(o); name != "" && !madeForMember(o) {
		return m.named(ctx, o.GetNamespace(), name)
	}
	return nil
}

// workloadOf names the workload of a pod; empty when it has none.
func workloadOf(pod client.Object) string {
	w, _ := inject.OwnerOf(pod, pod.GetNamespace())
	return w.Name
}

// named returns requests for the members of baselines with this name.
func (m Members) named(ctx context.Context, namespace, name string) []reconcile.Request {
	return m.find(ctx, client.InNamespace(namespace), client.MatchingFields{indexBaseline: name})
}

// list reads from the cache. That cannot fail but for a fault in this program.
func (m Members) list(ctx context.Context, list client.ObjectList, options ...client.ListOption) {
	if err := m.Client.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot find what an event is about")
	}
}

// find returns requests for the members that the options select.
func (m Members) find(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	return controller.Requests(ctx, m.Client, m.List(), options...)
}

// workloadChanged filters out updates of a baseline that do not affect forks: its status, except the
// numbers of pods, since not all pods are watched, and whether new pods are rejected; and annotations of
// controllers and tools.
func workloadChanged(before, after client.Object) bool {
	return podsCounted(before) != podsCounted(after) || PodsRefused(before) != PodsRefused(after) || before.GetGeneration() != after.GetGeneration() || before.GetUID() != after.GetUID() ||
		(before.GetDeletionTimestamp() == nil) != (after.GetDeletionTimestamp() == nil) ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) || !maps.Equal(userAnnotations(before), userAnnotations(after))
}

// counted has the numbers of pods in the status of a workload.
type counted struct{ all, updated, ready int64 }

// podsCounted returns the numbers of pods in the status of a workload. The stripped copies of Rollouts
// have the number of available pods instead of ready ones.
func podsCounted(o client.Object) counted {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return counted{int64(o.Status.Replicas), int64(o.Status.UpdatedReplicas), int64(o.Status.ReadyReplicas)}
	case *unstructured.Unstructured:
		number := func(field string) int64 {
			n, _, _ := unstructured.NestedInt64(o.Object, "status", field)
			return n
		}
		return counted{number("replicas"), number("updatedReplicas"), number("availableReplicas")}
	}
	return counted{}
}

// userAnnotations returns the annotations of a workload without those in which controllers and tools keep state. It
// is for Rollouts: for a Deployment, the API server increments the generation at each change of an
// annotation, and the status of its members has the generation.
func userAnnotations(o client.Object) map[string]string {
	out := maps.Clone(o.GetAnnotations())
	maps.DeleteFunc(out, func(key, _ string) bool {
		return key == corev1.LastAppliedConfigAnnotation || slices.ContainsFunc(
			[]string{"deployment.kubernetes.io/", "rollout.argoproj.io/", "control-plane.alpha.kubernetes.io/"},
			func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	return out
}

// serviceChanged filters out updates of a Service that change neither its selected pods nor its ports and
// routing.
func serviceChanged(before, after client.Object) bool {
	b, okB := before.(*corev1.Service)
	a, okA := after.(*corev1.Service)
	return !okA || !okB || b.UID != a.UID || (b.DeletionTimestamp == nil) != (a.DeletionTimestamp == nil) ||
		madeForMember(b) != madeForMember(a) || b.Annotations[crdv1.AnnotationIgnore] != a.Annotations[crdv1.AnnotationIgnore] ||
		!equality.Semantic.DeepEqual(b.Spec, a.Spec) || !maps.Equal(b.Labels, a.Labels)
}

// sliceChanged filters out updates of an EndpointSlice that keep its endpoints, ports and labels.
func sliceChanged(before, after client.Object) bool {
	b, okB := before.(*discoveryv1.EndpointSlice)
	a, okA := after.(*discoveryv1.EndpointSlice)
	return !okA || !okB || !maps.Equal(b.Labels, a.Labels) ||
		!equality.Semantic.DeepEqual(b.Endpoints, a.Endpoints) || !equality.Semantic.DeepEqual(b.Ports, a.Ports)
}

// podChanged filters out updates of a pod that change neither its sidecar nor its addresses.
func podChanged(before, after client.Object) bool {
	b, okB := before.(*corev1.Pod)
	a, okA := after.(*corev1.Pod)
	if !okA || !okB {
		return true
	}
	return coverage.PodOf(b) != coverage.PodOf(a) || counts(b) != counts(a) ||
		!equality.Semantic.DeepEqual(b.Labels, a.Labels) || !slices.Equal(b.Status.PodIPs, a.Status.PodIPs)
}

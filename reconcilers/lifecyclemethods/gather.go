package lifecyclemethods

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
)

// gather reads what counts for an object.
//
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
func (r *Reconciler) gather(ctx context.Context, o *crdv1.SignadotObjectLifecycleMethods) (Input, error) {
	in := Input{Object: o, Settings: r.config.Settings, AtOnce: r.config.AtOnce, Now: r.now()}
	if r.config.CA != nil {
		in.Settings.CA = r.config.CA()
	}
	pods, err := r.podsOf(ctx, o.Name)
	if err != nil {
		return in, err
	}
	in.Pods = append(in.Pods, lists.Filter(pods, func(p *corev1.Pod) bool { return apply.IsOwned(p, o.UID) })...)
	slices.SortFunc(in.Pods, func(a, b *corev1.Pod) int { return attemptOf(a) - attemptOf(b) })
	if err := r.missing(ctx, &in); err != nil {
		return in, err
	}
	if err := r.sync(ctx, o); err != nil {
		return in, err
	}
	if o.DeletionTimestamp == nil {
		return in, nil
	}
	keys, err := r.values.Keys(ctx, o)
	if err != nil {
		return in, err
	}
	in.Kept = map[string]bool{}
	for _, key := range keys {
		in.Kept[key] = true
	}
	return in, nil
}

// podsOf returns the pods that the cache has of units of objects with this name, each of which has
// one of these as its controller.
func (r *Reconciler) podsOf(ctx context.Context, name string) (out []*corev1.Pod, err error) {
	var pods corev1.PodList
	if err := r.config.Pods.List(ctx, &pods, client.MatchingLabels{crdv1.LabelLifecycle: crdv1.LabelValue(name)}); err != nil {
		return nil, fmt.Errorf("list the pods of steps of %s: %w", name, err)
	}
	for i := range pods.Items {
		if ref := metav1.GetControllerOfNoCopy(&pods.Items[i]); ref != nil && ref.Kind == crdv1.KindLifecycleMethods && ref.Name == name {
			out = append(out, &pods.Items[i])
		}
	}
	return out, nil
}

// missing reads the pods of running units that the cache does not have yet.
func (r *Reconciler) missing(ctx context.Context, in *Input) error {
	s := in.Object.Status
	for _, st := range slices.Concat(s.PreCreate, s.PostStop) {
		if st.Phase != crdv1.UnitRunning || st.ExecUnit == nil || slices.ContainsFunc(in.Pods, func(p *corev1.Pod) bool { return string(p.UID) == st.PodUID }) {
			continue
		}
		pod := &corev1.Pod{}
		err := r.config.Live.Get(ctx, client.ObjectKey{Namespace: st.ExecUnit.Namespace, Name: st.ExecUnit.Name}, pod)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read pod %s/%s of step %s: %w", st.ExecUnit.Namespace, st.ExecUnit.Name, st.Name, err)
		}
		if err == nil && apply.IsOwned(pod, in.Object.UID) {
			in.Pods = append(in.Pods, pod)
		}
	}
	return nil
}

// attemptOf returns the number of the attempt of a pod.
func attemptOf(p *corev1.Pod) int {
	n, _ := strconv.Atoi(p.Annotations[crdv1.AnnotationAttempt])
	return n
}

// Watch adds a watch for the pods of units.
func (r *Reconciler) Watch(b *builder.Builder, _ ctrl.Manager) error {
	b.WatchesRawSource(r.config.Pods.Source(controller.Enqueue(func(_ context.Context, o client.Object) []reconcile.Request {
		owner, is := controller.OwnerOf(o, crdv1.KindLifecycleMethods)
		if !is {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: owner.Name}}}
	})))
	return nil
}

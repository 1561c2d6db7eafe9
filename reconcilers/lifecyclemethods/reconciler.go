package lifecyclemethods

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/grant"
	"switchyard.dev/workflows/iocontext/store"
)

// Pods reads the pods of units and has a source of their events.
type Pods interface {
	client.Reader
	Source
}

// Config configures a Reconciler.
type Config struct {
	apply.Access
	// Pods are those of units. Required.
	Pods Pods
	// Settings have the pod template and timeouts of units. CA returns the CAs that the pods trust, as
	// PEM; if it is nil, those in Settings are used.
	Settings execunit.Settings
	CA       func() string
	// Values keeps the values of units.
	Values store.Store
	// AtOnce is the maximum number of units of one graph that run at the same time; 0: no limit.
	AtOnce int
	// Sign signs the grants of pods with the operator's authority. Required.
	Sign grant.Signer
	// Random returns the random part of a pod's name: lower-case letters and digits. Default: 80 bits.
	Random func() string
}

// Reconciler runs units. Create one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	values store.Store
	// synced has the UIDs of objects: this process has copied their values from where an earlier
	// release keeps them.
	synced sync.Map
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	if c.Random == nil {
		c.Random = random
	}
	return &Reconciler{config: c, writer: c.Writer(), values: c.Values}
}

// Reconcile brings one object further.
//
// +kubebuilder:rbac:groups=signadot.com,resources=signadotobjectlifecyclemethods,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotobjectlifecyclemethods/status,verbs=patch
// +kubebuilder:rbac:groups=signadot.com,resources=signadotobjectlifecyclemethods/finalizers,verbs=update
func (r *Reconciler) Reconcile(ctx context.Context, o *crdv1.SignadotObjectLifecycleMethods) (time.Duration, error) {
	if o.DeletionTimestamp == nil {
		if err := r.writer.AddFinalizer(ctx, o); err != nil {
			return 0, err
		}
	} else if !held(o) {
		return 0, nil
	}
	in, err := r.gather(ctx, o)
	if err != nil {
		return 0, err
	}
	if err := r.orphans(ctx, o.Name, o.UID); err != nil {
		return 0, err
	}
	d := Decide(in)
	if d.Over {
		return 0, r.end(ctx, in, d)
	}
	return r.act(ctx, in, d)
}

// sync copies values of an earlier release before anything of an object is decided: once in a process,
// and as long as a unit is running, since its outputs may be new. It is called after the pods are read:
// when one has succeeded, its outputs are copied before a pod that reads them is created.
func (r *Reconciler) sync(ctx context.Context, o *crdv1.SignadotObjectLifecycleMethods) error {
	running := func(st crdv1.WorkUnitStatus) bool { return st.Phase == crdv1.UnitRunning }
	_, done := r.synced.Load(o.UID)
	if done && !slices.ContainsFunc(o.Status.PreCreate, running) && !slices.ContainsFunc(o.Status.PostStop, running) {
		return nil
	}
	if err := r.values.Sync(ctx, o); err != nil {
		return err
	}
	r.synced.Store(o.UID, true)
	return nil
}

// Gone deletes remaining pods of a deleted object. Other pods and values belong to an existing object,
// which keeps its finalizer until they are deleted.
func (r *Reconciler) Gone(ctx context.Context, name types.NamespacedName) error {
	return r.orphans(ctx, name.Name, "")
}

// now returns the time with the resolution of a status.
func (r *Reconciler) now() metav1.Time {
	return metav1.NewTime(r.config.Now().UTC().Truncate(time.Second))
}

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

// Source is where events of pods of units come from.
type Source interface {
	// Source returns the events of pods of units, for a handler.
	Source(h handler.EventHandler) source.Source
}

// Watch adds a watch for the pods of units.
func (r *Reconciler) Watch(b *builder.Builder, _ ctrl.Manager) error {
	b.WatchesRawSource(r.config.Pods.Source(controller.Enqueue(func(_ context.Context, o client.Object) []reconcile.Request {
		ref := metav1.GetControllerOfNoCopy(o)
		if _, is := o.(*corev1.Pod); !is || ref == nil || ref.Kind != crdv1.KindLifecycleMethods {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: ref.Name}}}
	})))
	return nil
}

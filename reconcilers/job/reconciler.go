package job

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/workflows/jobs"
)

// Pods are the pods of runner groups.
type Pods interface {
	client.Reader
	// Source returns their events, for a handler.
	Source(h handler.EventHandler) source.Source
}

// Config configures a Reconciler.
type Config struct {
	apply.Access
	// Pods are those of runner groups. Required.
	Pods Pods
	// Runners reaches the runners in pods. Required.
	Runners Runners
	// Limits are those of finished jobs.
	Limits Limits
}

// Defaults are the limits of finished jobs without settings.
var Defaults = Limits{Keep: 24 * time.Hour, Most: 1000, Unread: 15 * time.Minute}

// Reconciler runs the jobs of runner groups. Create one with New.
type Reconciler struct {
	config Config
	writer apply.Writer

	mu sync.Mutex
	// queue takes groups to reconcile; nil before the controller starts.
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// groups is what is remembered of each group.
	groups map[types.NamespacedName]*memory
	// calls is the context of all calls to runners, which close ends.
	calls context.Context
	close context.CancelFunc
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	if c.Limits == (Limits{}) {
		c.Limits = Defaults
	}
	r := &Reconciler{config: c, writer: c.Writer(), groups: map[types.NamespacedName]*memory{}}
	r.calls, r.close = context.WithCancel(context.Background())
	return r
}

// Reconcile brings the jobs of a group further.
//
// +kubebuilder:rbac:groups=signadot.com,resources=jobs,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=signadot.com,resources=jobs/status,verbs=patch
// +kubebuilder:rbac:groups=signadot.com,resources=jobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=signadot.com,resources=jobrunnergroups;signadotsandboxes;signadotroutegroups,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch
func (r *Reconciler) Reconcile(ctx context.Context, g *crdv1.JobRunnerGroup) (time.Duration, error) {
	return r.reconcile(ctx, client.ObjectKeyFromObject(g), g)
}

// Gone brings the jobs of a group further that does not exist.
func (r *Reconciler) Gone(ctx context.Context, name types.NamespacedName) error {
	after, err := r.reconcile(ctx, name, nil)
	if after > 0 {
		r.wake(name, after)
	}
	return err
}

func (r *Reconciler) reconcile(ctx context.Context, name types.NamespacedName, g *crdv1.JobRunnerGroup) (time.Duration, error) {
	m := r.memory(name)
	in, err := r.gather(ctx, m, name, g)
	if err != nil {
		return 0, err
	}
	d := Decide(in)
	if len(d.Unknown) > 0 && in.Now.Sub(m.asked) > askAgain {
		m.asked = in.Now
		if in.Absent, err = r.absent(ctx, d.Unknown); err != nil {
			return 0, err
		}
		d = Decide(in)
	}
	if len(d.Unknown) > 0 {
		d.After = sooner(d.After, askAgain)
	}
	m.turns = d.Turns
	err = r.act(ctx, m, in, d)
	if len(in.Jobs) == 0 && g == nil {
		r.forget(name)
	}
	return d.After, err
}

// askAgain is the pause between two lists of all Jobs past the cache.
const askAgain = 5 * time.Second

// soon is how long events of a group are collected: each pass reads all jobs of the group.
const soon = 5 * time.Millisecond

// wake has a group reconciled, without the pause of other controllers between two reconciliations.
func (r *Reconciler) wake(name types.NamespacedName, after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue != nil {
		r.queue.AddAfter(reconcile.Request{NamespacedName: name}, after)
	}
}

// Watch adds the watches of jobs, pods, sandboxes and route groups, and the runnable that ends all calls to
// runners with leadership.
func (r *Reconciler) Watch(b *builder.Builder, mgr ctrl.Manager) error {
	b.WatchesRawSource(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.queue = q
		return nil
	}))
	b.Watches(&crdv1.Job{}, r.enqueue(ofJob))
	b.WatchesRawSource(r.config.Pods.Source(r.enqueue(ofPod)))
	b.Watches(&crdv1.SignadotSandbox{}, r.enqueue(r.ofTarget))
	b.Watches(&crdv1.SignadotRouteGroup{}, r.enqueue(r.ofTarget))
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		<-ctx.Done()
		r.close()
		return nil
	}))
}

// enqueue returns a handler that wakes the groups of an object.
func (r *Reconciler) enqueue(of func(context.Context, client.Object) []types.NamespacedName) handler.EventHandler {
	wake := func(ctx context.Context, o client.Object) {
		for _, name := range of(ctx, o) {
			r.wake(name, soon)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			wake(ctx, e.Object)
		},
	}
}

// ofJob returns the group of a job.
func ofJob(_ context.Context, o client.Object) []types.NamespacedName {
	if j, is := o.(*crdv1.Job); is {
		return []types.NamespacedName{{Namespace: j.Spec.RunnerGroup.Namespace, Name: j.Spec.RunnerGroup.Name}}
	}
	return nil
}

// ofPod returns the group that owns a pod.
func ofPod(_ context.Context, o client.Object) []types.NamespacedName {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil && ref.Kind == crdv1.KindJobRunnerGroup {
		return []types.NamespacedName{{Namespace: o.GetNamespace(), Name: ref.Name}}
	}
	return nil
}

// ofTarget returns the groups with jobs that have not ended and run against a sandbox or a route group.
func (r *Reconciler) ofTarget(ctx context.Context, o client.Object) []types.NamespacedName {
	var all crdv1.JobList
	if err := r.config.Client.List(ctx, &all, client.MatchingFields{IndexTarget: target(o)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	seen := map[types.NamespacedName]bool{}
	var out []types.NamespacedName
	for i := range all.Items {
		j := &all.Items[i]
		for _, name := range ofJob(ctx, j) {
			if s := j.Status.State; (s == nil || s.Terminated == nil) && !seen[name] {
				seen[name], out = true, append(out, name)
			}
		}
	}
	return out
}

// now returns the time.
func (r *Reconciler) now() time.Time { return r.config.Now() }

// stampOf returns a time with the resolution of a status.
func stampOf(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// memory is what is remembered of one group. Its reconciliations use it one at a time.
type memory struct {
	turns jobs.Turns
	jobs  written[*crdv1.Job]
	pods  written[*corev1.Pod]
	// last are the pods as they were seen last, also after their end while a job has run there.
	last map[types.UID]*corev1.Pod
	// asked is when all Jobs were listed past the cache.
	asked time.Time
	// followers are those of executions, by the UID of their job.
	followers map[types.UID]*follower
	// runners are the clients of pods, by their UIDs.
	runners map[types.UID]Runner
}

// memory returns what is remembered of a group.
func (r *Reconciler) memory(name types.NamespacedName) *memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.groups[name] == nil {
		r.groups[name] = &memory{jobs: written[*crdv1.Job]{}, pods: written[*corev1.Pod]{}, last: map[types.UID]*corev1.Pod{},
			followers: map[types.UID]*follower{}, runners: map[types.UID]Runner{}}
	}
	return r.groups[name]
}

// forget drops what is remembered of a group.
func (r *Reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.groups, name)
}

// written are objects as the API server returned them from writes, by UID, until the cache has them.
type written[O client.Object] map[types.UID]O

// newest returns the newer one of an object from the cache and the last one that was written.
func (w written[O]) newest(cached O) O {
	own, is := w[cached.GetUID()]
	if !is {
		return cached
	}
	if order, err := resourceversion.CompareResourceVersion(cached.GetResourceVersion(), own.GetResourceVersion()); err == nil && order < 0 {
		return own
	}
	delete(w, cached.GetUID())
	return cached
}

// keep drops all objects but these.
func (w written[O]) keep(all []O) {
	there := map[types.UID]bool{}
	for _, o := range all {
		there[o.GetUID()] = true
	}
	maps.DeleteFunc(w, func(uid types.UID, _ O) bool { return !there[uid] })
}

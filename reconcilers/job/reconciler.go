package job

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/controller"
	"switchyard.dev/reconcilers/job/upload"
	"switchyard.dev/workflows/jobexec/results"
)

// Config configures a Reconciler.
type Config struct {
	apply.Access
	// Pods are those of runner groups. Required.
	Pods controller.Pods
	// Runners reaches the runners in pods. Required.
	Runners Runners
	// KeyHeaders are the custom headers that carry routing keys.
	KeyHeaders []string
	// Limits are those of finished jobs.
	Limits Limits
	// Results is the bucket for what jobs leave that no control plane manages; nil: there is none.
	Results *results.Kept
}

// Defaults are the limits of finished jobs without settings.
var Defaults = Limits{Keep: 24 * time.Hour, Most: 1000, Unread: 15 * time.Minute}

// Reconciler runs the jobs of runner groups. Create one with New.
type Reconciler struct {
	config   Config
	writer   apply.Writer
	uploader *upload.Uploader

	mu sync.Mutex
	// queue takes groups to reconcile; nil before the controller starts.
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// groups has the memory of each group.
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
	r.uploader = upload.New(upload.Config{Bucket: c.Results, Runners: c.Runners, Changed: func(group types.NamespacedName) { r.wake(group, time.Millisecond) }})
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
		d.After = wake.Sooner(d.After, askAgain)
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

// now returns the time.
func (r *Reconciler) now() time.Time { return r.config.Now() }

// stampOf returns a time with the resolution of a status.
func stampOf(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

package forkedworkload

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/forkedworkload/fork"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/sidecars/coverage"
)

// refusedAgain is when something that was refused is tried again without any
// change that we could see, such as of rights or of somebody else's object.
const refusedAgain = 15 * time.Second

// Config is what a Reconciler needs. Dial, Injected and Powers may be
// empty.
type Config struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Publisher puts facts on the routing log.
	Publisher publish.Publisher
	// Now gives the time for conditions and facts.
	Now func() time.Time
	// Dial tries whether the fork's Services answer; DialTCP when it is nil.
	Dial Dial
	// Injected are the images of sidecars that pods get now; those that are empty
	// are not known, and no pod is called outdated for them.
	Injected coverage.Images
	// OperatorNamespace is where the operator lives, whose own workloads are not forked.
	OperatorNamespace string
	// Events tells people what became of ForkedWorkloads that nobody else made; nil
	// tells nothing.
	Events events.EventRecorder
	// Powers are those that patches may add to what a baseline has; none when it is
	// empty.
	Powers fork.Powers
}

// Validate names what is missing.
func (c Config) Validate() error {
	if c.Client == nil || c.Live == nil || c.Publisher == nil || c.Now == nil {
		return errors.New("forkedworkload: Client, Live, Publisher and Now are all required")
	}
	return nil
}

// Reconciler keeps the forks of ForkedWorkloads. Make one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	ending member.Ending
}

// New gives a Reconciler, or what is wrong with the configuration.
func New(c Config) (*Reconciler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Dial == nil {
		c.Dial = DialTCP
	}
	writer := apply.Writer{Client: c.Client, Live: c.Live, Events: c.Events}
	return &Reconciler{config: c, writer: writer, ending: member.Ending{
		Writer: writer, Publisher: c.Publisher, Now: c.Now,
		Makes: []client.ObjectList{&appsv1.DeploymentList{}, baseline.NewRolloutList(), &corev1.ServiceList{}},
	}}, nil
}

// Reconcile brings one ForkedWorkload into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := &crdv1.ForkedWorkload{}
	if err := r.config.Client.Get(ctx, req.NamespacedName, w); apierrors.IsNotFound(err) {
		return apply.Again(r.ending.Gone(ctx, crdv1.KindForkedWorkload, req.Namespace, req.Name))
	} else if err != nil {
		return reconcile.Result{}, err
	}
	if w.DeletionTimestamp != nil {
		return apply.Again(r.ending.Deleted(ctx, w))
	}
	if err := r.ending.Release(ctx, w); err != nil {
		return apply.Again(err)
	}
	if left, err := r.ending.Clear(ctx, w); err != nil || left {
		return apply.Again(err) // The end of what was left leads back here.
	}
	in, err := gather(ctx, r.config.Client, w, r.config.OperatorNamespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	in.Injected, in.Powers = r.config.Injected, r.config.Powers
	decision := Decide(in)
	made, acted := act(ctx, r.writer, in, decision)
	made.Silent = r.silent(ctx, w, made)
	now := r.config.Now()
	after := Conclude(in, decision, made, metav1.NewTime(now))
	fact, ok := Stated(after, decision, made)
	stated, err := member.State(ctx, r.config.Publisher, after, fact, ok, now)
	if stated && acted == nil {
		acted = prune(ctx, r.writer, in, decision)
	}
	if err := errors.Join(acted, err, r.writer.Status(ctx, w, after)); err != nil {
		return apply.Again(err)
	}
	return reconcile.Result{RequeueAfter: lookAgain(made)}, nil
}

// lookAgain says after what time to look again although nothing has changed
// that we are told of; zero for never.
func lookAgain(made Made) time.Duration {
	switch {
	case made.Silent != "":
		return reachAgain
	case made.ForkRefusal != nil || len(made.ServiceRefusals) > 0:
		return refusedAgain
	}
	return 0
}

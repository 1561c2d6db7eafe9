package forkedworkload

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/member"
)

// Config is what a Reconciler needs. What it adds to the needs of all members may be
// empty.
type Config struct {
	member.Needs
	// Dial tries whether the fork's Services answer; DialTCP when it is nil.
	Dial Dial
	// OperatorNamespace is where the operator lives, whose own workloads are not forked.
	OperatorNamespace string
	// Powers are those that patches may add to what a baseline has; none when it is
	// empty.
	Powers fork.Powers
	// AuthorsAsked: the API server asks what authors of patches may read (package authors).
	AuthorsAsked bool
}

// Reconciler keeps the forks of ForkedWorkloads. Make one with New.
type Reconciler struct {
	config Config
	writer apply.Writer
	ending member.Ending
}

// New returns a Reconciler, or what is wrong with the configuration.
func New(c Config) (*Reconciler, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("forkedworkload: %w", err)
	}
	if c.Dial == nil {
		c.Dial = DialTCP
	}
	ending := c.Ending(&appsv1.DeploymentList{}, baseline.NewRolloutList(), &corev1.ServiceList{})
	return &Reconciler{config: c, writer: c.Writer(), ending: ending}, nil
}

// Reconcile brings one ForkedWorkload into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	w := &crdv1.ForkedWorkload{}
	if goOn, err := r.ending.Begin(ctx, req.NamespacedName, w); err != nil || !goOn {
		return apply.Again(err)
	}
	in, err := gather(ctx, r.config.Client, w, r.config.OperatorNamespace)
	if err != nil {
		return apply.Again(err)
	}
	in.Injected, in.Powers, in.AuthorsAsked = r.config.Injected, r.config.Powers, r.config.AuthorsAsked
	decision := Decide(in)
	made, acted := act(ctx, r.writer, in, decision)
	made.Silent = r.silent(ctx, w, made)
	now := r.config.Now()
	after := Conclude(in, decision, made, metav1.NewTime(now))
	fact, ok := Fact(after, decision, made)
	stated, err := member.State(ctx, r.config.Publisher, after, fact, ok, now)
	if stated && acted == nil {
		acted = prune(ctx, r.writer, in, decision)
	}
	if err := errors.Join(acted, err, r.writer.Status(ctx, w, after)); err != nil {
		return apply.Again(err)
	}
	return reconcile.Result{RequeueAfter: lookAgain(made)}, nil
}

// lookAgain returns after what time to look again although nothing has changed
// that we are told of; zero for never.
func lookAgain(made Made) time.Duration {
	switch {
	case made.Silent != "":
		return reachAgain
	case made.ForkRefusal != nil || len(made.ServiceRefusals) > 0:
		return apply.RefusedAgain
	}
	return 0
}

package forkedworkload

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/policies"
)

// Config configures a Reconciler. Fields other than Needs are optional.
type Config struct {
	member.Needs
	// Dial tries whether the fork's Services answer; DialTCP when it is nil.
	Dial Dial
	// OperatorNamespace is the operator's namespace. Its workloads are not forked.
	OperatorNamespace string
	// Powers are the powers that patches can add to those of a baseline; none if it is empty.
	Powers power.Powers
	// AuthorsAsked is set if the admission webhook checks which objects authors of patches can read
	// (package admission).
	AuthorsAsked bool
	// Policies reads policies of optional kinds; nil: there are none. PolicySettings have the action
	// where one does not apply to a fork, and the labels that all forks keep.
	Policies       Policies
	PolicySettings policies.Settings
	// Mesh: a mesh routes requests beside DevMesh.
	Mesh bool
}

// Policies reads policies. A policyreader.Reader does.
type Policies interface {
	// In returns the policies that may apply to pods of a namespace.
	In(ctx context.Context, namespace string) ([]policies.Policy, error)
}

// Reconciler keeps the forks of ForkedWorkloads. Create one with New.
type Reconciler struct {
	config Config
	member.Lifecycle
}

// New returns a Reconciler.
func New(c Config) *Reconciler {
	if c.Dial == nil {
		c.Dial = DialTCP
	}
	return &Reconciler{config: c, Lifecycle: c.Lifecycle(crdv1.KindForkedWorkload,
		&appsv1.DeploymentList{}, baseline.NewRolloutList(), &corev1.ServiceList{})}
}

// Reconcile brings one ForkedWorkload into line.
//
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=signadot.com,resources=forkedworkloads/status,verbs=patch
func (r *Reconciler) Reconcile(ctx context.Context, w *crdv1.ForkedWorkload) (time.Duration, error) {
	if goOn, err := r.Begin(ctx, w); err != nil || !goOn {
		return 0, err
	}
	in, err := gather(ctx, r.config.Client, w, r.config.OperatorNamespace, r.config.Policies)
	if err != nil {
		return 0, err
	}
	in.Injected, in.Powers, in.AuthorsAsked = r.config.Injected, r.config.Powers, r.config.AuthorsAsked
	in.RefusePolicies, in.InstallationLabels = r.config.PolicySettings.Workloads == policies.Refuse, r.config.PolicySettings.PreservedLabels
	in.Mesh = r.config.Mesh
	decision := Decide(in)
	made, acted := act(ctx, r.Writer, in, decision)
	made.Silent = r.silent(ctx, w, made)
	after := Conclude(in, decision, made, metav1.NewTime(r.config.Now()))
	fact, ok := Fact(after, decision, made)
	surplus := append(apply.Objects(decision.SurplusForks), apply.Objects(decision.Surplus)...)
	return lookAgain(in, made), r.Finish(ctx, w, after, fact, ok, acted, surplus)
}

// lookAgain returns the time after which to reconcile again without a watched change; zero for never.
func lookAgain(in Input, made Made) time.Duration {
	switch {
	case made.Silent != "":
		return reachAgain
	case made.ForkRefusal != nil || len(made.ServiceRefusals) > 0:
		return apply.RefusedAgain
	}
	return in.ReachAgain()
}

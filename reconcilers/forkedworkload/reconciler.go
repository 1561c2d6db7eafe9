package forkedworkload

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/member/recorders"
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
	// Traffic returns the settings of the container that records requests, or an error while they are not known; nil: new
	// forks get none.
	Traffic func() (traffic.Settings, error)
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
	if r.config.Traffic != nil {
		if in.Traffic, err = r.config.Traffic(); err != nil {
			return 0, err
		}
	}
	decision := Decide(in)
	made, acted := act(ctx, r.Writer, in, decision)
	made.Silent = r.silent(ctx, w, made)
	now := metav1.NewTime(r.config.Now())
	after := Conclude(in, decision, made, now)
	made.WriteCaptured(after, now)
	fact, ok := Fact(after, decision, made)
	surplus := append(apply.Objects(decision.SurplusForks), apply.Objects(decision.Surplus)...)
	return lookAgain(in, made), r.Finish(ctx, w, after, fact, ok, acted, surplus)
}

// lookAgain returns the time after which to reconcile again without a watched change; zero for never.
func lookAgain(in Input, made Made) time.Duration {
	switch {
	case made.Silent != "":
		return reachAgain
	case made.ForkRefusal != nil || len(made.ServiceRefusals)+len(made.CaptureRefusals) > 0:
		return apply.RefusedAgain
	}
	return in.ReachAgain()
}

// gather reads all that counts for a ForkedWorkload from the cache. operator is the
// operator's own namespace, more reads policies of
// other kinds than NetworkPolicy; nil: there are none. Lists are
// not copied, so nothing of the Input may be changed.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services;pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch
func gather(ctx context.Context, c client.Reader, w *crdv1.ForkedWorkload, operator string, more Policies) (Input, error) {
	in := Input{Workload: w, OperatorNamespace: operator}
	if err := in.readOwn(ctx, c); err != nil {
		return in, err
	}
	if !acceptSpec(in).IsTrue() {
		return in, nil
	}
	var err error
	if in.Services, err = in.Look(ctx, c, w, in.Services); err != nil || in.Baseline == nil {
		return in, err
	}
	if err := in.readSiblings(ctx, c); err != nil {
		return in, err
	}
	if in.Captures, err = recorders.AttachedTo(ctx, c, w); err != nil {
		return in, err
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := c.List(ctx, &budgets, client.InNamespace(w.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("list PodDisruptionBudgets of namespace %s: %w", w.Namespace, err)
	}
	in.Budgets = budgets.Items
	if err := in.readPolicies(ctx, c, more); err != nil {
		return in, err
	}
	in.Fork, err = workload(ctx, c, in.Baseline.Ref.Kind, w.Namespace, in.identity().DeploymentName(in.Baseline.Ref.Name))
	return in, err
}

// readOwn reads the objects that the ForkedWorkload owns, and the Services beside its own.
func (in *Input) readOwn(ctx context.Context, c client.Reader) error {
	w := in.Workload
	inNamespace, own := client.InNamespace(w.Namespace), client.MatchingFields{apply.IndexOwner: string(w.UID)}
	neighbours, err := baseline.ServicesIn(ctx, c, w.Namespace)
	if err != nil {
		return err
	}
	var services corev1.ServiceList
	var deployments appsv1.DeploymentList
	rollouts := baseline.NewRolloutList()
	for _, list := range []client.ObjectList{&services, &deployments, rollouts} {
		if err := c.List(ctx, list, inNamespace, own, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list what ForkedWorkload %s/%s made: %w", w.Namespace, w.Name, err)
		}
	}
	in.Services = append(append(in.Services, neighbours...), services.Items...)
	in.Forks = append(in.Forks, lists.Map(lists.Pointers(deployments.Items), func(d *appsv1.Deployment) fork.Object { return d })...)
	for i := range rollouts.Items {
		in.Forks = append(in.Forks, &rollouts.Items[i])
	}
	var pods corev1.PodList
	mine := client.MatchingFields{indexFork: crdv1.LabelValue(w.Name)}
	if err := c.List(ctx, &pods, inNamespace, mine, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the pods of ForkedWorkload %s/%s: %w", w.Namespace, w.Name, err)
	}
	in.ForkPods = pods.Items
	return nil
}

// workload reads one Deployment or Rollout; nil when it does not exist.
func workload(ctx context.Context, c client.Reader, kind, namespace, name string) (client.Object, error) {
	var o client.Object = &appsv1.Deployment{}
	if kind == baseline.KindRollout {
		o = baseline.NewRollout()
	}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", kind, namespace, name, err)
	}
	return o, nil
}

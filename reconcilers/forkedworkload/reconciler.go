package forkedworkload

import (
	"cmp"
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

// Input has all inputs of Decide. It is shared with the cache and must not be changed.
type Input struct {
	// Workload is the ForkedWorkload.
	Workload *crdv1.ForkedWorkload
	// Seen is the state of its baseline.
	member.Seen
	// Services are the Services of the namespace that are not a fork's, and those that the ForkedWorkload
	// owns. A Service that is both can occur twice.
	Services []corev1.Service
	// Budgets are the PodDisruptionBudgets of the namespace.
	Budgets []policyv1.PodDisruptionBudget
	// Policies are those that may apply to pods of the namespace. PoliciesUnread is why they cannot
	// be read; nil when they can.
	Policies       []policies.Policy
	PoliciesUnread error
	// RefusePolicies: there is no fork to which a policy of its baseline does not apply.
	RefusePolicies bool
	// InstallationLabels are expressions for keys of labels that all forks keep.
	InstallationLabels []string
	// Fork is the workload with the kind and name of the fork, whatever its owner; nil if there is none.
	Fork fork.Object
	// Forks are the workloads that the ForkedWorkload owns: Deployments, and Rollouts as
	// *unstructured.Unstructured.
	Forks []fork.Object
	// ForkPods are the pods of the fork.
	ForkPods []corev1.Pod
	// Mesh: a mesh routes requests beside DevMesh.
	Mesh bool
	// Siblings are the forks of the sandbox, this one too, if the patches name others.
	Siblings []crdv1.ForkedWorkload
	// OperatorNamespace is the operator's namespace. Its workloads are not forked.
	OperatorNamespace string
	// Powers are the powers that patches can add to those of the baseline.
	Powers power.Powers
	// AuthorsAsked is set if the admission webhook checks which objects authors of patches can read.
	AuthorsAsked bool
}

// identity returns the identity of the fork. A ForkedWorkload that no sandbox created uses its own name as
// that of the sandbox.
func (in Input) identity() fork.Identity {
	w := in.Workload
	ref, _ := w.BaselineRef()
	name := cmp.Or(w.Annotations[crdv1.AnnotationSandboxName], w.Name)
	return fork.Identity{
		ForkedWorkload: w.Name,
		Namespace:      w.Namespace,
		Owner:          *metav1.NewControllerRef(w, crdv1.GroupVersion().WithKind(crdv1.KindForkedWorkload)),
		Baseline:       ref,
		SandboxName:    name,
		SandboxLabel:   w.Labels[crdv1.LabelSandbox],
		RoutingKey:     w.Annotations[crdv1.AnnotationRoutingKey],
	}
}

// reached reports whether the Services of the fork are known: its baseline is known, or it was and the
// status records them.
func (in Input) reached() bool {
	return in.Known() || in.Workload.Status.RoutingConfig != nil && in.tellsOfBaseline()
}

// tellsOfBaseline reports whether the status is about the baseline in the spec, and not about a previous
// one. The fork identifies its baseline; if there is none, because it waits or its patches do not apply,
// the Services do.
func (in Input) tellsOfBaseline() bool {
	made := lists.Map(in.Forks, func(o fork.Object) metav1.Object { return o })
	made = append(made, lists.Map(lists.Pointers(in.Services), func(o *corev1.Service) metav1.Object { return o })...)
	return member.StatusIsCurrent(in.Workload, in.Workload.Status.ObservedGeneration, made)
}

// neighbours returns the Services of the namespace that are not of a fork.
func (in Input) neighbours() []corev1.Service {
	return lists.Filter(in.Services, func(s corev1.Service) bool { return s.Labels[crdv1.LabelForkedWorkload] == "" })
}

// ownForks returns the workloads that the ForkedWorkload owns.
func (in Input) ownForks() []fork.Object {
	return lists.Filter(in.Forks, func(o fork.Object) bool { return apply.IsOwned(o, in.Workload.UID) })
}

package forkedworkload

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/fork"
	"switchyard.dev/reconcilers/fork/meaning"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/fork/services"
	"switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/fork/trouble"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/policies"
)

// Reasons of conditions of a ForkedWorkload, in addition to those of the packages baseline, fork and
// apply.
const (
	ReasonForkProgressing = "ForkProgressing"
	ReasonForkMissing     = "ForkMissing"
	ReasonForkFailed      = "ForkFailed"
	ReasonForkPaused      = "ForkPaused"
	ReasonServicesMissing = "ServicesMissing"
	// ReasonPortsWithoutTarget: the Services are ready, and some of their ports have a named
	// target that no container declares.
	ReasonPortsWithoutTarget = "PortsWithoutTarget"
	// ReasonPatchAddsContainer: the patches apply, and one adds a container, which may be
	// intended or a misspelt name.
	ReasonPatchAddsContainer = "PatchAddsContainer"
	// ReasonPatchedContainerGone: the patches apply, and one adds a container that was the
	// baseline's when the patches were accepted.
	ReasonPatchedContainerGone = "PatchedContainerGone"
	// ReasonVariablesInCircle: variables of the fork refer to each other, or to themselves.
	ReasonVariablesInCircle = "VariablesInCircle"
	// ReasonLabelNotKept: the fork reads a label of its baseline that forks do not have.
	ReasonLabelNotKept = "LabelNotKept"
	// ReasonSiblingServiceChosen: the patches name another fork that has several Services.
	ReasonSiblingServiceChosen = "SiblingServiceChosen"
)

// Reasons why a pod of the fork does not start, in the terms of Kubernetes, which users search for. Each
// covers all causes with the same effect.
const (
	// ReasonImagePull: an image cannot be had.
	ReasonImagePull = trouble.ReasonImagePull
	// ReasonConfigError: a container cannot be created, mostly because a ConfigMap, a Secret or a key in
	// one is missing.
	ReasonConfigError = trouble.ReasonConfigError
	// ReasonCrashLoop: a container ends each time it is started.
	ReasonCrashLoop = trouble.ReasonCrashLoop
	// ReasonUnschedulable: no node takes the pod.
	ReasonUnschedulable = trouble.ReasonUnschedulable
	// ReasonReadinessGates: the containers are ready, and a readiness gate of the pod is not set.
	ReasonReadinessGates = trouble.ReasonReadinessGates
	// ReasonPodsRefused: the API server takes no pods of the fork, for a quota or an
	// admission webhook.
	ReasonPodsRefused = "PodsRefused"
)

// Decision has the desired objects and conditions of a ForkedWorkload.
type Decision struct {
	// Conditions are those for Accepted and BaselineFound; writing may add others.
	Conditions condition.Set
	// Fork is the workload to apply, a Deployment or a Rollout; nil: keep the existing one.
	Fork fork.Object
	// Left are fields of Fork that are left to others.
	Left apply.Left
	// Replicas is the number of pods that patches set; nil if they leave it open.
	Replicas *int32
	// Services are the Services of the baseline with the fork's Services that replace them.
	Services []member.Mapping
	// Beside are the other Services of the fork, for captures.
	Beside []*corev1.Service
	// Standing are Services that stay unchanged, by the name of the baseline Service, while their desired
	// form cannot be determined (member.AsStated).
	Standing map[string]*corev1.Service
	// Surplus are Services of the ForkedWorkload that are no longer wanted.
	Surplus []*corev1.Service
	// SurplusForks are workloads of the ForkedWorkload that are no longer wanted.
	SurplusForks []fork.Object
	// Held is a message for users about what Fork waits for; Fork is nil then. "" if it does not wait.
	Held string
}

// Decide returns the decision about a ForkedWorkload that is not being deleted.
func Decide(in Input) Decision {
	accepted := acceptSpec(in)
	if !accepted.IsTrue() {
		return asItIs(in, condition.Set{
			crdv1.ConditionAccepted:      accepted,
			crdv1.ConditionBaselineFound: condition.Unknown(accepted.Reason, "The spec is not accepted, so the baseline was not looked for."),
		})
	}
	if !in.Known() {
		return asItIs(in, withoutBaseline(in))
	}
	if in.RefusePolicies && in.PoliciesUnread != nil {
		return in.unreadPolicies()
	}
	id := in.identity()
	d := Decision{Conditions: condition.Set{
		crdv1.ConditionAccepted:      accepted,
		crdv1.ConditionBaselineFound: in.Found(in.Workload),
	}}
	clone, problem := fork.Clone(in.Baseline, in.plan())
	if clone != nil {
		d.Left, d.Replicas = leftOf(clone), clone.Replicas
		d.Conditions[crdv1.ConditionAccepted] = in.applied(accepted, clone)
	}
	refused := in.notePolicies(d.Conditions, clone)
	var pod corev1.PodSpec
	switch d.Held = in.held(clone); {
	case problem != nil:
		d.Conditions[crdv1.ConditionAccepted], pod = in.notApplied(problem), in.running(in.Baseline.Template.Spec)
	case refused:
		d.Held, pod, d.SurplusForks = "", in.running(clone.Template.Spec), in.ownForks()
	case d.Held != "":
		pod, d.SurplusForks = in.running(clone.Template.Spec), otherForks(in, clone.Object)
	default:
		d.Fork, pod = in.desired(clone), clone.Template.Spec
		d.SurplusForks = otherForks(in, d.Fork)
	}
	d.Services = services.Of(in.Forms(), pod, in.neighbours(), id, slices.Concat(in.Workload.Spec.PreservedLabels, in.InstallationLabels)...)
	d.redirect(in, pod)
	return d
}

// plan returns the parameters of the fork other than its baseline.
func (in Input) plan() fork.Plan {
	return fork.Plan{
		Identity:        in.identity(),
		Patches:         in.Workload.Spec.Patches,
		Resources:       in.Workload.Spec.ResourceTemplateData,
		Siblings:        in.reachedSiblings(),
		Powers:          in.Powers,
		AuthorAsked:     in.AuthorsAsked,
		Running:         in.runningPod(),
		PreservedLabels: in.Workload.Spec.PreservedLabels, InstallationLabels: in.InstallationLabels,
		Neighbours: in.neighbours(),
		Budgets:    in.Budgets,
	}
}

// leftOf returns the fields of a clone that are left to others.
func leftOf(clone *fork.Fork) apply.Left { return apply.Left{Keeps: clone.Keeps, Yields: clone.Yields} }

// keepingNotes returns the existing fork if only annotations copied from the baseline have changed,
// because a write would make it not ready. Changes of the ForkedWorkload's spec are always written.
func (in Input) keepingNotes(want fork.Object) fork.Object {
	clone, isDeployment := want.(*appsv1.Deployment)
	have, runs := in.ownFork().(*appsv1.Deployment)
	if !isDeployment || !runs || in.Workload.Status.ObservedGeneration != in.Workload.Generation {
		return want
	}
	if noted := fork.WithNotesOf(clone, have, in.Baseline, apply.AnnotationDesired); apply.InLine(noted, have) {
		return noted
	}
	return want
}

// acceptSpec returns whether the spec names a workload that can be forked.
func acceptSpec(in Input) condition.Condition {
	w := in.Workload
	for _, f := range []condition.Condition{
		baseline.Accept("spec.baseline", w.Spec.Baseline, w.Namespace),
		baseline.AcceptNamespace("spec.baseline", w.Namespace, in.OperatorNamespace),
	} {
		if !f.IsTrue() {
			return f
		}
	}
	return condition.True("Accepted", "The spec is valid and its patches apply.")
}

// applied returns the condition Accepted for patches that apply, with remarks about their effects.
func (in Input) applied(accepted condition.Condition, clone *fork.Fork) condition.Condition {
	if added := clone.Added; len(added) > 0 {
		accepted = in.adds(added)
	}
	and := func(reason, message string) {
		if accepted.Reason == "Accepted" {
			accepted = condition.True(reason, message)
			return
		}
		accepted.Message += " " + message
	}
	if chosen := in.chosen(); chosen != "" {
		and(ReasonSiblingServiceChosen, strings.TrimSpace(chosen))
	}
	if c := clone.Circle; len(c) > 0 {
		and(ReasonVariablesInCircle, fmt.Sprintf("These variables of the fork refer to each other or to themselves, so that the container gets $(NAME) as written for some of them (container/variable): %s: remove one of the references.", strings.Join(c, ", ")))
	}
	if l := clone.Lost; len(l) > 0 {
		and(ReasonLabelNotKept, fmt.Sprintf("Forks do not have the labels of their baseline, so the value is empty where %s: add the label to spec.customization.preservedLabels of the sandbox (%q), or set it by a patch.", list(l), "^"+regexp.QuoteMeta(l[0].Label)+"$"))
	}
	return accepted
}

// list returns the readers of labels, for a message.
func list(reads []meaning.Read) string {
	return strings.Join(lists.Map(reads, meaning.Read.String), ", and ")
}

// adds is the condition about patches that apply and add containers: under a name that is
// misspelt, or that the baseline has no longer, the intended container is not changed.
func (in Input) adds(names []string) condition.Condition {
	has := lists.Map(in.Baseline.Template.Spec.Containers, func(c corev1.Container) string { return c.Name })
	added, have := strings.Join(names, ", "), strings.Join(has, ", ")
	if in.addedNone() {
		return condition.True(ReasonPatchedContainerGone, fmt.Sprintf(
			"%s no longer has the containers that the patches name (%s; it has %s): the patches add them instead of changing those, so change the names in the patches.",
			in.baselineName(), added, have))
	}
	return condition.True(ReasonPatchAddsContainer, fmt.Sprintf(
		"The patches add containers that %s does not have (%s; it has %s): to change one of the baseline's, use its name.", in.baselineName(), added, have))
}

// addedNone reports whether these patches added no container when they were accepted.
func (in Input) addedNone() bool {
	w := in.Workload
	c := crdv1.FindCondition(w.Status.Conditions, crdv1.ConditionAccepted)
	return c != nil && c.Status == string(metav1.ConditionTrue) && c.ObservedGeneration == w.Generation && c.Reason != ReasonPatchAddsContainer
}

// withoutBaseline returns the conditions for a baseline that does not exist, or has an unknown pod
// template. Created objects stay: no request arrives without pods of the baseline, and when it is
// re-created the fork is still valid.
func withoutBaseline(in Input) condition.Set {
	missing := in.Found(in.Workload)
	missing.Message += in.stillRunning()
	return condition.Set{
		crdv1.ConditionAccepted:      condition.Unknown(missing.Reason, "Patches can only be checked against a baseline."),
		crdv1.ConditionBaselineFound: missing,
	}
}

// asItIs returns the decision to change nothing: the Services are those in the status, unless they belong
// to another baseline.
func asItIs(in Input, f condition.Set) Decision {
	d := Decision{Conditions: f}
	if in.reached() {
		d.Services, d.Standing = member.AsStated(in.Workload.Status.RoutingConfig, in.Workload, in.Services)
	}
	return d
}

// stillRunning is the end of a message about a fork that could not be brought
// up to date.
func (in Input) stillRunning() string {
	if len(in.ownForks()) == 0 {
		return ""
	}
	return " (the fork that was made before keeps running)"
}

// baselineName names the baseline in messages, by its kind, namespace and name.
func (in Input) baselineName() string {
	ref, _ := in.Workload.BaselineRef()
	return baseline.Describe(ref)
}

// otherForks returns the owned workloads other than the wanted one: those of a previous baseline in the
// spec.
func otherForks(in Input, wanted fork.Object) []fork.Object {
	return lists.Filter(in.ownForks(), func(o fork.Object) bool { return o.GetName() != wanted.GetName() || kindOf(o) != kindOf(wanted) })
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
	// Captures are those that are attached to pods of the fork, and Traffic has the container that new forks get
	// for them.
	Captures []crdv1.TrafficCapture
	Traffic  traffic.Settings
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

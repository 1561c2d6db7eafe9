package forkedworkload

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/finding"
	"switchyard.dev/reconcilers/forkedworkload/fork"
)

// Reasons of SidecarsReady where it is true and something is to be said all the
// same: the message says what holds for the requests.
const (
	ReasonNoPods          = "NoPods"
	ReasonSomePortsUnread = "SomePortsUnread"
)

// Reasons of conditions of a ForkedWorkload, beside those of the packages fork
// and apply. NamespaceNotAllowed is only said of one: where the operator may not
// work it sees no ForkedWorkload.
const (
	ReasonUnsupportedKind     = "UnsupportedKind"
	ReasonInvalidSpec         = "InvalidSpec"
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	ReasonBaselineNotFound    = "BaselineNotFound"
	ReasonForkProgressing     = "ForkProgressing"
	ReasonForkMissing         = "ForkMissing"
	ReasonForkFailed          = "ForkFailed"
	ReasonScaledToZero        = "ScaledToZero"
	ReasonServiceSilent       = "ServiceSilent"
	ReasonServicesMissing     = "ServicesMissing"
	ReasonSidecarAbsent       = "SidecarAbsent"
	ReasonSidecarNotReady     = "SidecarNotReady"
	ReasonPortsUnread         = "PortsUnread"
)

// Decision is what should be there.
type Decision struct {
	// Findings are those for Accepted and BaselineFound; writing may add others.
	Findings finding.Findings
	// Fork is the Deployment to apply; nil: leave things as they are.
	Fork *appsv1.Deployment
	// Services are the Services of the baseline with those that stand for them.
	Services []fork.Mapping
	// Standing are Services that exist and stay as they are, by the name of the
	// baseline Service, when there is no telling what they should be.
	Standing map[string]*corev1.Service
	// Surplus are our own Services that are not wanted any more.
	Surplus []*corev1.Service
	// SurplusForks are our own Deployments that are not wanted any more.
	SurplusForks []*appsv1.Deployment
}

// Decide says what should be there for a ForkedWorkload that is not being
// deleted.
func Decide(in Input) Decision {
	accepted := acceptSpec(in.Workload)
	if !accepted.IsYes() {
		return asItIs(in, finding.Findings{
			crdv1.ConditionAccepted:      accepted,
			crdv1.ConditionBaselineFound: finding.Open(accepted.Reason, "The spec is not accepted, so the baseline was not looked for."),
		})
	}
	if in.Baseline == nil {
		return asItIs(in, withoutBaseline(in))
	}
	id := in.identity()
	d := Decision{Findings: finding.Findings{
		crdv1.ConditionAccepted:      accepted,
		crdv1.ConditionBaselineFound: finding.Yes("BaselineFound", "Deployment "+in.baselineName()+" is there."),
	}}
	pod := in.Baseline.Spec.Template.Spec
	clone, problem := fork.Clone(in.Baseline, fork.Plan{
		Identity:        id,
		Patches:         in.Workload.Spec.Patches,
		PreservedLabels: in.Workload.Spec.PreservedLabels,
		Neighbours:      in.neighbours(),
	})
	if problem != nil {
		d.Findings[crdv1.ConditionAccepted] = finding.No(problem.Reason, problem.Message+in.stillRunning())
	} else {
		d.Fork, pod = fork.Writable(clone), clone.Spec.Template.Spec
		d.SurplusForks = otherForks(in, clone.Name)
	}
	d.Services = fork.Services(in.Baseline.Spec.Template, pod, in.neighbours(), id)
	d.Surplus = surplus(in.ownServices(), d.Services)
	return d
}

// acceptSpec says whether the spec names something that can be forked.
func acceptSpec(w *crdv1.ForkedWorkload) finding.Finding {
	b := w.Spec.Baseline
	switch {
	case b.Kind == "" || b.Name == "":
		return finding.No(ReasonInvalidSpec, "spec.baseline has no kind or no name: name the workload to fork")
	case b.Namespace != "" && b.Namespace != w.Namespace:
		return finding.No(ReasonInvalidSpec, fmt.Sprintf(
			"spec.baseline is in namespace %s: a fork is made beside its baseline, so put this object into that namespace", b.Namespace))
	}
	if f := AcceptKind(b); !f.IsYes() {
		return f
	}
	return finding.Yes("Accepted", "The spec is right and its patches apply.")
}

// AcceptKind says whether this version can fork a workload of this kind.
func AcceptKind(ref crdv1.ObjectRef) finding.Finding {
	group := groupOf(ref.APIVersion)
	switch {
	case ref.Kind == "Deployment" && group == "apps":
		return finding.Yes("Accepted", "A Deployment can be forked.")
	case ref.Kind == "Rollout" && group == "argoproj.io":
		return finding.No(fork.ReasonNotSupportedYet, fmt.Sprintf(
			"Rollout %s cannot be forked yet: this version forks Deployments", ref.Name))
	default:
		return finding.No(ReasonUnsupportedKind, fmt.Sprintf(
			"%s %s (%s) cannot be forked: only Deployment (apps/v1) and Argo Rollout can be forked", ref.Kind, ref.Name, ref.APIVersion))
	}
}

// groupOf gives the group of an API version; the core group is empty.
func groupOf(apiVersion string) string {
	for i := range len(apiVersion) {
		if apiVersion[i] == '/' {
			return apiVersion[:i]
		}
	}
	return ""
}

// withoutBaseline says that there is no baseline. What was made stays: without
// pods of the baseline no request can come, and when the baseline is made again
// everything is right at once.
func withoutBaseline(in Input) finding.Findings {
	return finding.Findings{
		crdv1.ConditionAccepted: finding.Open(ReasonBaselineNotFound, "Patches can only be checked against a baseline."),
		crdv1.ConditionBaselineFound: finding.No(ReasonBaselineNotFound, fmt.Sprintf(
			"Deployment %s does not exist: create it, or name another one in the sandbox%s", in.baselineName(), in.stillRunning())),
	}
}

// asItIs is the decision to change nothing: the Services are those that the
// status tells of and that are still there.
func asItIs(in Input, f finding.Findings) Decision {
	d := Decision{Findings: f, Standing: map[string]*corev1.Service{}}
	if in.Workload.Status.RoutingConfig == nil {
		return d
	}
	for _, s := range in.Workload.Status.RoutingConfig.Services {
		d.Services = append(d.Services, fork.Mapping{From: s.From, Ports: s.Ports, Missing: s.MissingPorts})
		if have := in.serviceNamed(s.To); s.To != "" && have != nil && apply.IsOwned(have, in.Workload.UID) {
			d.Standing[s.From] = have
		}
	}
	return d
}

// stillRunning is the end of a message about a fork that could not be brought
// up to date.
func (in Input) stillRunning() string {
	if len(in.ownDeployments()) == 0 {
		return ""
	}
	return " (the fork that was made before keeps running)"
}

// baselineName names the baseline in messages.
func (in Input) baselineName() string {
	return in.Workload.Namespace + "/" + in.Workload.Spec.Baseline.Name
}

// otherForks gives our Deployments that have another name: the baseline was
// exchanged in the spec.
func otherForks(in Input, name string) []*appsv1.Deployment {
	var out []*appsv1.Deployment
	for _, d := range in.ownDeployments() {
		if d.Name != name {
			out = append(out, d)
		}
	}
	return out
}

// surplus gives our Services that stand for nothing any more.
func surplus(own []*corev1.Service, wanted []fork.Mapping) []*corev1.Service {
	names := map[string]bool{}
	for _, m := range wanted {
		if m.Service != nil {
			names[m.Service.Name] = true
		}
	}
	var out []*corev1.Service
	for _, s := range own {
		if !names[s.Name] {
			out = append(out, s)
		}
	}
	return out
}

package forkedworkload

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/finding"
	"switchyard.dev/reconcilers/forkedworkload/fork"
)

// Reasons of conditions of a ForkedWorkload, beside those of the packages baseline,
// fork and apply.
const (
	ReasonForkProgressing = "ForkProgressing"
	ReasonForkMissing     = "ForkMissing"
	ReasonForkFailed      = "ForkFailed"
	ReasonScaledToZero    = "ScaledToZero"
	ReasonServiceSilent   = "ServiceSilent"
	ReasonServicesMissing = "ServicesMissing"
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
	pod := in.Baseline.Template.Spec
	clone, problem := fork.Clone(in.Baseline, fork.Plan{
		Identity:        id,
		Patches:         in.Workload.Spec.Patches,
		Resources:       in.Workload.Spec.ResourceTemplateData,
		PreservedLabels: in.Workload.Spec.PreservedLabels,
		Neighbours:      in.neighbours(),
	})
	if problem != nil {
		d.Findings[crdv1.ConditionAccepted] = finding.No(problem.Reason, problem.Message+in.stillRunning())
	} else {
		d.Fork, _ = fork.Writable(clone.Object).(*appsv1.Deployment)
		pod = clone.Template.Spec
		d.SurplusForks = otherForks(in, clone.Object.GetName())
	}
	d.Services = fork.Services(in.Baseline.Template, pod, in.neighbours(), id)
	d.Surplus = surplus(in.ownServices(), d.Services)
	return d
}

// acceptSpec says whether the spec names something that can be forked.
func acceptSpec(w *crdv1.ForkedWorkload) finding.Finding {
	if f := baseline.Accept("spec.baseline", w.Spec.Baseline, w.Namespace); !f.IsYes() {
		return f
	}
	return finding.Yes("Accepted", "The spec is right and its patches apply.")
}

// withoutBaseline says that there is no baseline. What was made stays: without
// pods of the baseline no request can come, and when the baseline is made again
// everything is right at once.
func withoutBaseline(in Input) finding.Findings {
	return finding.Findings{
		crdv1.ConditionAccepted: finding.Open(baseline.ReasonBaselineNotFound, "Patches can only be checked against a baseline."),
		crdv1.ConditionBaselineFound: finding.No(baseline.ReasonBaselineNotFound, fmt.Sprintf(
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

package jobrunnergroup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/jobpod"
)

// Reasons of conditions, in addition to those of jobpod, execunit and apply.
const (
	// ReasonRunnersProgressing: runners are being created, or start.
	ReasonRunnersProgressing = "RunnersProgressing"
	// ReasonRunnersFailed: runners have failed.
	ReasonRunnersFailed = "RunnersFailed"
	// ReasonTooManyReplicas: the group asks for more replicas than it can have.
	ReasonTooManyReplicas = "TooManyReplicas"
	// ReasonPodSecurity: Pod Security of the namespace refuses the pods.
	ReasonPodSecurity = "PodSecurityRefused"
)

// Conclude returns the group with its new status. created are the pods that were created by the decision, and
// refused is the refusal of a Service or a pod; nil for none.
func Conclude(in Input, d Decision, created []crdv1.RunnerPod, refused *apply.Refusal) *crdv1.JobRunnerGroup {
	g, v := in.Group.DeepCopy(), in.view()
	s, replicas := &g.Status, slices.Concat(v.active, v.leaving)
	s.Runners = slices.DeleteFunc(s.Runners, func(r crdv1.RunnerPod) bool {
		return !slices.ContainsFunc(in.Pods, func(p *corev1.Pod) bool { return p.UID == r.UID })
	})
	s.Runners = append(s.Runners, created...)
	s.PodTemplateHash, s.ObservedGeneration = d.Version, g.Generation
	s.Redirection = in.Redirection
	s.Selector = labels.Set(jobpod.Labels(g.Name)).String()
	s.Replicas = number(len(replicas) + len(created))
	s.ReadyReplicas = number(count(replicas, jobpod.Ready))
	s.ReadyIdleReplicas = number(count(v.active, func(p *corev1.Pod) bool { return jobpod.Ready(p) && !in.busy(p) }))
	s.UnavailableReplicas = s.Replicas - s.ReadyReplicas
	s.UpdatedReplicas = number(len(created) + count(replicas, func(p *corev1.Pod) bool { return in.Group.Runner(p.UID).Version == d.Version }))
	s.FailedPhaseReplicas = number(count(v.failed, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed }))
	s.MaxAssignedJobSequenceNum = new(in.highest())
	available := in.available(v, s.ReadyReplicas, refused)
	conditions := condition.Set{crdv1.ConditionAccepted: d.Accepted, crdv1.ConditionRunnersAvailable: available}
	conditions[crdv1.ConditionReady] = conditions.Ready(available.Message, crdv1.ConditionAccepted, crdv1.ConditionRunnersAvailable)
	condition.Write(g, conditions, in.Now)
	return g
}

// number returns a count for a status.
func number(n int) int32 { return int32(n) } //nolint:gosec // The number of pods of a namespace.

// highest returns the highest sequence number of a job that was given to a pod.
func (in Input) highest() int64 {
	highest := int64(-1)
	if in.Group.Status.MaxAssignedJobSequenceNum != nil {
		highest = *in.Group.Status.MaxAssignedJobSequenceNum
	}
	for _, j := range in.Jobs {
		if n, err := strconv.ParseInt(j.Annotations[crdv1.AnnotationJobSequence], 10, 64); err == nil && j.Status.Runner != nil {
			highest = max(highest, n)
		}
	}
	return highest
}

// available returns the condition RunnersAvailable.
func (in Input) available(v view, have int32, refused *apply.Refusal) condition.Condition {
	want := number(wanted(in.Group))
	summary := fmt.Sprintf("Ready runners: %d of %d.", have, want)
	switch {
	case in.ending():
		return condition.False(crdv1.ReasonRunnerGroupDeleted, "The group is being deleted: its jobs are ended, then its pods are deleted.")
	case refused != nil && refused.Reason == apply.ReasonForbidden && strings.Contains(refused.Message, "PodSecurity"):
		return condition.False(ReasonPodSecurity, refused.Message)
	case refused != nil:
		return condition.False(refused.Reason, refused.Message)
	}
	var starting string
	for _, p := range slices.Concat(v.active, v.leaving) {
		if jobpod.Ready(p) {
			continue
		}
		o := in.observe(p)
		if execunit.Blocked(o.Reason) || o.Reason == execunit.ReasonInitFailed {
			return condition.False(o.Reason, engine.Sentence(o.Message))
		}
		if starting == "" {
			starting = progress(p, o)
		}
	}
	switch failed := len(v.failed); {
	case in.Group.Spec.Replicas != nil && *in.Group.Spec.Replicas > MostReplicas:
		return condition.False(ReasonTooManyReplicas, fmt.Sprintf("%s spec.replicas is %d: a group has at most %d. Set it to at most that, and create further groups.", summary, *in.Group.Spec.Replicas, MostReplicas))
	case have >= want && want == 0:
		return condition.True("RunnersAvailable", "No runners are wanted.")
	case have >= want:
		return condition.True("RunnersAvailable", summary)
	case failed > 0 && starting == "":
		p := v.failed[failed-1]
		return condition.False(ReasonRunnersFailed, fmt.Sprintf("%s Pod %s/%s has failed (%s): check it, and delete it.", summary, p.Namespace, p.Name, why(p)))
	}
	return condition.False(ReasonRunnersProgressing, strings.TrimSpace(summary+" "+starting))
}

// why returns the node's reason for the end of a pod.
func why(p *corev1.Pod) string {
	for _, text := range []string{p.Status.Message, p.Status.Reason} {
		if text != "" {
			return condition.OneSentence(fmt.Sprintf("%.400s", text))
		}
	}
	return "no reason is known"
}

// progress returns what a pod that is not ready waits for.
func progress(p *corev1.Pod, o execunit.Observation) string {
	if o.State == execunit.Waiting && o.Message != "" {
		return engine.Sentence(o.Message)
	}
	for _, c := range p.Status.ContainerStatuses {
		if !c.Ready && c.State.Running != nil {
			return fmt.Sprintf("Container %s of pod %s/%s is not ready. If it stays so, check its log.", c.Name, p.Namespace, p.Name)
		}
	}
	return fmt.Sprintf("Pod %s/%s is starting.", p.Namespace, p.Name)
}

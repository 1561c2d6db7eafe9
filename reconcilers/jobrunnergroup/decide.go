package jobrunnergroup

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/workflows/engine"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/jobpod"
)

// Input has all inputs for one group. It must not be changed.
type Input struct {
	// Group is the object.
	Group *crdv1.JobRunnerGroup
	// Pods are the pods with the group as their controller. A pod that the status lists and that is not among
	// them does not exist.
	Pods []*corev1.Pod
	// Jobs are those of the group.
	Jobs []*crdv1.Job
	// Refusal is why the API server refused the last pod, and Retry when the next is to be created; nil: it
	// did not.
	Refusal *apply.Refusal
	Retry   time.Time
	// Settings have the pod template of the operator, and Limits those of pods with results.
	Settings jobpod.Settings
	Limits   Limits
	// Redirection is whether the pods redirect connections; nil: they cannot. Settings agree with it.
	Redirection *crdv1.RunnerRedirection
	// Pulls are the images that are pulled for pods, by the UIDs of these.
	Pulls map[types.UID]*execunit.Pull
	// Now is the time.
	Now metav1.Time
}

// Limits bound how long pods are kept.
type Limits struct {
	// Results is how long results that have not been read are kept. Failed pods are kept as long.
	Results time.Duration
	// Pods is how many pods of a group are kept for their results. 0: as many as it has replicas.
	Pods int
}

// Step is an action on one pod. Its parts are done in this order, each only if the pod has not changed.
type Step struct {
	Pod *corev1.Pod
	// Annotations are written to the pod.
	Annotations map[string]string
	// Dropped is the reason for which its results are dropped, for an Event; empty: they are not.
	Dropped string
	// Delete: the pod is deleted.
	Delete bool
}

// Decision has the next actions for one group.
type Decision struct {
	// Accepted is whether its pods can be created at all.
	Accepted condition.Condition
	// Version is that of pods that are created now.
	Version string
	// Steps are actions on pods, at most one for each.
	Steps []Step
	// Create is the number of pods to create.
	Create int
	// Over: the group is to be deleted, and has no pod.
	Over bool
	// After is the delay until the next reconciliation; 0: none without an event.
	After time.Duration
}

// Decide returns the decision about a group.
func Decide(in Input) Decision {
	d := Decision{Accepted: accept(in), Version: jobpod.Version(in.Group, in.Settings)}
	v := in.view()
	for _, p := range v.strangers {
		d.Steps = append(d.Steps, Step{Pod: p, Delete: true})
	}
	switch {
	case in.ending():
		d.Over = len(in.Pods) == 0
		for _, p := range slices.Concat(v.active, v.leaving) {
			d.remove(in, p, crdv1.DrainingGroupEnds)
		}
	case d.Accepted.IsTrue():
		d.scale(in, v)
	}
	d.kept(in, v)
	d.failed(in, v)
	if in.starting() != nil {
		d.After = wake.Sooner(d.After, askPulls)
	}
	return d
}

// ending reports whether the group is being deleted or is at rest.
func (in Input) ending() bool { return in.Group.DeletionTimestamp != nil }

// MostReplicas bounds a group: its status lists each pod, and an object of the API server has at most 1.5 MB.
const MostReplicas = 1000

// wanted returns the number of replicas that a group asks for and can have.
func wanted(g *crdv1.JobRunnerGroup) int {
	if g.DeletionTimestamp != nil {
		return 0
	}
	if g.Spec.Replicas == nil {
		return 1
	}
	return int(min(max(0, *g.Spec.Replicas), MostReplicas))
}

// view is the pods of a group by their state; each is in one list, or in none while it terminates.
type view struct {
	// strangers were not created by the operator, or not recorded.
	strangers []*corev1.Pod
	// active can get jobs or have one; leaving have a job and get no other. Both are replicas.
	active, leaving []*corev1.Pod
	// ended have had their last job, failed are over.
	ended, failed []*corev1.Pod
}

// view returns the pods by their state, each list sorted by age, the oldest first.
func (in Input) view() (v view) {
	pods := slices.Clone(in.Pods)
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, p := range pods {
		switch {
		case p.DeletionTimestamp != nil:
		case in.Group.Runner(p.UID) == nil:
			v.strangers = append(v.strangers, p)
		case p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded:
			v.failed = append(v.failed, p)
		case draining(p) && in.busy(p):
			v.leaving = append(v.leaving, p)
		case draining(p):
			v.ended = append(v.ended, p)
		default:
			v.active = append(v.active, p)
		}
	}
	return v
}

// draining reports whether a pod gets no further job.
func draining(p *corev1.Pod) bool { return p.Annotations[crdv1.AnnotationDraining] != "" }

// busy reports whether a pod has a job. When the group ends, jobs that have ended no longer count.
func (in Input) busy(p *corev1.Pod) bool {
	uid := p.Labels[crdv1.AssignedJobLabel]
	if uid == "" || !in.ending() {
		return uid != ""
	}
	return slices.ContainsFunc(in.Jobs, func(j *crdv1.Job) bool {
		return string(j.UID) == uid && (j.Status.State == nil || j.Status.State.Terminated == nil)
	})
}

// remove drains a pod, and deletes it if it has no job and no results.
func (d *Decision) remove(in Input, p *corev1.Pod, why string) {
	s := Step{Pod: p, Delete: !in.busy(p) && p.Annotations[crdv1.AnnotationJobResults] != crdv1.JobResultsKept}
	if !draining(p) {
		s.Annotations = map[string]string{crdv1.AnnotationDraining: why}
	}
	if s.Delete || s.Annotations != nil {
		d.Steps = append(d.Steps, s)
	}
}

// scale decides which pods are created and drained for the number of replicas and for the template.
func (d *Decision) scale(in Input, v view) {
	want, have := wanted(in.Group), len(v.active)+len(v.leaving)
	outdated := func(p *corev1.Pod) bool { return in.outdated(p, d.Version) }
	if surplus := len(v.active) - want; surplus > 0 && (have > want+surge(want) || !slices.ContainsFunc(v.active, outdated)) {
		for _, p := range in.first(v.active, outdated)[:surplus] {
			d.remove(in, p, crdv1.DrainingScaledDown)
		}
		return
	}
	old := lists.Filter(v.active, outdated)
	updated := lists.Filter(v.active, func(p *corev1.Pod) bool { return !outdated(p) })
	limit := want
	if len(old) > 0 {
		limit += surge(want)
		d.retire(in, v, old, updated)
	}
	create := min(limit-have, want-len(updated))
	if delay := in.delay(v); create > 0 && delay > 0 {
		create, d.After = 0, wake.Sooner(d.After, delay)
	}
	d.Create = max(0, create)
}

// surge is the maximum number of additional pods while the template changes.
func surge(want int) int { return max(1, want/4) }

// retire drains pods of a previous template: as many as there are ready replicas beyond the wanted number.
func (d *Decision) retire(in Input, v view, old, updated []*corev1.Pod) {
	budget := count(v.active, jobpod.Ready) - wanted(in.Group)
	stuck := func(p *corev1.Pod) bool {
		return !jobpod.Ready(p) && in.observe(p).Reason == execunit.ReasonUnschedulable
	}
	if in.Refusal != nil && in.Refusal.Reason == apply.ReasonQuota || slices.ContainsFunc(updated, stuck) {
		budget++
	}
	for _, p := range in.first(old, func(*corev1.Pod) bool { return true }) {
		switch {
		case !jobpod.Ready(p) && !in.busy(p):
		case budget > 0:
			budget--
		default:
			continue
		}
		d.remove(in, p, crdv1.DrainingOutdated)
	}
}

// outdated reports whether a pod was created from another version, or does not trust the certificates of the
// manager that are to come.
func (in Input) outdated(p *corev1.Pod, version string) bool {
	if r := in.Group.Runner(p.UID); r == nil || r.Version != version {
		return true
	}
	const end = "-----END CERTIFICATE-----"
	trusted := jobpod.CAOf(p)
	for _, c := range strings.SplitAfter(in.Settings.CA, end) {
		if c = strings.TrimSpace(c); strings.HasSuffix(c, end) && !strings.Contains(trusted, c) {
			return true
		}
	}
	return false
}

// first returns pods in the order in which they are removed: without a job, of a previous template, not ready,
// the newest.
func (in Input) first(pods []*corev1.Pod, outdated func(*corev1.Pod) bool) []*corev1.Pod {
	out := slices.Clone(pods)
	slices.Reverse(out)
	rank := func(p *corev1.Pod) (n int) {
		if in.busy(p) {
			n += 4
		}
		if !outdated(p) {
			n += 2
		}
		if jobpod.Ready(p) {
			n++
		}
		return n
	}
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int { return rank(a) - rank(b) })
	return out
}

// count returns the number of pods for which is returns true.
func count(pods []*corev1.Pod, is func(*corev1.Pod) bool) int { return len(lists.Filter(pods, is)) }

// observe returns why a pod is not ready.
func (in Input) observe(p *corev1.Pod) execunit.Observation {
	of := jobpod.ObservedOf(in.Group, p)
	of.Pull = in.Pulls[p.UID]
	return execunit.Observe(of, p)
}

// askPulls is how old a pod is before it is asked for which image it waits, and the pause between two such questions.
const askPulls = 3 * time.Second

// starting returns the oldest pod that starts for no known reason, which is the one that the condition is about; nil:
// there is none.
func (in Input) starting() *corev1.Pod {
	v := in.view()
	for _, p := range slices.Concat(v.active, v.leaving) {
		if !jobpod.Ready(p) {
			if o := in.observe(p); o.State != execunit.Waiting || o.Reason != execunit.ReasonStarting || p.Spec.NodeName == "" {
				return nil
			}
			return p
		}
	}
	return nil
}

// accept returns the condition Accepted.
func accept(in Input) condition.Condition {
	if p := jobpod.Accept(in.Group, in.Settings); p != nil {
		return condition.False(p.Reason, engine.Sentence(p.Message))
	}
	timeout, larger := "30m", "a larger timeout of a job does not count"
	if in.Group.Spec.JobExecutionTimeout != "" {
		timeout = in.Group.Spec.JobExecutionTimeout
	}
	if in.Group.Spec.AllowIncreaseJobExecutionTimeout {
		larger = "a job can have a larger timeout"
	}
	return condition.True("Accepted", "The spec is valid. A job can run for "+timeout+"; "+larger+".")
}

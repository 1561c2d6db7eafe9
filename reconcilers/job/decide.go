package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobpod"
	"switchyard.dev/workflows/jobs"
)

// Input is what counts for the jobs of one group. It must not be changed.
type Input struct {
	// Group is the runner group; nil: there is none.
	Group *crdv1.JobRunnerGroup
	// Jobs are all jobs of the group.
	Jobs []jobs.Input
	// Pods are those of the group that the operator created.
	Pods []*corev1.Pod
	// Absent are the UIDs of jobs that the API server does not have.
	Absent map[types.UID]bool
	// Turns are those of the submitters.
	Turns jobs.Turns
	// Limits are those of finished jobs.
	Limits Limits
	Now    time.Time
}

// A control plane writes a Job again that does not exist, unless it has read its state. So an ended Job with a sequence
// number is kept until its control plane has read it or does not write it again. While the link is down, only the jobs
// that wait in the cluster and those that run end after it; while it is up, the control plane reads it within unread.
const (
	// clocks is the maximum difference between the clocks of a control plane and of a cluster.
	clocks = time.Hour
	// mostUnread is how many such Jobs of a group are kept for crdv1.JobUnanswered and clocks, and unread how long each is.
	mostUnread = 2 * crdv1.MostWaitingJobs
	unread     = 15 * time.Minute
)

// Limits bound how long finished Jobs are kept. A Job that a control plane may not have read is kept for longer.
type Limits struct {
	// Keep is how long a finished Job is kept, and Most the maximum number of a group.
	Keep time.Duration
	Most int
	// Unread is for how long a Job beyond Most is kept with results that were not read.
	Unread time.Duration
}

// Decision is what to write.
type Decision struct {
	// Steps are those of Input.Jobs, in this order.
	Steps []jobs.Step
	// Give are the jobs that get a pod, and Free the other pods that lose their job.
	Give []Give
	Free []Free
	// Released are pods that are kept for results which have been read.
	Released []*corev1.Pod
	// Expired are finished jobs to delete.
	Expired []*crdv1.Job
	// Turns are those afterwards.
	Turns jobs.Turns
	// Unknown are UIDs on pods that are of no job in Input: the API server has to be asked for them.
	Unknown []types.UID
	// After is the delay until the next reconciliation without an event; 0: none.
	After time.Duration
}

// Give is a job that gets a pod.
type Give struct {
	Job *crdv1.Job
	Pod *corev1.Pod
	// Kept: the pod has results of the job before.
	Kept bool
}

// Free is a pod that loses its job.
type Free struct {
	Pod *corev1.Pod
	// Drain is why it gets no other job; empty: it can.
	Drain string
	// Kept: it has results that have not been read.
	Kept bool
}

// Decide returns the decision about the jobs of a group.
func Decide(in Input) Decision {
	d := Decision{Turns: maps.Clone(in.Turns)}
	queue := map[types.UID]*crdv1.Job{}
	at := map[types.UID]int{}
	for i, j := range in.Jobs {
		s := jobs.Next(j)
		d.Steps = append(d.Steps, s)
		d.After = wake.Sooner(d.After, s.After)
		at[j.Job.UID] = i
		if s.Queued {
			queue[j.Job.UID] = j.Job
		}
	}
	idle := d.pods(in, at, queue)
	picked := jobs.Pick(slices.Collect(maps.Values(queue)), len(idle), d.Turns)
	submitters := lists.Set(lists.Map(in.Jobs, func(j jobs.Input) string { return jobs.Submitter(j.Job) }))
	maps.DeleteFunc(d.Turns, func(s string, _ uint64) bool { return !submitters[s] }) // as after a restart
	for i, j := range picked {
		d.Give = append(d.Give, Give{Job: j, Pod: idle[i].Pod, Kept: idle[i].Kept})
	}
	for _, rest := range idle[len(picked):] {
		if rest.Pod.Labels[crdv1.AssignedJobLabel] != "" {
			d.Free = append(d.Free, rest)
		}
	}
	given := lists.Set(lists.Map(d.Give, func(g Give) types.UID { return g.Job.UID }))
	why := in.noPod()
	for i := range d.Steps {
		if s := &d.Steps[i]; s.Queued && !given[in.Jobs[i].Job.UID] {
			s.State = &crdv1.JobState{Waiting: &crdv1.JobWaiting{Reason: why.Reason, Message: why.Message}}
		}
	}
	d.released(in)
	d.expire(in)
	return d
}

// pods decides about each pod, and returns those that can get a job. A pod with the label of a job that
// can begin gets that job, which leaves the queue. A pod that another job needs than that of its label stays as it
// is: the label is written beside the outcome of the job before.
func (d *Decision) pods(in Input, at map[types.UID]int, queue map[types.UID]*crdv1.Job) (idle []Free) {
	var freed []Free
	needed := map[string]types.UID{}
	for i, s := range d.Steps {
		if pod := needs(s); pod != "" {
			needed[pod] = in.Jobs[i].Job.UID
		}
	}
	for _, p := range in.Pods {
		uid, can := types.UID(p.Labels[crdv1.AssignedJobLabel]), in.assignable(p)
		i, known := at[uid]
		job, is := needed[string(p.UID)]
		switch {
		case is && job != uid:
		case uid == "" && can:
			idle = append(idle, Free{Pod: p})
		case uid == "":
		case !known && !in.Absent[uid]:
			d.Unknown = append(d.Unknown, uid)
		case !known:
			freed = append(freed, Free{Pod: p})
		case queue[uid] != nil && can:
			d.Give = append(d.Give, Give{Job: queue[uid], Pod: p})
			delete(queue, uid)
		case !is:
			freed = append(freed, in.free(d.Steps[i], in.Jobs[i].Job, p))
		}
	}
	for _, f := range freed {
		if f.Drain == "" && in.assignable(f.Pod) {
			idle = append(idle, f)
		} else {
			d.Free = append(d.Free, f)
		}
	}
	return idle
}

// needs returns the UID of the pod that a job needs after its step; empty: none.
func needs(s jobs.Step) string {
	if e := s.Execution; e != nil && e.Begun && !s.Settled {
		return e.PodUID
	}
	return ""
}

// free returns how a pod loses a job.
func (in Input) free(s jobs.Step, j *crdv1.Job, p *corev1.Pod) Free {
	f := Free{Pod: p}
	e := j.Status.Execution
	if e == nil || !e.Begun || e.PodUID != string(p.UID) || s.State != nil && s.State.Waiting != nil && s.State.Waiting.Reason == jobs.ReasonNotBegun {
		f.Drain = s.Drain
		return f // The job has not run here.
	}
	f.Kept = s.Execution != nil && s.Execution.Output != nil && s.Execution.Output.State == crdv1.OutputKept
	if f.Drain = s.Drain; f.Drain == "" && (in.Group == nil || !in.Group.Spec.ReusePods) {
		f.Drain = crdv1.DrainingJobEnded
	}
	return f
}

// assignable reports whether a pod can get a job, apart from the one that it has.
func (in Input) assignable(p *corev1.Pod) bool {
	return in.Group != nil && in.Group.DeletionTimestamp == nil &&
		p.Annotations[crdv1.AnnotationDraining] == "" && p.Status.PodIP != "" && jobpod.Ready(p) && containerOf(p) != ""
}

// noPod returns why a job has no pod.
func (in Input) noPod() jobs.Why {
	if in.Group == nil { // No job is in the queue then.
		return jobs.Why{}
	}
	name := in.Group.Namespace + "/" + in.Group.Name
	if slices.ContainsFunc(in.Pods, jobpod.Ready) {
		return jobs.Why{Reason: jobs.ReasonNoIdlePod, Message: fmt.Sprintf("Every ready pod of runner group %s has a job.", name)}
	}
	if n := in.Group.Spec.Replicas; n != nil && *n == 0 {
		return jobs.Why{Reason: jobs.ReasonNoPods, Message: fmt.Sprintf("Runner group %s has no pods, since its spec.replicas is 0. Scale it up.", name)}
	}
	for _, t := range in.Group.ConditionTypes() {
		if c := crdv1.FindCondition(in.Group.Status.Conditions, t); c != nil && c.Status == "False" && c.Message != "" {
			return jobs.Why{Reason: c.Reason, Message: fmt.Sprintf("No pod of runner group %s is ready: %s", name, c.Message)}
		}
	}
	return jobs.Why{Reason: jobs.ReasonPodsNotReady, Message: fmt.Sprintf("No pod of runner group %s is ready yet.", name)}
}

// released adds the pods that are kept for results which no job has any more.
func (d *Decision) released(in Input) {
	kept := map[string]bool{}
	for _, s := range d.Steps {
		if e := s.Execution; e != nil && (e.Output == nil || e.Output.State == crdv1.OutputKept) {
			kept[e.PodUID] = true
		}
	}
	for _, p := range in.Pods {
		if a := p.Annotations; a[crdv1.AnnotationDraining] != "" && a[crdv1.AnnotationJobResults] == crdv1.JobResultsKept &&
			p.Labels[crdv1.AssignedJobLabel] == "" && p.DeletionTimestamp == nil && !kept[string(p.UID)] {
			d.Released = append(d.Released, p)
		}
	}
}

// finished is a job that has ended, and needs no pod.
type finished struct {
	job *crdv1.Job
	at  time.Time
	// unread: its results are in its pod, and were not read. unseen: a control plane may not know its outcome.
	unread, unseen bool
}

// keep returns how long a finished job is kept, with so many newer ones in its group, and so many newer ones that are unseen.
func (f finished) keep(l Limits, newer, unseen int) time.Duration {
	keep := l.Keep
	switch {
	case newer >= l.Most && f.unread:
		keep = min(keep, l.Unread)
	case newer >= l.Most:
		keep = 0
	}
	switch {
	case f.unseen && unseen < mostUnread:
		return max(keep, crdv1.JobUnanswered+clocks)
	case f.unseen:
		return max(keep, unread)
	}
	return keep
}

// expire adds the finished jobs to delete.
func (d *Decision) expire(in Input) {
	var all []finished
	for i, j := range in.Jobs {
		s := d.Steps[i]
		if s.State == nil || s.State.Terminated == nil || s.State.Terminated.FinishedAt == nil || !s.Settled || j.Job.DeletionTimestamp != nil {
			continue
		}
		output := ""
		if s.Execution != nil && s.Execution.Output != nil {
			output = s.Execution.Output.State
		}
		numbered := j.Job.Annotations[crdv1.AnnotationJobSequence] != ""
		all = append(all, finished{j.Job, s.State.Terminated.FinishedAt.Time, output == crdv1.OutputKept, numbered && output != crdv1.OutputReleased})
	}
	slices.SortFunc(all, func(a, b finished) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(a.job.Name, b.job.Name)) })
	unseen := 0
	for newer, f := range all {
		rest := f.keep(in.Limits, newer, unseen) - in.Now.Sub(f.at)
		if f.unseen {
			unseen++
		}
		if rest > 0 {
			d.After = wake.Sooner(d.After, rest)
		} else {
			d.Expired = append(d.Expired, f.job)
		}
	}
}

// containerOf returns the ID of the running main container of a pod; empty: it does not run.
func containerOf(p *corev1.Pod) string {
	name := execunit.MainOf(p.Spec, layout.ProxyContainer)
	for _, c := range p.Status.ContainerStatuses {
		if c.Name == name && c.State.Running != nil {
			return c.ContainerID
		}
	}
	return ""
}

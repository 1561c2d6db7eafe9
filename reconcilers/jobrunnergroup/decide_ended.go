package jobrunnergroup

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/wake"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// endingResults is how long the results of a group that is being deleted are kept.
const endingResults = 30 * time.Second

// kept decides about pods that have had their last job: they are deleted once their results are read, or have
// been kept for long enough, or when there are too many.
func (d *Decision) kept(in Input, v view) {
	limit, atMost := in.Limits.Results, cmp.Or(in.Limits.Pods, max(1, wanted(in.Group)))
	if in.ending() {
		limit = min(limit, endingResults)
	}
	var keep []*corev1.Pod
	for _, p := range v.ended {
		if p.Annotations[crdv1.AnnotationJobResults] != crdv1.JobResultsKept {
			d.Steps = append(d.Steps, Step{Pod: p, Delete: true})
			continue
		}
		since, known := keptSince(p)
		if !known {
			d.Steps = append(d.Steps, Step{Pod: p, Annotations: map[string]string{crdv1.AnnotationJobResultsSince: in.Now.UTC().Format(time.RFC3339)}})
			since = in.Now.Time
		}
		if in.ending() && in.Group.DeletionTimestamp.After(since) {
			since = in.Group.DeletionTimestamp.Time
		}
		if left := since.Add(limit).Sub(in.Now.Time); left > 0 {
			d.After = wake.Sooner(d.After, left)
			keep = append(keep, p)
		} else if known {
			d.drop(p, fmt.Sprintf("The results were kept for %s and not read.", limit))
		}
	}
	// Pods that are drained for another reason than their jobs do not become more and more.
	byJobs := slices.DeleteFunc(keep, func(p *corev1.Pod) bool {
		_, known := keptSince(p)
		why := p.Annotations[crdv1.AnnotationDraining]
		return !known || why != crdv1.DrainingJobEnded && why != crdv1.DrainingLeftover
	})
	slices.SortStableFunc(byJobs, func(a, b *corev1.Pod) int {
		x, _ := keptSince(a)
		y, _ := keptSince(b)
		return x.Compare(y)
	})
	for len(byJobs) > atMost {
		d.drop(byJobs[0], fmt.Sprintf("The results were not read, and more than %d pods of the group kept results.", atMost))
		byJobs = byJobs[1:]
	}
}

// keptSince returns since when the results of a pod are kept; false if the pod has no valid time.
func keptSince(p *corev1.Pod) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, p.Annotations[crdv1.AnnotationJobResultsSince])
	return at, err == nil
}

// drop deletes a pod with results.
func (d *Decision) drop(p *corev1.Pod, why string) {
	d.Steps = append(d.Steps, Step{Pod: p, Delete: true, Dropped: why, Annotations: map[string]string{
		crdv1.AnnotationJobResults: crdv1.JobResultsDropped, crdv1.AnnotationJobResultsDropped: why,
	}})
}

// Failed pods are kept for people, at least leastFailed of them, so that the delay of their replacements grows.
const leastFailed = 2

// failed decides about pods that are over: they are drained, and deleted when they are old or too many.
func (d *Decision) failed(in Input, v view) {
	pods := slices.Clone(v.failed)
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return failedAt(a).Compare(failedAt(b)) })
	for i, p := range pods {
		left := failedAt(p).Add(in.Limits.Results).Sub(in.Now.Time)
		s := Step{Pod: p, Delete: in.ending() || left <= 0 || len(pods)-i > max(leastFailed, wanted(in.Group))}
		if !draining(p) {
			s.Annotations = map[string]string{crdv1.AnnotationDraining: crdv1.DrainingFailed}
		}
		if s.Delete || s.Annotations != nil {
			d.Steps = append(d.Steps, s)
		}
		if !s.Delete {
			d.After = wake.Sooner(d.After, left)
		}
	}
}

// failedAt returns when a pod failed, as well as it is known.
func failedAt(p *corev1.Pod) time.Time {
	at := p.CreationTimestamp.Time
	for _, c := range p.Status.Conditions {
		if c.LastTransitionTime.After(at) {
			at = c.LastTransitionTime.Time
		}
	}
	return at
}

// The delay of a replacement after several pods have failed: it doubles with each.
const firstDelay, longestDelay = 10 * time.Second, 5 * time.Minute

// delay returns how long no pod is created, because the API server refused the last one or several have failed;
// 0: one can be created.
func (in Input) delay(v view) time.Duration {
	wait := time.Duration(0)
	if in.Refusal != nil {
		wait = max(0, in.Retry.Sub(in.Now.Time))
	}
	if n := len(v.failed); n >= leastFailed {
		last := slices.MaxFunc(v.failed, func(a, b *corev1.Pod) int { return failedAt(a).Compare(failedAt(b)) })
		backoff := min(longestDelay, firstDelay<<min(n-leastFailed, 6))
		wait = max(wait, failedAt(last).Add(backoff).Sub(in.Now.Time))
	}
	return wait
}

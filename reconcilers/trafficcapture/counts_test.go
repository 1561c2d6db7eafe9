package trafficcapture

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
)

func TestCapturesOfSomeRequestsAreKnownIfEachReplicaKnowsThem(t *testing.T) {
	replica := func(ready bool) (p corev1.Pod) {
		p.Status.Phase, p.Status.ContainerStatuses = corev1.PodRunning, []corev1.ContainerStatus{{Ready: ready}}
		return p
	}
	ready, starting, lost := replica(true), replica(false), replica(true)
	lost.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	current, old := &trafficv1.Counts{Restricts: true, Evicted: 1}, &trafficv1.Counts{}
	for name, c := range map[string]struct {
		replicas []corev1.Pod
		answers  []*trafficv1.Counts
		want     bool
	}{
		"all of this release":                  {[]corev1.Pod{ready, ready}, []*trafficv1.Counts{current, current}, true},
		"one of an earlier release":            {[]corev1.Pod{ready, ready}, []*trafficv1.Counts{current, old}, false},
		"one of it that is not ready":          {[]corev1.Pod{starting, ready}, []*trafficv1.Counts{old, current}, false},
		"one that does not answer":             {[]corev1.Pod{ready, ready}, []*trafficv1.Counts{nil, current}, false},
		"one on a node that does not answer":   {[]corev1.Pod{lost, ready}, []*trafficv1.Counts{nil, current}, true},
		"one that is not ready and is silent":  {[]corev1.Pod{ready, starting}, []*trafficv1.Counts{current, nil}, true},
		"one that is not ready and is current": {[]corev1.Pod{ready, starting}, []*trafficv1.Counts{current, current}, true},
	} {
		if got := merge(c.replicas, c.answers); got == nil || got.GetRestricts() != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := merge([]corev1.Pod{starting}, []*trafficv1.Counts{nil}); got != nil {
		t.Errorf("without an answer: %v", got)
	}
}

package execunit_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/workflows/execunit"
)

// A pod that is starting states which image is pulled, as the newest Events of its kubelet report.
func TestAPullIsStated(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	event := func(pod, reason, path string, seconds int) corev1.Event {
		return corev1.Event{Reason: reason, LastTimestamp: metav1.NewTime(at.Add(time.Duration(seconds) * time.Second)),
			InvolvedObject: corev1.ObjectReference{UID: "p", Name: pod, FieldPath: path}}
	}
	const main, first = "spec.containers{main}", "spec.initContainers{prepare}"
	other := event("p", "Pulling", main, 1)
	other.InvolvedObject.UID = "former"
	for name, tt := range map[string]struct {
		events []corev1.Event
		want   string
	}{
		"no Events":                     {nil, "is starting."},
		"pulling":                       {[]corev1.Event{event("p", "Pulling", main, 1)}, `the image "runner:1" of its container main is being pulled since 12:00:01 UTC.`},
		"pulled":                        {[]corev1.Event{event("p", "Pulled", main, 2), event("p", "Pulling", main, 1)}, "is starting."},
		"pulled within the same second": {[]corev1.Event{event("p", "Pulling", main, 1), event("p", "Pulled", main, 1)}, "is starting."},
		"failed, and pulled again":      {[]corev1.Event{event("p", "Pulling", main, 9), event("p", "Failed", main, 4)}, "since 12:00:09 UTC"},
		"pulled for an init container":  {[]corev1.Event{event("p", "Pulling", main, 1), event("p", "Pulling", first, 1)}, `"prepare:1" of its container prepare`},
		"a former pod":                  {[]corev1.Event{other}, "is starting."},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", InitContainers: []corev1.Container{{Name: "prepare", Image: "prepare:1"}}, Containers: []corev1.Container{{Name: "main", Image: "runner:1"}}}}
		pod.UID, pod.Status.Phase = "p", corev1.PodPending
		waits := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "prepare", State: waits}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: waits}}
		o := execunit.Observe(execunit.Observed{Main: "main", Pull: execunit.PullOf(pod, tt.events)}, pod)
		if o.State != execunit.Waiting || o.Reason != execunit.ReasonStarting || !strings.Contains(o.Message, tt.want) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

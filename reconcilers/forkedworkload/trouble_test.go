package forkedworkload_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/forkedworkload"
)

func waiting(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

// ended is the status of a container that has ended twice before, and is now in a state.
func ended(code int32, reason, message string, now corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "main", RestartCount: 2, State: now, LastTerminationState: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message},
	}}
}

func forkPod(name string, statuses ...corev1.ContainerStatus) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: statuses}}
}

// formOf is a pod of a form of the fork, made after so many seconds.
func formOf(form string, after int, statuses ...corev1.ContainerStatus) corev1.Pod {
	p := forkPod(form, statuses...)
	p.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: form}
	p.CreationTimestamp = metav1.NewTime(now.Add(time.Duration(after) * time.Second))
	return p
}

func TestCausesOfAForkThatDoesNotStart(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	backOff := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting"}}
	lost := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available: 1 Insufficient cpu."},
	}}}
	initFails := forkPod("p", waiting("PodInitializing", ""))
	initFails.Status.InitContainerStatuses = []corev1.ContainerStatus{ended(3, "Error", "", backOff)}
	initDone := forkPod("p", waiting("PodInitializing", ""))
	initDone.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}}}
	deleted := forkPod("p", waiting("ErrImagePull", "x"))
	deleted.DeletionTimestamp = &now
	once, first := ended(1, "Error", "", running), corev1.ContainerStatus{Name: "main",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}}
	once.RestartCount = 1
	second, kept := first, ended(1, "Error", "", backOff)
	second.RestartCount, kept.RestartCount = 1, 1
	const crash = "pod p, container main ends each time it is started, last with exit code 1 (Error)"
	tests := []struct {
		name         string
		pods         []corev1.Pod
		reason, says string
	}{
		{"an image cannot be pulled, and it is tried again", []corev1.Pod{forkPod("p", waiting("ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: not found`))},
			forkedworkload.ReasonImagePull, "pod p, container main: its image cannot be pulled: not found"},
		{"while that is tried the same is said", []corev1.Pod{forkPod("p", waiting("ErrImagePull", "not found"))},
			forkedworkload.ReasonImagePull, "pod p, container main: its image cannot be pulled: not found"},
		{"a ConfigMap is not there", []corev1.Pod{forkPod("p", waiting("CreateContainerConfigError", `configmap "settings" not found`))},
			forkedworkload.ReasonConfigError, `container main cannot be made: configmap "settings" not found`},
		{"a container ends again and again", []corev1.Pod{forkPod("p", ended(1, "Error", "", backOff))}, forkedworkload.ReasonCrashLoop, crash},
		{"while it runs once more the same is said", []corev1.Pod{forkPod("p", ended(1, "Error", "", running))}, forkedworkload.ReasonCrashLoop, crash},
		{"when it has just ended the same is said", []corev1.Pod{forkPod("p", second)}, forkedworkload.ReasonCrashLoop, crash},
		{"one that has ended and is kept from starting ends again and again", []corev1.Pod{forkPod("p", kept)}, forkedworkload.ReasonCrashLoop, crash},
		{"one that has just ended for the first time is started again", []corev1.Pod{forkPod("p", first)}, forkedworkload.ReasonForkProgressing, "0 of 1"},
		{"one that has ended once may serve now", []corev1.Pod{forkPod("p", once)}, forkedworkload.ReasonForkProgressing, "0 of 1"},
		{"a program that does its work and ends is not one that serves", []corev1.Pod{forkPod("p", ended(0, "Completed", "", backOff))},
			forkedworkload.ReasonCrashLoop, "exit code 0 (Completed)"},
		{"a command is not there", []corev1.Pod{forkPod("p", ended(128, "StartError", `exec: "serve": not found`, backOff))},
			forkedworkload.ReasonCrashLoop, `exit code 128 (StartError): exec: "serve": not found`},
		{"an init container ends again and again", []corev1.Pod{initFails}, forkedworkload.ReasonCrashLoop, "init container main ends each time"},
		{"no node takes the pod", []corev1.Pod{lost}, forkedworkload.ReasonUnschedulable, "pod p gets no node: 0/1 nodes are available: 1 Insufficient cpu."},
		{"of several the most telling is said, whatever their order", []corev1.Pod{forkPod("p", ended(1, "Error", "", backOff)), forkPod("q", waiting("ErrImagePull", "no"))},
			forkedworkload.ReasonImagePull, "pod q"},
		{"of several alike it is always the same one", []corev1.Pod{forkPod("q", waiting("ErrImagePull", "no")), forkPod("p", waiting("ErrImagePull", "no"))},
			forkedworkload.ReasonImagePull, "pod p"},
		{"an init container that has done its work is no trouble", []corev1.Pod{initDone}, forkedworkload.ReasonForkProgressing, "new pods ready: 0 of 1"},
		{"a pod that starts is no trouble", []corev1.Pod{forkPod("p", waiting("ContainerCreating", ""))}, forkedworkload.ReasonForkProgressing, "new pods ready: 0 of 1"},
		{"a pod that is being deleted is none of it", []corev1.Pod{deleted}, forkedworkload.ReasonForkProgressing, "new pods ready: 0 of 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.deployment().Status.AvailableReplicas = 0
			w.in.ForkPods = tt.pods
			_, after := w.decide(w.in.Workload)
			checkCondition(t, after, crdv1.ConditionForkAvailable, "False", tt.reason, tt.says)
			checkCondition(t, after, crdv1.ConditionReady, "False", tt.reason, tt.says)
		})
	}
	t.Run("a fork that serves is available, whatever a pod of its last form waits for", func(t *testing.T) {
		w := newWorld()
		w.in.ForkPods = []corev1.Pod{forkPod("p", waiting("ErrImagePull", "x"))}
		_, after := w.decide(w.in.Workload)
		checkCondition(t, after, crdv1.ConditionForkAvailable, "True", "ForkAvailable", "")
	})
	t.Run("what a pod of a former form waits for is mended already", func(t *testing.T) {
		for name, pods := range map[string][]corev1.Pod{
			"its successor starts":       {formOf("old", 0, waiting("ErrImagePull", "x")), formOf("new", 5, waiting("ContainerCreating", ""))},
			"its successor is still due": {formOf("old", 0, waiting("ErrImagePull", "x"))},
		} {
			w := newWorld()
			w.deployment().Status.AvailableReplicas, w.deployment().Status.UpdatedReplicas = 0, int32(len(pods)-1)
			w.in.ForkPods = pods
			_, after := w.decide(w.in.Workload)
			t.Log(name)
			checkCondition(t, after, crdv1.ConditionForkAvailable, "False", forkedworkload.ReasonForkProgressing, "new pods ready: 0 of 1")
		}
	})
	t.Run("a new form that is broken does not count those of the former one that serve", func(t *testing.T) {
		w := newWorld()
		w.deployment().Status.Replicas, w.deployment().Status.UpdatedReplicas, w.deployment().Status.AvailableReplicas = 2, 1, 1
		w.in.ForkPods = []corev1.Pod{formOf("old", 0), formOf("new", 5, waiting("ContainerCreating", ""))}
		_, after := w.decide(w.in.Workload)
		checkCondition(t, after, crdv1.ConditionForkAvailable, "False", forkedworkload.ReasonForkProgressing, "new pods ready: 0 of 1")
		w.in.ForkPods[1] = formOf("new", 5, waiting("ErrImagePull", "x"))
		_, after = w.decide(w.in.Workload)
		checkCondition(t, after, crdv1.ConditionForkAvailable, "False", forkedworkload.ReasonImagePull, "pod new")
	})
	t.Run("what the API server refuses goes before what a pod waits for", func(t *testing.T) {
		w := newWorld()
		w.deployment().Status.AvailableReplicas = 0
		w.deployment().Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: "True", Message: "exceeded quota: compute"}}
		w.in.ForkPods = []corev1.Pod{forkPod("p", waiting("ErrImagePull", "x"))}
		_, after := w.decide(w.in.Workload)
		checkCondition(t, after, crdv1.ConditionForkAvailable, "False", forkedworkload.ReasonPodsRefused, "exceeded quota: compute")
	})
}

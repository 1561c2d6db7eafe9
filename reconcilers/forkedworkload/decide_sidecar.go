package forkedworkload

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/finding"
	"switchyard.dev/sidecars/devmesh"
)

// ConditionSidecarsReady is a condition that we add to those of a
// ForkedWorkload: every pod of the baseline has a ready DevMesh sidecar. It is
// about routing and does not count for Ready.
const ConditionSidecarsReady = "SidecarsReady"

// shownPods is how many pods a message names.
const shownPods = 3

// sidecars says whether requests to the baseline meet a sidecar in every pod.
// Without any pod it is the pod template that counts.
func sidecars(in Input) finding.Finding {
	if in.Baseline == nil {
		return finding.Open(ReasonBaselineNotFound, "There is no baseline.")
	}
	var absent, notReady []string
	count := 0
	for i := range in.Pods {
		pod := &in.Pods[i]
		if !counts(pod) {
			continue
		}
		count++
		switch present, ready := sidecarOf(pod); {
		case !present:
			absent = append(absent, pod.Name)
		case !ready:
			notReady = append(notReady, pod.Name)
		}
	}
	name := in.baselineName()
	asked := asksForSidecar(in.Baseline.Spec.Template.Annotations)
	switch {
	case len(absent) == 0 && len(notReady) == 0 && (count > 0 || asked):
		return finding.Yes("SidecarsReady", fmt.Sprintf("Every pod of %s has a ready DevMesh Sidecar.", name))
	case !asked && len(absent) == count:
		return finding.No(ReasonSidecarAbsent, fmt.Sprintf(
			"DevMesh Sidecar absent on baseline %s: annotate its pod template with %s: \"true\"", name, crdv1.AnnotationInject))
	case len(absent) > 0:
		return finding.No(ReasonSidecarAbsent, fmt.Sprintf(
			"DevMesh Sidecar absent on baseline %s: %d of %d pods started without it (%s): restart them with kubectl rollout restart -n %s deployment/%s",
			name, len(absent), count, shown(absent), in.Baseline.Namespace, in.Baseline.Name))
	default:
		return finding.No(ReasonSidecarNotReady, fmt.Sprintf(
			"DevMesh Sidecar not ready on baseline %s: %d of %d pods (%s)", name, len(notReady), count, shown(notReady)))
	}
}

// counts says whether requests can reach the pod.
func counts(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Labels[crdv1.LabelForkedWorkload] == "" &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// sidecarOf looks for the sidecar, which is a container or, as a native
// sidecar, an init container that keeps running.
func sidecarOf(pod *corev1.Pod) (present, ready bool) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for _, s := range statuses {
			if s.Name == devmesh.ContainerName {
				return true, s.Ready
			}
		}
	}
	has := func(c corev1.Container) bool { return c.Name == devmesh.ContainerName }
	return slices.ContainsFunc(pod.Spec.Containers, has) || slices.ContainsFunc(pod.Spec.InitContainers, has), false
}

// asksForSidecar says whether a pod template asks for a sidecar, in the present
// way or one of the older ones.
func asksForSidecar(annotations map[string]string) bool {
	switch annotations[crdv1.AnnotationInject] {
	case "true", "http", "grpc":
		return true
	}
	return false
}

// shown lists the first few names.
func shown(names []string) string {
	slices.Sort(names)
	if len(names) > shownPods {
		return strings.Join(names[:shownPods], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

package coverage

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/redirect/spec"
)

// State is where a pod stands with its sidecar.
type State string

// The states.
const (
	OK       State = "ok"
	Behind   State = "behind"
	Outdated State = "outdated"
	NotReady State = "not_ready"
	Missing  State = "missing"
	// NotNeeded is the state of a pod without a sidecar that needs none.
	NotNeeded State = "not_needed"
)

// States returns all of them, the best first.
func States() []State { return []State{OK, NotNeeded, Behind, Outdated, NotReady, Missing} }

// Pod is what counts of a pod. Two that are equal make the same Report.
type Pod struct {
	// Namespace and Name are the pod's.
	Namespace, Name string
	// Present reports whether it has a sidecar, Ready whether that is ready.
	Present, Ready bool
	// Injected are its settings from the injection.
	Injected inject.Settings
	// Plain lists the ports that the sidecar passes on untouched, Except those that bypass it,
	// in the form of the containers' environment.
	Plain, Except string
	// Beside is the container of another product's proxy (inject.ProxyOf), which the pod has beside
	// its sidecar; empty when it has none.
	Beside string
	// Edge means that the sidecar removes routing keys from incoming requests.
	Edge bool
	// Pending means that the pod is pending, and that its sidecar has not started yet.
	Pending bool
	// Processed is the annotation with the reason why it has no sidecar; empty when there is
	// none.
	Processed string
}

// Counts reports whether requests to the baseline can reach a pod: forks, and pods
// that have ended or are going, do not count.
func Counts(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Labels[crdv1.LabelForkedWorkload] == "" &&
		pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// PodOf takes what counts out of a pod. The sidecar is a container or, as a
// native sidecar, an init container that keeps running.
func PodOf(pod *corev1.Pod) Pod {
	p := Pod{Namespace: pod.Namespace, Name: pod.Name, Processed: pod.Annotations[crdv1.AnnotationProcessed], Injected: inject.SettingsOf(pod)}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if _, other := inject.ProxyOf(containers[i].Name); other {
				p.Beside = cmp.Or(p.Beside, containers[i].Name)
			}
			switch containers[i].Name {
			case devmesh.ContainerName:
				p.Present = true
				p.Edge = inject.Variable(containers[i].Env, devmesh.EnvEdge) == devmesh.EdgeYes
				p.Plain = cmp.Or(inject.Variable(containers[i].Env, devmesh.EnvPlainPorts), spec.Join(devmesh.DefaultPlainPorts()))
			case devmesh.InitContainerName:
				p.Except = inject.Variable(containers[i].Env, spec.EnvExcept)
			}
		}
	}
	p.Pending = pod.Status.Phase == corev1.PodPending
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == devmesh.ContainerName {
				p.Present, p.Ready = true, p.Ready || statuses[i].Ready
				p.Pending = p.Pending && !started(&statuses[i])
			}
		}
	}
	if !p.Present {
		p.Beside = ""
	}
	return p
}

// started reports whether a container has run, so that it may have a log. A native
// sidecar that does not get ready keeps its pod Pending.
func started(s *corev1.ContainerStatus) bool {
	return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil || s.RestartCount > 0
}

// Connected contains, by namespace/name, the pods with a sidecar that is connected to a route
// server, and whether each has acknowledged its current routes. nil means that the connections
// are not known.
type Connected map[string]bool

// stateOf returns where a pod stands.
func stateOf(p Pod, now inject.Settings, connected Connected) State {
	switch {
	case !p.Present:
		return Missing
	case !p.Ready:
		return NotReady
	case len(p.Injected.Outdated(now)) > 0:
		return Outdated
	case connected != nil && !connected[p.Namespace+"/"+p.Name]:
		return Behind
	}
	return OK
}

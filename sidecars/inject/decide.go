package inject

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect/spec"
)

// Annotations and labels of users, and the results.
const (
	// AnnotationInject on a pod, or the label of the same name on a namespace,
	// asks for a sidecar.
	AnnotationInject = crdv1.AnnotationInject
	// AnnotationProcessed on a pod is the result of the request: Injected, or why not.
	AnnotationProcessed = crdv1.AnnotationProcessed
	// AnnotationExcludePorts lists TCP ports that bypass the sidecar, separated
	// by commas.
	AnnotationExcludePorts = "sidecar.signadot.com/exclude-ports"
	// AnnotationPlainPorts lists TCP ports, separated by commas, that pass the
	// sidecar untouched and at once, because their server speaks first; "none" for
	// none.
	AnnotationPlainPorts = "sidecar.signadot.com/plain-ports"
	// AnnotationEdge means that requests come from outside the cluster: the sidecar removes
	// their routing keys. Any value but "false" does.
	AnnotationEdge = "sidecar.signadot.com/edge"
	// AnnotationLogLevel sets log levels: LEVEL[,CONTAINER=LEVEL]*.
	AnnotationLogLevel = "signadot.com/log-level"
	// LabelInjected is on every pod that got its sidecar: the manager finds it by that.
	LabelInjected = crdv1.LabelInjected
	// LabelFork marks the pods of forks, which never get a sidecar.
	LabelFork = crdv1.LabelForkedWorkload
	// LabelWebhooks on a namespace, with the value "disabled", keeps our
	// webhooks out of it.
	LabelWebhooks = "signadot.com/admission-webhooks"
)

// Injected is the value of AnnotationProcessed on a pod that got its sidecar.
const Injected = "injected"

const (
	annotationMirror   = "kubernetes.io/config.mirror"
	labelPodSecurity   = "pod-security.kubernetes.io/enforce"
	labelOS            = "kubernetes.io/os"
	webhooksDisabled   = "disabled"
	podSecurityAllowed = "privileged"
)

// Namespace has the known properties of the namespace a pod is created in.
type Namespace struct {
	// Name is its name.
	Name string
	// Labels are its labels; nil when they are not known, which counts as none.
	Labels map[string]string
	// Selected means that the API server found the opt-in label on it, which it does when a
	// webhook's namespaceSelector asks for the label. It replaces Labels where the manager is
	// not allowed to read namespaces.
	Selected bool
	// Confined means that the API server found a pod security level enforced on it that allows
	// no sidecar, where Labels do not show it.
	Confined bool
}

// Decision reports whether a pod gets a sidecar.
type Decision struct {
	// Asked reports whether the pod or its namespace asked for a sidecar. A pod
	// that did not is not touched.
	Asked bool
	// Inject reports whether it gets one.
	Inject bool
	// Reason explains, for people, why it gets none; empty when Inject is true.
	Reason string
	// Workload is what the pod belongs to, when Inject is true.
	Workload Workload
	// Ports are the redirected ports, when Inject is true.
	Ports spec.Spec
	// Plain are those of the redirected ports, ascending, that the sidecar passes
	// on untouched and at once, when Inject is true. They need not be in use.
	Plain []uint16
	// Edge reports whether its sidecar takes out routing keys, when Inject is true.
	Edge bool
}

// Decide reports whether a pod that is being created in a namespace gets a
// sidecar.
func Decide(pod *corev1.Pod, ns Namespace, cfg Config) Decision {
	asked, reason := optedIn(pod, ns)
	if !asked {
		return Decision{Reason: reason}
	}
	if hasSidecar(pod) {
		// Not asked any more: an earlier call has answered, and the second call
		// of a webhook must leave no other trace than the first.
		return Decision{Reason: "the pod has its sidecar already"}
	}
	workload, noWorkload := OwnerOf(pod, ns.Name)
	ports, badPorts := redirected(pod, devmesh.ListenerPort, OwnPorts())
	plain, badPlain := plainPorts(pod)
	_, badResources := cfg.sizedFor(pod)
	// Of several obstacles people read the first.
	if reason := cmp.Or(placeObstacle(ns), podObstacle(pod), nameObstacle(pod), proxyObstacle(pod, ns), noWorkload, badPorts, portObstacle(pod), badPlain, badResources, trustObstacle(cfg)); reason != "" {
		return Decision{Asked: true, Reason: reason}
	}
	return Decision{Asked: true, Inject: true, Workload: workload, Ports: ports, Plain: plain, Edge: isEdge(pod)}
}

// trustObstacle returns why a sidecar could not speak with route servers.
func trustObstacle(cfg Config) string {
	if cfg.TLS && cfg.Trust == "" {
		return "the operator has no certificate authority yet: re-create the pod once the controller manager is ready"
	}
	return ""
}

// optedIn reports whether a sidecar is asked for; the pod's word wins over the
// namespace's.
func optedIn(pod *corev1.Pod, ns Namespace) (bool, string) {
	if value, said := pod.Annotations[AnnotationInject]; said {
		return Asks(value), fmt.Sprintf("annotation %s on the pod is %q", AnnotationInject, value)
	}
	return ns.Selected || Asks(ns.Labels[AnnotationInject]),
		fmt.Sprintf("neither the pod has the annotation nor the namespace the label %s", AnnotationInject)
}

// Asks reports whether this value of AnnotationInject asks for a sidecar, in the present way
// or one of the older ones.
func Asks(value string) bool {
	return slices.Contains([]string{"true", "http", "grpc"}, value)
}

func hasSidecar(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers),
		func(c corev1.Container) bool { return c.Name == devmesh.ContainerName })
}

// placeObstacle returns what about the namespace forbids a sidecar.
func placeObstacle(ns Namespace) string {
	if slices.Contains(excludedNamespaces, ns.Name) {
		return "namespace " + ns.Name + " is excluded: sidecars are for applications, not for the cluster's own pods"
	}
	if ns.Labels[LabelWebhooks] == webhooksDisabled {
		return fmt.Sprintf("namespace %s has the label %s=%s", ns.Name, LabelWebhooks, webhooksDisabled)
	}
	if level := ns.Labels[labelPodSecurity]; ns.Confined || level != "" && level != podSecurityAllowed {
		return fmt.Sprintf("namespace %s enforces a pod security level (label %s), which forbids NET_ADMIN to the redirecting init container: set it to %s",
			ns.Name, labelPodSecurity, podSecurityAllowed)
	}
	return ""
}

// podObstacle returns what about the pod forbids a sidecar.
func podObstacle(pod *corev1.Pod) string {
	_, fork := pod.Labels[LabelFork]
	_, mirror := pod.Annotations[annotationMirror]
	windows := pod.Spec.NodeSelector[labelOS] == string(corev1.Windows) ||
		pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows
	switch {
	case fork:
		return "the pod is a fork; only baselines get a sidecar"
	case mirror:
		return "the pod is the mirror of a static pod, which no webhook can change"
	case pod.Spec.HostNetwork:
		return "the pod uses the node's network, and its traffic must not be redirected: set hostNetwork to false"
	case windows:
		return "the pod runs on Windows; the sidecar needs Linux"
	case pod.Spec.ServiceAccountName == "":
		// The API server refuses a token in such a pod. Where the usual admission plugin is on,
		// it has filled in "default" before this webhook.
		return "the pod has no service account, and the sidecar authenticates with its token: set serviceAccountName"
	}
	return ""
}

// nameObstacle finds a name of the sidecar's that the pod uses for something else. Adding it
// twice would make the API server refuse the pod.
func nameObstacle(pod *corev1.Pod) string {
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if c.Name == devmesh.InitContainerName {
			return "the pod has a container called " + devmesh.InitContainerName + ", which is the sidecar's: rename it"
		}
	}
	for _, ours := range volumes() {
		for _, v := range pod.Spec.Volumes {
			if v.Name == ours.Name {
				return "the pod has a volume called " + v.Name + ", which is the sidecar's: rename it"
			}
		}
	}
	return ""
}

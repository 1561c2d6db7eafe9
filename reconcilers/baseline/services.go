package baseline

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// Selects says whether a Service leads to pods made from the template, and is to be
// routed: it has a selector that matches, is not an ExternalName, and has not the
// annotation routing.signadot.com/ignore.
func Selects(s *corev1.Service, template *corev1.PodTemplateSpec) bool {
	return s.Spec.Type != corev1.ServiceTypeExternalName && s.Annotations[crdv1.AnnotationIgnore] != "true" &&
		ledTo(s)(template.Labels)
}

// ledTo says to the pods with which labels a Service leads; to none without a
// selector. The hash that Argo puts into selectors, so that a Service leads to one form
// of a Rollout for now, does not count: the next form is as much the baseline's.
func ledTo(s *corev1.Service) func(pod map[string]string) bool {
	wanted := maps.Clone(s.Spec.Selector)
	delete(wanted, RolloutHash)
	if len(wanted) == 0 {
		return func(map[string]string) bool { return false }
	}
	selector := labels.SelectorFromSet(wanted)
	return func(pod map[string]string) bool { return selector.Matches(labels.Set(pod)) }
}

// ListensOn resolves the target of a Service port to the number of a port of
// the pod; false when it is a name that no container has.
func ListensOn(pod corev1.PodSpec, p corev1.ServicePort) (int32, bool) {
	if p.TargetPort.Type == intstr.Int {
		if p.TargetPort.IntVal == 0 {
			return p.Port, true
		}
		return p.TargetPort.IntVal, true
	}
	for _, c := range Running(pod) {
		for _, port := range c.Ports {
			if port.Name == p.TargetPort.StrVal && ProtocolOf(port.Protocol) == ProtocolOf(p.Protocol) {
				return port.ContainerPort, true
			}
		}
	}
	return 0, false
}

// Running gives the containers of a pod that run at the same time: all, and of the
// init containers those that keep running beside them.
func Running(pod corev1.PodSpec) []corev1.Container {
	out := make([]corev1.Container, 0, len(pod.Containers)+len(pod.InitContainers))
	out = append(out, pod.Containers...)
	for _, c := range pod.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			out = append(out, c)
		}
	}
	return out
}

// ProtocolOf gives the protocol, which is TCP when none is written.
func ProtocolOf(p corev1.Protocol) corev1.Protocol {
	if p == "" {
		return corev1.ProtocolTCP
	}
	return p
}

package inject

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/sidecars/redirect/spec"
)

// redirected returns which inbound connections of a pod go to its sidecar, which listens on to
// and has the ports own: all but those excluded. If the pod cannot have a sidecar, it returns
// the reason, for people.
func redirected(pod *corev1.Pod, to uint16, own []uint16) (spec.Spec, string) {
	excluded, err := spec.Split(pod.Annotations[AnnotationExcludePorts])
	if err != nil {
		return spec.Spec{}, fmt.Sprintf("annotation %s: %v", AnnotationExcludePorts, err)
	}
	declared := declaredPorts(pod)
	for _, port := range own {
		if slices.Contains(declared, port) {
			return spec.Spec{}, fmt.Sprintf("container port %d is the sidecar's own: use another for the workload", port)
		}
	}
	if len(declared) > 0 && !slices.ContainsFunc(declared, func(p uint16) bool { return !slices.Contains(excluded, p) }) {
		return spec.Spec{}, fmt.Sprintf("annotation %s excludes every container port: no traffic is left to route",
			AnnotationExcludePorts)
	}
	s := spec.Spec{All: true, Except: spec.Normalize(slices.Concat(excluded, own)), To: to}
	if err := s.Validate(); err != nil {
		return spec.Spec{}, err.Error()
	}
	return s, ""
}

// declaredPorts are the TCP ports of the containers that last.
func declaredPorts(pod *corev1.Pod) []uint16 {
	var ports []uint16
	for _, c := range Lasting(pod.Spec) {
		for _, p := range c.Ports {
			if isTCP(p) {
				ports = append(ports, uint16(p.ContainerPort))
			}
		}
	}
	return spec.Normalize(ports)
}

// isTCP reports whether a declared port is one of TCP that exists.
func isTCP(p corev1.ContainerPort) bool {
	return (p.Protocol == corev1.ProtocolTCP || p.Protocol == "") && p.ContainerPort > 0 && p.ContainerPort <= 65535
}

// Lasting returns the containers that run as long as the pod does: sidecars among the init containers too.
func Lasting(pod corev1.PodSpec) []corev1.Container {
	return slices.Concat(pod.Containers, lists.Filter(pod.InitContainers, restarts))
}

// restarts reports whether an init container keeps running beside the others.
func restarts(c corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

package inject

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/sidecars/redirect/spec"
)

// redirected says which inbound connections of a pod go to its sidecar, which
// listens on to and whose own ports are own: all but those excluded. When there
// is a reason against it, it returns that, for people.
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

// declaredPorts are the TCP ports of the pod's containers, and of those init
// containers that keep running beside them.
func declaredPorts(pod *corev1.Pod) []uint16 {
	var ports []uint16
	add := func(c corev1.Container) {
		for _, p := range c.Ports {
			tcp := p.Protocol == corev1.ProtocolTCP || p.Protocol == ""
			if tcp && p.ContainerPort > 0 && p.ContainerPort <= 65535 {
				ports = append(ports, uint16(p.ContainerPort))
			}
		}
	}
	for _, c := range pod.Spec.Containers {
		add(c)
	}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	return spec.Normalize(ports)
}

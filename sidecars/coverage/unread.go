package coverage

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/redirect/spec"
)

// Unread is a port with connections that reach the workload without being read by a sidecar, in
// some pods or in all: the routing key of such requests is ignored.
type Unread struct {
	// Port is the one that the workload listens on.
	Port uint16
	// Excluded means that its connections bypass the sidecar; otherwise they pass it untouched,
	// as one of its plain ports.
	Excluded bool
	// Edge means that the sidecar reads them and removes their keys.
	Edge bool
	// Pods are the names of the pods in which that is so, sorted.
	Pods []string
}

// names reports whether a list of ports, as containers are given it, has this one.
// A list that cannot be read has none: a container that got it does not start.
func names(list string, port uint16) bool {
	ports, err := spec.Split(list)
	return err == nil && slices.Contains(ports, port)
}

// unread returns those of the ports that some pod's sidecar does not read,
// ascending.
func unread(ports []uint16, pods []Pod) []Unread {
	var out []Unread
	for _, port := range spec.Normalize(slices.Clone(ports)) {
		u := Unread{Port: port}
		for _, p := range pods {
			excluded := names(p.Except, port)
			if p.Present && (excluded || p.Edge || names(p.Plain, port)) {
				u.Edge = u.Edge || p.Edge
				u.Excluded = u.Excluded || excluded
				u.Pods = append(u.Pods, p.Name)
			}
		}
		if slices.Sort(u.Pods); len(u.Pods) > 0 {
			out = append(out, u)
		}
	}
	return out
}

// Unroutable reports whether requests reach ports of the workload, and none of these ports is
// read by the sidecars of all its pods.
func (r Report) Unroutable() bool { return r.Ports > 0 && len(r.Unread) == r.Ports }

// Bypassed returns why each unread port is not read, and what to change in the pod template;
// empty when every port is read.
func (r Report) Bypassed(template *corev1.PodTemplateSpec) string {
	var parts []string
	for _, u := range r.Unread {
		where := ""
		if len(u.Pods) < r.Total {
			where = fmt.Sprintf(" (in %d of %d pods: %s)", len(u.Pods), r.Total, Some(u.Pods))
		}
		parts = append(parts, fmt.Sprintf("port %d%s, because %s", u.Port, where, r.because(u, template)))
	}
	return strings.Join(parts, "; ")
}

// because returns the reason of one port. A change of the template restarts the
// pods; where the template is right already, they are older than that.
func (r Report) because(u Unread, template *corev1.PodTemplateSpec) string {
	annotated, said := template.Annotations[inject.AnnotationPlainPorts]
	switch {
	case u.Edge && inject.EdgeOf(template):
		return fmt.Sprintf("annotation %s of the pod template has them drop routing keys: take it off, or send requests to the fork's own Service", inject.AnnotationEdge)
	case u.Excluded && names(template.Annotations[inject.AnnotationExcludePorts], u.Port):
		return fmt.Sprintf("annotation %s of the pod template names it: remove %d from it", inject.AnnotationExcludePorts, u.Port)
	case !u.Excluded && said && names(annotated, u.Port):
		return fmt.Sprintf("annotation %s of the pod template names it: remove %d from it, or write \"none\" if it was the only one",
			inject.AnnotationPlainPorts, u.Port)
	case u.Edge || u.Excluded || !slices.Contains(inject.PlainOf(template), u.Port):
		return "the pods are older than the pod template: restart them with " + r.Restart()
	case slices.Contains(devmesh.DefaultPlainPorts(), u.Port):
		return "it is the registered port of a protocol in which the server speaks first: if it serves HTTP or gRPC, name the container port http or grpc"
	}
	return fmt.Sprintf("the container port is named %q, after a protocol in which the server speaks first: if it serves HTTP or gRPC, "+
		"rename it, in Services that target the name too, as in http-api", portName(template.Spec, u.Port))
}

// portName returns the name of a TCP port that a container declares.
func portName(pod corev1.PodSpec, port uint16) string {
	for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
		for _, p := range c.Ports {
			if p.ContainerPort == int32(port) && p.Name != "" && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
				return p.Name
			}
		}
	}
	return ""
}

// NewPodsRefused returns that the API server refuses new pods of the workload, in its own words,
// and what to change; empty when it refuses none, or the workload needs or asks for no sidecar.
// Restarting the workload cannot help then.
func (r Report) NewPodsRefused() string {
	if r.Refused == "" || r.Unrouted || r.Unwanted() {
		return ""
	}
	return fmt.Sprintf("the API server refuses new pods (%s): %s; Kubernetes then creates them without a restart", r.Refused, remedyOf(r.Refused))
}

const smaller = "set the resources of the sidecar with annotation " + inject.AnnotationResources + " of the pod template, as in limits.cpu=1,limits.memory=256Mi"

// remedyOf returns what to change so that the API server accepts pods with the sidecar which it
// refused in these words. Quotas, limit ranges and Pod Security are the API server's own; of
// policies of others there is no rule how they word it.
func remedyOf(words string) string {
	has := func(some ...string) bool {
		return slices.ContainsFunc(some, func(s string) bool { return strings.Contains(strings.ToLower(words), strings.ToLower(s)) })
	}
	switch {
	case has("exceeded quota", "failed quota"):
		return "raise that quota of the namespace, or " + smaller
	case has("usage per Container", "usage per Pod", "limit to request ratio"):
		return "change that LimitRange of the namespace, or " + smaller
	case has("NET_ADMIN", "capabilit", "PodSecurity", devmesh.InitContainerName, devmesh.ContainerName):
		return fmt.Sprintf("exempt the init container %s from that policy, which adds the capability NET_ADMIN as root, or keep the sidecar out with %s: \"false\"",
			devmesh.InitContainerName, inject.AnnotationInject)
	}
	return "change what these words name"
}

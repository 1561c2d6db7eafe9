package inject

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect/spec"
)

// askForProbes turns the tcpSocket probes of redirected ports into requests to
// the sidecar, which connects to the workload: a connection from outside is taken
// by the sidecar's listener, whether the workload listens or not. It is the one
// place where the patch does not only add (ADR 0011), so it leaves alone whatever
// it does not know all of.
func askForProbes(p *patcher, pod *corev1.Pod, ports spec.Spec) {
	for i, c := range pod.Spec.Containers {
		askForProbesOf(p, "containers", i, c, ports)
	}
	for i, c := range pod.Spec.InitContainers {
		if restarts(c) {
			askForProbesOf(p, "initContainers", i, c, ports)
		}
	}
}

func askForProbesOf(p *patcher, list string, i int, c corev1.Container, ports spec.Spec) {
	for _, probe := range []struct {
		name  string
		probe *corev1.Probe
	}{{"livenessProbe", c.LivenessProbe}, {"readinessProbe", c.ReadinessProbe}, {"startupProbe", c.StartupProbe}} {
		port, ok := probedPort(c, probe.probe)
		if !ok || !reachesSidecar(ports, port) {
			continue
		}
		p.exchange(list, i, probe.name, "tcpSocket", []string{"port", "host"}, "httpGet", corev1.HTTPGetAction{
			Path:   devmesh.ProbePath + strconv.Itoa(int(port)),
			Port:   intstr.FromInt32(devmesh.ReadinessPort),
			Scheme: corev1.URISchemeHTTP,
		})
	}
}

// probedPort returns the port that a tcpSocket probe connects to on the pod's own
// address; ok is false for any other probe. A name is looked up as the kubelet
// does it: among the container's own ports, and then it may be a number.
func probedPort(c corev1.Container, probe *corev1.Probe) (port uint16, ok bool) {
	if probe == nil || probe.TCPSocket == nil || probe.TCPSocket.Host != "" ||
		probe.HTTPGet != nil || probe.GRPC != nil || probe.Exec != nil {
		return 0, false
	}
	number := int64(probe.TCPSocket.Port.IntVal)
	if probe.TCPSocket.Port.Type == intstr.String {
		name := probe.TCPSocket.Port.StrVal
		at := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name != "" && p.Name == name })
		if at >= 0 {
			number = int64(c.Ports[at].ContainerPort)
		} else if n, err := strconv.ParseUint(name, 10, 16); err == nil {
			number = int64(n)
		}
	}
	return uint16(number), 0 < number && number <= 65535
}

// reachesSidecar reports whether connections to a port of the pod are redirected.
func reachesSidecar(s spec.Spec, port uint16) bool {
	return !slices.Contains(s.Except, port) && (s.All || slices.Contains(s.Ports, port))
}

// exchange takes a member out of a probe and puts another in its place, but only
// if the one that goes has no members but those that are known: what a newer API
// may have put there would be lost.
func (p *patcher) exchange(list string, i int, probe, old string, known []string, member string, value any) {
	containers, _ := p.member("spec", list).([]any)
	if i >= len(containers) {
		return // it is written in letters that only Go's reader takes for these
	}
	container, _ := containers[i].(map[string]any)
	parent, _ := container[probe].(map[string]any)
	gone, there := parent[old].(map[string]any)
	for name := range gone {
		there = there && slices.Contains(known, name)
	}
	if !there {
		return
	}
	path := fmt.Sprintf("/spec/%s/%d/%s/", list, i, probe)
	delete(parent, old)
	parent[member] = value
	p.operations = append(p.operations, Operation{Op: "remove", Path: path + old})
	p.add(path+member, value)
}

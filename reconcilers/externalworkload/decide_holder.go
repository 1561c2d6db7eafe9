package externalworkload

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// The label by which pods of the operator's namespace are tunnel proxies.
const (
	proxyLabel = "app"
	proxyName  = "tunnel-proxy"
)

// holderProblem returns why requests must not be forwarded to the address in a status: because the pod
// that the status names does not have it, or because that pod is not allowed to receive them. It returns
// "" if the address is the pod's. A client that writes the status may have no other permission, so the
// status is verified.
func holderProblem(in Input, info crdv1.TunnelInfo, end netip.Addr) string {
	var seen []string
	for _, pod := range lists.Pointers(in.Holders) {
		if !mayHold(in, pod) {
			continue
		}
		switch addresses := podAddresses(pod); {
		case among(addresses, end):
			return ""
		case len(addresses) == 0:
			seen = append(seen, fmt.Sprintf("pod %s/%s has no address of its own", pod.Namespace, pod.Name))
		default:
			seen = append(seen, fmt.Sprintf("pod %s/%s has %s", pod.Namespace, pod.Name, strings.Join(addresses, ", ")))
		}
	}
	if len(seen) == 0 {
		return fmt.Sprintf("cannot be used, since no pod %.80q may hold this tunnel", info.TunnelProxyPodName)
	}
	return fmt.Sprintf("is not that of the pod that it names (%s)", strings.Join(seen, "; "))
}

// holderWanted returns which pods may hold a tunnel.
func holderWanted(in Input) string {
	wanted := "status.tunnel.info has to name a pod of namespace " + in.Workload.Namespace
	if in.OperatorNamespace != "" {
		wanted += fmt.Sprintf(", or one of namespace %s with the label %s=%s,", in.OperatorNamespace, proxyLabel, proxyName)
	}
	return wanted + " and its address"
}

// mayHold reports whether a pod is allowed to receive requests for the external workload: a tunnel proxy
// of the operator, or a pod in the namespace of the external workload.
func mayHold(in Input, pod *corev1.Pod) bool {
	return pod.Namespace == in.Workload.Namespace ||
		in.OperatorNamespace != "" && pod.Namespace == in.OperatorNamespace && pod.Labels[proxyLabel] == proxyName
}

// podAddresses returns the IPs of a pod. It returns none for a pod in the host network, and none for one
// that has terminated, because its IPs may have been reassigned.
func podAddresses(pod *corev1.Pod) []string {
	if pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	return lists.Map(pod.Status.PodIPs, func(ip corev1.PodIP) string { return ip.IP })
}

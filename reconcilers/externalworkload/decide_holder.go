package externalworkload

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// The label by which pods of the operator's namespace are tunnel proxies.
const (
	proxyLabel = "app"
	proxyName  = "tunnel-proxy"
)

// holderProblem returns why requests may not be led to the address that a status tells:
// because it is none of the pod that the status names, or that pod is not one to which
// they may be led. Empty: it is the pod's. Whoever writes the status may have no right to
// anything else, so what it says is looked up.
func holderProblem(in Input, info crdv1.TunnelInfo, end netip.Addr) string {
	var seen []string
	for i := range in.Holders {
		pod := &in.Holders[i]
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

// mayHold reports whether a pod is one to which requests for the external workload may be
// led: a tunnel proxy of ours, or a pod of its own namespace.
func mayHold(in Input, pod *corev1.Pod) bool {
	return pod.Namespace == in.Workload.Namespace ||
		in.OperatorNamespace != "" && pod.Namespace == in.OperatorNamespace && pod.Labels[proxyLabel] == proxyName
}

// podAddresses returns the addresses that are a pod's own: not those of its node, and none
// of a pod that has ended, whose addresses may be another one's.
func podAddresses(pod *corev1.Pod) []string {
	if pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	var out []string
	for _, ip := range pod.Status.PodIPs {
		out = append(out, ip.IP)
	}
	return out
}

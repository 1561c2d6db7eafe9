package jobpod

import (
	"maps"
	"strconv"

	"switchyard.dev/workflows/jobexec/layout"
)

// Connections to a runner are TLS of the operator's, which the proxy of a mesh in the pod must not terminate.

// InIstio returns the labels and annotations of runners in Istio: those of the operator's pods, and those by
// which clients in the mesh and the proxy of the pod leave connections to a runner unchanged.
func InIstio(labels map[string]string) (all, annotations map[string]string) {
	all = map[string]string{"security.istio.io/tlsMode": "disabled"}
	maps.Copy(all, labels)
	return all, map[string]string{"traffic.sidecar.istio.io/excludeInboundPorts": strconv.Itoa(layout.Port)}
}

// InLinkerd returns the annotations of runners in Linkerd.
func InLinkerd(annotations map[string]string) map[string]string {
	all := map[string]string{"config.linkerd.io/skip-inbound-ports": strconv.Itoa(layout.Port)}
	maps.Copy(all, annotations)
	return all
}

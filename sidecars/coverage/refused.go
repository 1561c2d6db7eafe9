package coverage

import (
	"fmt"
	"slices"
	"strings"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/inject"
)

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

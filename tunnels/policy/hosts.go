package policy

import (
	"net/netip"
	"slices"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// The kinds of Parse.
const KindService, KindDeployment, KindRollout = "Service", "Deployment", "Rollout"

// Parse returns what a host names: a Service, by its own name or that of a pod behind it, a Deployment
// (NAME.NAMESPACE.deploy) or a Rollout (NAME.NAMESPACE.rollout); for an address an ObjectRef without a kind. It
// returns false for other names. domain is that of the cluster's Services.
func Parse(host, domain string) (crdv1.ObjectRef, bool) {
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil {
		return crdv1.ObjectRef{}, true
	}
	host, inDomain := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), "."+strings.ToLower(domain))
	parts := strings.Split(host, ".")
	switch last := len(parts) - 1; {
	case slices.Contains(parts, ""):
	case last == 1 && !inDomain:
		return crdv1.ObjectRef{Kind: KindService, Namespace: parts[1], Name: parts[0]}, true
	case (last == 2 || last == 3) && parts[last] == "svc":
		return crdv1.ObjectRef{Kind: KindService, Namespace: parts[last-1], Name: parts[last-2]}, true
	case last == 2 && parts[2] == "deploy":
		return crdv1.ObjectRef{Kind: KindDeployment, Namespace: parts[1], Name: parts[0]}, true
	case last == 2 && parts[2] == "rollout":
		return crdv1.ObjectRef{Kind: KindRollout, Namespace: parts[1], Name: parts[0]}, true
	}
	return crdv1.ObjectRef{}, false
}

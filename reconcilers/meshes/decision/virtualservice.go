package decision

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istio"
)

// clusterDomain is appended to short hosts before they are compared. Any domain would do for the
// comparison.
const clusterDomain = "cluster.local"

// virtualService returns the VirtualService, of those named by among, that Istio uses for requests
// within the mesh to the host of a Service: the one with the most specific host, of several the oldest.
// It returns false if none has such a host, which is the case for delegates.
func virtualService(all []*unstructured.Unstructured, among []types.NamespacedName, service types.NamespacedName) (types.NamespacedName, bool) {
	var best *unstructured.Unstructured
	host := ""
	for _, o := range all {
		gateways, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "gateways")
		within := len(gateways) == 0 || slices.Contains(gateways, "mesh")
		if of := hostFor(o, service); within && of != "" && slices.Contains(among, nameOf(o)) && (best == nil || cmp.Or(
			compareHosts(of, host), o.GetCreationTimestamp().Compare(best.GetCreationTimestamp().Time), byName(nameOf(o), nameOf(best))) < 0) {
			best, host = o, of
		}
	}
	if best == nil {
		return types.NamespacedName{}, false
	}
	return nameOf(best), true
}

func nameOf(o *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// hostFor returns the most specific host of a VirtualService that applies to a Service; empty for none.
func hostFor(o *unstructured.Unstructured, service types.NamespacedName) (best string) {
	hosts, _, _ := unstructured.NestedStringSlice(o.Object, "spec", "hosts")
	full := istio.Resolve(service.Name, service.Namespace, clusterDomain)
	for _, h := range hosts {
		h = istio.Resolve(strings.ToLower(h), o.GetNamespace(), clusterDomain)
		end, wild := strings.CutPrefix(h, "*")
		if (h == full || wild && strings.HasSuffix(full, end)) && (best == "" || compareHosts(h, best) < 0) {
			best = h
		}
	}
	return best
}

// compareHosts is negative if a is the more specific host: without a wildcard, then longer.
func compareHosts(a, b string) int {
	wild := func(h string) int { return strings.Count(h, "*") }
	return cmp.Or(cmp.Compare(wild(a), wild(b)), cmp.Compare(len(b), len(a)))
}

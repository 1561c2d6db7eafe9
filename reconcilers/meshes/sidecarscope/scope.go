// Package sidecarscope finds Istio Sidecars that hide the routes for sandboxes from proxies. It is pure.
package sidecarscope

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/policies"
)

// ReasonHidden: proxies do not use a VirtualService because a Sidecar does not list it.
const ReasonHidden = "HiddenBySidecar"

// Hidden returns findings about Services with VirtualServices that a Sidecar hides, by Service.
//
// If the Sidecar applies to the whole namespace of the Service, requests are lost (Finding.Lost), since
// workloads in one namespace usually call each other: requests to the Service still reach the baseline,
// even if the Sidecar lists neither the Service nor its VirtualService, unless outboundTrafficPolicy is
// REGISTRY_ONLY. But a Sidecar that lists no hosts, or only those of the control plane, declares that the
// workloads call nothing. Then no requests are known to be lost, and the finding is for information.
//
// Other Sidecars are reported only if they list the Service itself, since clients with the others do not
// call it.
func Hidden(clusterDomain string, services []istio.Service, virtualServices, sidecars []*unstructured.Unstructured) map[types.NamespacedName][]istio.Finding {
	out := map[types.NamespacedName][]istio.Finding{}
	if len(sidecars) == 0 {
		return out
	}
	sidecars = slices.Clone(sidecars)
	slices.SortFunc(sidecars, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	for _, s := range services {
		id := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
		host := istio.Resolve(s.Name, s.Namespace, clusterDomain)
		routed := inMesh(virtualServices, host, clusterDomain)
		if len(routed) == 0 {
			continue
		}
		whole := ofNamespace(sidecars, s.Namespace)
		for _, o := range sidecars {
			within := o.GetNamespace() // In the root namespace's Sidecar, "." is the namespace of each proxy.
			if o == whole {
				within = s.Namespace
			}
			hosts := imports(o, within)
			seen := func(vs *unstructured.Unstructured) bool {
				return hosts.hasAny(vs.GetNamespace(), hostsOf(vs, clusterDomain))
			}
			if hosts == nil || slices.ContainsFunc(routed, seen) || o != whole && !hosts.has(s.Namespace, host) {
				continue
			}
			out[id] = append(out[id], finding(o, routed[0], id, host, o == whole && hosts.calls()))
		}
	}
	return out
}

func finding(sidecar, vs *unstructured.Unstructured, service types.NamespacedName, host string, lost bool) istio.Finding {
	proxies := "proxies to which it applies"
	if lost {
		proxies = "proxies in namespace " + service.Namespace
	}
	return istio.Finding{Reason: ReasonHidden, Service: service, Lost: lost, Message: fmt.Sprintf(
		"Sidecar %s/%s does not list VirtualService %s/%s, so %s do not use its routes and their requests with the key reach the baseline. "+
			"Add %s/%s to spec.egress[].hosts of the Sidecar, or, if no workload calls Service %s, annotate the VirtualService with %s=true.",
		sidecar.GetNamespace(), sidecar.GetName(), vs.GetNamespace(), vs.GetName(), proxies, vs.GetNamespace(), host, service, istio.AnnotationGatewaysOnly)}
}

// inMesh returns the VirtualServices that apply to requests from sidecars to a full host name, except
// those with istio.AnnotationGatewaysOnly.
func inMesh(virtualServices []*unstructured.Unstructured, host, clusterDomain string) (out []*unstructured.Unstructured) {
	for _, vs := range virtualServices {
		gateways, _, _ := unstructured.NestedStringSlice(vs.Object, "spec", "gateways")
		if len(gateways) > 0 && !slices.Contains(gateways, "mesh") || vs.GetAnnotations()[istio.AnnotationGatewaysOnly] == "true" {
			continue
		}
		if slices.ContainsFunc(hostsOf(vs, clusterDomain), func(h string) bool { return covers(h, host) }) {
			out = append(out, vs)
		}
	}
	return out
}

// hostsOf returns the full host names of a VirtualService.
func hostsOf(vs *unstructured.Unstructured, clusterDomain string) []string {
	hosts, _, _ := unstructured.NestedStringSlice(vs.Object, "spec", "hosts")
	for i, h := range hosts {
		hosts[i] = istio.Resolve(strings.ToLower(h), vs.GetNamespace(), clusterDomain)
	}
	return hosts
}

// ofNamespace returns the Sidecar that applies to all workloads of a namespace that no other Sidecar
// selects: the first without a selector in the namespace, else in the root namespace; nil for none.
func ofNamespace(sidecars []*unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	for _, in := range []string{namespace, policies.RootNamespace} {
		i := slices.IndexFunc(sidecars, func(o *unstructured.Unstructured) bool {
			_, selects, _ := unstructured.NestedFieldNoCopy(o.Object, "spec", "workloadSelector")
			return !selects && o.GetNamespace() == in
		})
		if i >= 0 {
			return sidecars[i]
		}
	}
	return nil
}

// imported are entries of a Sidecar, as namespace/host.
type imported [][2]string

// imports returns the entries of a Sidecar for workloads of a namespace; nil for one that
// restricts nothing.
func imports(sidecar *unstructured.Unstructured, namespace string) imported {
	listeners, _, _ := unstructured.NestedSlice(sidecar.Object, "spec", "egress")
	if len(listeners) == 0 {
		return nil
	}
	all := imported{}
	for _, one := range listeners {
		fields, _ := one.(map[string]any)
		hosts, _, _ := unstructured.NestedStringSlice(fields, "hosts")
		for _, entry := range hosts {
			in, host, _ := strings.Cut(entry, "/")
			if in == "." {
				in = namespace
			}
			all = append(all, [2]string{in, strings.ToLower(host)})
		}
	}
	return all
}

// calls reports whether the entries include anything other than the control plane.
func (i imported) calls() bool {
	return slices.ContainsFunc(i, func(entry [2]string) bool { return entry[0] != "~" && entry[0] != policies.RootNamespace })
}

// has reports whether objects of a namespace are imported for a full host name.
func (i imported) has(namespace, host string) bool {
	return slices.ContainsFunc(i, func(entry [2]string) bool {
		return (entry[0] == "*" || entry[0] == namespace) && covers(entry[1], host)
	})
}

// hasAny reports whether a VirtualService of a namespace is imported: one of its hosts, which can begin
// with a wildcard, intersects with an entry.
func (i imported) hasAny(namespace string, hosts []string) bool {
	return slices.ContainsFunc(hosts, func(host string) bool {
		return i.has(namespace, host) || slices.ContainsFunc(i, func(entry [2]string) bool {
			return (entry[0] == "*" || entry[0] == namespace) && covers(host, entry[1])
		})
	})
}

// covers reports whether a host, which can begin with a wildcard, matches a full host name.
func covers(host, name string) bool {
	end, wild := strings.CutPrefix(host, "*")
	return host == name || wild && strings.HasSuffix(name, end)
}

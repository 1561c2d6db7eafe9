package istio

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	networking "istio.io/api/networking/v1"
	clientv1 "istio.io/client-go/pkg/apis/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/releases"
)

// meshGateway is the name in gateways that represents the sidecars.
const meshGateway = "mesh"

// virtualService is a decoded VirtualService. It is never written.
type virtualService struct {
	name    types.NamespacedName
	created time.Time
	// ignored is the annotation that excludes it from derived routes, or "".
	ignored string
	// gatewaysOnly is true if AnnotationGatewaysOnly declares that no workload calls its Services.
	gatewaysOnly bool
	// canary is the Canary of Flagger that created it, or "".
	canary string
	spec   *networking.VirtualService
	// hosts are the full host names.
	hosts []string
}

// delegating is a route of a root with a delegate.
type delegating struct {
	root  *virtualService
	route *networking.HTTPRoute
}

// read decodes a VirtualService without derived routes. It returns an error if the object does not
// conform to the schema.
func read(object map[string]any, clusterDomain string) (*virtualService, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var typed clientv1.VirtualService
	if err := json.Unmarshal(text, &typed); err != nil {
		return nil, err
	}
	vs := &virtualService{
		name: types.NamespacedName{Namespace: typed.Namespace, Name: typed.Name}, created: typed.CreationTimestamp.Time,
		spec: &typed.Spec, gatewaysOnly: typed.Annotations[AnnotationGatewaysOnly] == "true",
	}
	vs.canary = releases.CanaryOf(typed.OwnerReferences)
	for _, annotation := range []string{crdv1.AnnotationIgnore, AnnotationIgnore} {
		if typed.Annotations[annotation] == "true" {
			vs.ignored = annotation
		}
	}
	for i, route := range vs.spec.GetHttp() {
		if route == nil || slices.Contains(route.GetMatch(), nil) {
			return nil, fmt.Errorf("spec.http[%d] has an entry that is null", i)
		}
	}
	for _, host := range vs.spec.GetHosts() {
		vs.hosts = append(vs.hosts, resolve(strings.ToLower(host), vs.name.Namespace, clusterDomain))
	}
	return vs, nil
}

// compare compares VirtualServices by Istio's precedence in the mesh: those exported to some namespaces
// only, then by age and name. One without a creation time is the youngest.
func (v *virtualService) compare(w *virtualService) int {
	rank := func(v *virtualService) int {
		if v.public() {
			return 1
		}
		return 0
	}
	if r := rank(v) - rank(w); r != 0 {
		return r
	}
	if v.created.IsZero() != w.created.IsZero() {
		if v.created.IsZero() {
			return 1
		}
		return -1
	}
	if r := v.created.Compare(w.created); r != 0 {
		return r
	}
	if r := strings.Compare(v.name.Name, w.name.Name); r != 0 {
		return r
	}
	return strings.Compare(v.name.Namespace, w.name.Namespace)
}

// delegate reports whether it only applies by delegation from others.
func (v *virtualService) delegate() bool { return len(v.spec.GetHosts()) == 0 }

// inMesh reports whether it applies to sidecars.
func (v *virtualService) inMesh() bool {
	return !v.delegate() && (len(v.spec.GetGateways()) == 0 || slices.Contains(v.spec.GetGateways(), meshGateway))
}

// covers reports whether one of its hosts includes a full host name.
func (v *virtualService) covers(host string) bool {
	return slices.ContainsFunc(v.hosts, func(h string) bool { return covers(h, host) })
}

// forMesh reports whether a route applies to sidecars, if its VirtualService does.
func forMesh(route *networking.HTTPRoute) bool {
	return len(route.GetMatch()) == 0 || slices.ContainsFunc(route.GetMatch(), func(match *networking.HTTPMatchRequest) bool {
		return len(match.GetGateways()) == 0 || slices.Contains(match.GetGateways(), meshGateway)
	})
}

// public reports whether it is exported to all namespaces.
func (v *virtualService) public() bool {
	return len(v.spec.GetExportTo()) == 0 || slices.Contains(v.spec.GetExportTo(), "*")
}

// seenBy reports whether it is exported to a namespace.
func (v *virtualService) seenBy(namespace string) bool {
	to := v.spec.GetExportTo()
	return v.public() || slices.Contains(to, namespace) || slices.Contains(to, ".") && v.name.Namespace == namespace
}

// meets reports whether both are exported to a common namespace.
func (v *virtualService) meets(w *virtualService) bool {
	if v.public() || w.public() {
		return true
	}
	return v.seenBy(w.name.Namespace) || w.seenBy(v.name.Namespace) ||
		slices.ContainsFunc(v.spec.GetExportTo(), func(to string) bool { return to != "." && to != "~" && w.seenBy(to) })
}

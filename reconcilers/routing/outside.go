package routing

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
)

// OutsideMesh returns, for each fork without a proxy of a mesh, which other baselines of the key it
// cannot call with the key, as they have no DevMesh sidecars: a mesh routes requests in the proxies
// of callers. Whether a fork calls them is not known.
func (r Routing) OutsideMesh() []string {
	var out []string
	inMesh := r.routedInMesh()
	for _, m := range r.Named() {
		have := r.Member(m)
		if have == nil {
			continue
		}
		c := crdv1.FindCondition(*have.StatusConditions(), crdv1.ConditionInMesh)
		if c == nil || c.Status != string(metav1.ConditionFalse) {
			continue
		}
		from, _ := have.BaselineRef()
		others := slices.DeleteFunc(slices.Clone(inMesh), func(ref crdv1.ObjectRef) bool { return baseline.Same(ref, from) })
		if len(others) == 0 {
			continue
		}
		names := lists.Map(others[:min(len(others), shown)], baseline.Describe)
		if n := len(others) - shown; n > 0 {
			names = append(names, fmt.Sprintf("%d more", n))
		}
		out = append(out, fmt.Sprintf("The fork of %s has no proxy of a mesh, so requests with the key that it sends to %s reach the baseline; "+
			"set the label of injection by a patch (Istio: sidecar.istio.io/inject: \"true\"), or annotate the pod template of the called workload with %s: \"true\".",
			baseline.Describe(from), strings.Join(names, ", "), crdv1.AnnotationInject))
	}
	return out
}

// routedInMesh returns the baselines of members that the proxies of a mesh route to and DevMesh does not.
func (r Routing) routedInMesh() []crdv1.ObjectRef {
	var out []crdv1.ObjectRef
	holders := r.holders()
	for _, m := range r.Named() {
		have := r.Member(m)
		if have == nil || !TakesRequests(have) {
			continue
		}
		c := crdv1.FindCondition(*have.StatusConditions(), baseline.ConditionSidecarsReady)
		if c == nil || c.Status == string(metav1.ConditionTrue) || c.Reason != baseline.ReasonSidecarAbsent {
			continue
		}
		if by, any := r.ledByMesh(m, holders); !any || !by.IsTrue() {
			continue
		}
		at, _ := have.BaselineRef()
		if slices.ContainsFunc(meshServices(have), func(s crdv1.ServiceMapping) bool { return r.withinMesh(at.Namespace, s.From) }) {
			out = append(out, at)
		}
	}
	return out
}

// withinMesh reports whether proxies of a mesh route requests for a Service.
func (r Routing) withinMesh(namespace, service string) bool {
	on := slices.DeleteFunc(slices.Clone(meshes), func(m mesh) bool { return !r.Mesh.Has(m.kind) })
	f, by := r.serviceLed(namespace, service, on)
	return f.IsTrue() && withinMesh(r.Mesh[by.kind][r.meshRouteName(namespace, service)])
}

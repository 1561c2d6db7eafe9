package istio

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istio/marks"
	"switchyard.dev/reconcilers/meshes/istio/names"
)

// Original is the owner's part of a VirtualService, decoded once for all renderings. Only Keep changes
// it.
type Original struct {
	name types.NamespacedName
	// given is the object that was read, and bare the object without the operator's additions.
	given *unstructured.Unstructured
	bare  map[string]any
	// read is nil if the object does not conform to the schema, with the cause in err.
	read *virtualService
	err  error
	// hosts are the full host names that hosts in it can refer to, sorted and without duplicates.
	hosts []string
	// stems are the stems of the names of its derived routes (names.Stems).
	stems map[string]bool
}

// Read returns the Original of a VirtualService. clusterDomain is the domain of Services.
func Read(object *unstructured.Unstructured, clusterDomain string) *Original {
	o := &Original{
		name:  types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()},
		given: object, bare: strip(object.Object), stems: map[string]bool{},
	}
	o.Keep(object)
	o.read, o.err = read(o.bare, clusterDomain)
	all := map[string]bool{}
	hostsIn(o.bare, func(host string) {
		all[resolve(host, o.name.Namespace, clusterDomain)] = true
		for _, end := range misreadEnds(clusterDomain) {
			all[host+end] = true
		}
	})
	if o.read == nil {
		eachHost(o.bare, func(host string) { all[resolve(host, o.name.Namespace, clusterDomain)] = true })
	}
	o.hosts = slices.Sorted(maps.Keys(all))
	return o
}

// Keep gives priority in a full object to the keys that have routes in another copy of the object.
func (o *Original) Keep(object *unstructured.Unstructured) {
	for _, entry := range names.RoutesIn(object.Object) {
		for stem := range names.Stems(names.OfOurs(entry)) {
			o.stems[stem] = true
		}
	}
}

// eachHost calls note with each of spec.hosts, in lower case. It skips entries that are not strings.
func eachHost(object map[string]any, note func(host string)) {
	spec, _ := object["spec"].(map[string]any)
	list, _ := spec["hosts"].([]any)
	for _, one := range list {
		if host, ok := one.(string); ok {
			note(strings.ToLower(host))
		}
	}
}

// hostsIn calls note with each field named host within a value.
func hostsIn(value any, note func(host string)) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			hostsIn(one, note)
		}
	case map[string]any:
		if host, ok := v["host"].(string); ok {
			note(host)
		}
		for _, one := range v {
			hostsIn(one, note)
		}
	}
}

// inputs are the inputs of a rendering besides its Original and the settings.
type inputs struct {
	services []*managed
	// hosted are the Services with hosts that it routes.
	hosted  []*managed
	roots   []delegating
	shadows []shadow
}

// shadow is a host for which the mesh uses another VirtualService.
type shadow struct {
	host string
	by   *virtualService
}

func (i inputs) equal(j inputs) bool {
	return slices.Equal(i.services, j.services) && slices.Equal(i.hosted, j.hosted) && slices.Equal(i.roots, j.roots) && slices.Equal(i.shadows, j.shadows)
}

// inputsOf returns the inputs of the rendering of an Original. Roots and shadows are left out if it
// names no managed Service.
func (m *Mesh) inputsOf(o *Original) inputs {
	var in inputs
	for _, host := range o.hosts {
		if s := m.services[host]; s != nil {
			in.services = append(in.services, s)
		}
	}
	if o.read != nil {
		in.hosted = m.hostedBy(o.read)
	}
	if len(in.services) > 0 && o.read != nil {
		in.roots, in.shadows = m.rootsOf(o.read), m.shadowsOf(o.read)
	}
	return in
}

// shadowsOf returns the hosts of a VirtualService for which the mesh uses another one.
func (m *Mesh) shadowsOf(vs *virtualService) []shadow {
	if !vs.inMesh() {
		return nil
	}
	var all []shadow
	for _, host := range vs.hosts {
		for _, other := range m.inMesh[host] {
			if other.name != vs.name && other.compare(vs) < 0 && other.meets(vs) {
				all = append(all, shadow{host, other})
				break
			}
		}
	}
	return all
}

// RenderAgain returns the rendering of an Original, and whether it was computed. It returns before if
// the inputs are unchanged. before can be nil. Changed is not set.
func (m *Mesh) RenderAgain(o *Original, before *Rendering) (r *Rendering, made bool) {
	in := m.inputsOf(o)
	if before != nil && before.original == o && before.settled(m, in) {
		return before, false
	}
	r = &Rendering{
		Name: o.name, original: o, mesh: m.settings, from: in,
		leads: map[types.NamespacedName]bool{}, hosts: map[types.NamespacedName][]types.NamespacedName{}, routes: map[claim]int{},
	}
	if o.err != nil {
		r.unreadable(m, o.bare, o.err)
		r.Object = o.given.DeepCopy()
		r.conclude()
		return r, true
	}
	wanted := maps.Clone(o.bare) // Copy only the maps that are written to; the rest is shared.
	for _, field := range []string{"spec", "metadata"} {
		if fields, ok := wanted[field].(map[string]any); ok {
			wanted[field] = maps.Clone(fields)
		}
	}
	r.read, r.ignored = o.read, o.read.ignored != ""
	m.render(r, wanted)
	r.Object = &unstructured.Unstructured{Object: wanted}
	r.conclude()
	return r, true
}

const (
	// AnnotationIgnore with the value "true" excludes a VirtualService from derived routes, as does
	// crdv1.AnnotationIgnore.
	AnnotationIgnore = "istio.signadot.com/ignore"
	// AnnotationGatewaysOnly with the value "true" declares that no workload of the mesh calls the
	// Services that a VirtualService routes to: only gateways send requests to them.
	AnnotationGatewaysOnly = "istio.signadot.com/gateways-only"
	// AnnotationAdded records the labels and annotations that the operator added to a VirtualService.
	AnnotationAdded = marks.Annotation
)

// Strip returns a copy of a VirtualService without the routes, labels and annotations that the operator
// added.
func Strip(object *unstructured.Unstructured) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: strip(object.Object)}
}

func strip(object map[string]any) map[string]any {
	object = maps.Clone(object)
	if spec, ok := object["spec"].(map[string]any); ok {
		if routes, ok := spec["http"].([]any); ok { // Derived routes, which can be many, are not copied.
			spec = maps.Clone(spec)
			spec["http"] = slices.DeleteFunc(slices.Clone(routes), names.Derived)
			object["spec"] = spec
		}
	}
	object = runtime.DeepCopyJSON(object)
	metadata, _ := object["metadata"].(map[string]any)
	marks.Remove(metadata)
	return object
}

package istio

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes/istio/names"
)

// Original is what the owner of a VirtualService has in it, read once for all renderings. Nobody
// changes it.
type Original struct {
	name types.NamespacedName
	// given is the object as it was, and bare what is left without anything of ours.
	given *unstructured.Unstructured
	bare  map[string]any
	// read is nil for one that is not as the schema has it; err says why.
	read *virtualService
	err  error
	// hosts are the full host names, each once, that the hosts in it may stand for.
	hosts []string
	// stems are those of the names of the operator's routes that it had (names.Stems).
	stems map[string]bool
}

// Read reads a VirtualService, where Services have this domain.
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

// Keep has those keys keep their room first that have routes in another copy of the object.
func (o *Original) Keep(object *unstructured.Unstructured) {
	for _, entry := range names.RoutesIn(object.Object) {
		for stem := range names.Stems(names.OfOurs(entry)) {
			o.stems[stem] = true
		}
	}
}

// eachHost has each of spec.hosts noted. Those of an object that cannot be read may not be texts.
func eachHost(object map[string]any, note func(host string)) {
	spec, _ := object["spec"].(map[string]any)
	list, _ := spec["hosts"].([]any)
	for _, one := range list {
		if host, ok := one.(string); ok {
			note(strings.ToLower(host))
		}
	}
}

// hostsIn has each host noted that a value names.
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

// inputs are what a rendering follows from beside its Original and the settings.
type inputs struct {
	services []*managed
	// hosted are the Services for which it decides requests to their hosts.
	hosted  []*managed
	roots   []delegating
	shadows []shadow
}

// shadow is a host that another VirtualService has in the mesh.
type shadow struct {
	host string
	by   *virtualService
}

func (i inputs) equal(j inputs) bool {
	return slices.Equal(i.services, j.services) && slices.Equal(i.hosted, j.hosted) && slices.Equal(i.roots, j.roots) && slices.Equal(i.shadows, j.shadows)
}

// inputsOf returns what a rendering follows from. One that names no managed Service follows from
// nothing.
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

// shadowsOf returns the hosts of a VirtualService that another one has in the mesh.
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

// RenderAgain returns the rendering of an Original, and whether it was made anew: the one before
// is the same still where nothing has changed that it follows from. before may be nil. Changed is
// not said.
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
	wanted := maps.Clone(o.bare) // And what is written to beneath; the rest is shared.
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

package istioadapter

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/condition"
	"switchyard.dev/reconcilers/meshes"
	"switchyard.dev/reconcilers/meshes/istio"
	"switchyard.dev/reconcilers/meshes/istio/names"
	"switchyard.dev/reconcilers/meshes/istioadapter/rewrites"
	"switchyard.dev/reconcilers/meshes/sidecarscope"
)

// state is the result of one sync. It is immutable.
type state struct {
	// trouble is why VirtualServices cannot be read; nil if they can.
	trouble *condition.Condition
	mesh    *istio.Mesh
	// services are the baseline Services of the table, with their routing keys.
	services map[types.NamespacedName]istio.Service
	objects  map[types.NamespacedName]*kept
	// of are the objects that concern a Service, sorted.
	of      map[types.NamespacedName][]*kept
	reports map[Target]Report
	rules   rules
}

// kept is the state of a VirtualService that is carried from one sync to the next.
type kept struct {
	name types.NamespacedName
	// have is the newest known version: from the cache, or written by this process since. past are
	// earlier versions that the cache may still have.
	have *unstructured.Unstructured
	past []string
	// original is nil if parsing failed; fault is then the error.
	original  *istio.Original
	fault     error
	rendering *istio.Rendering
	// concerns are the Services that the rendering has findings about.
	concerns map[types.NamespacedName]bool
	// status is empty while the VirtualService is as it should be; else it and the message are for
	// the status of IstioRoutes, and differ are the names of the routes that are not.
	status, message string
	differ          []string
	// lost: the API server has, or may have, a version other than this one.
	lost bool
}

// behind reports whether it is not as it should be.
func (k *kept) behind() bool { return k.status != "" }

// written is the result of a write.
type written struct {
	// got is the object after it, if any of it came through, and past are the versions before.
	got  *unstructured.Unstructured
	past []string
	// failed is the error message of a write to retry, or empty. lost: the object has been changed by
	// another client in the meantime.
	failed string
	lost   bool
}

// found is the input of a sync.
type found struct {
	trouble  *condition.Condition
	settings istio.Settings
	services []istio.Service
	objects  []*unstructured.Unstructured
	written  map[types.NamespacedName]written
	rules    foundRules
	sidecars []*unstructured.Unstructured
	// leads: this process is elected.
	leads bool
}

// next returns the state that follows from f. It reuses unchanged parts of s, the state of the previous
// sync, which may be nil.
func (s *state) next(f found) *state {
	s = cmp.Or(s, &state{})
	now := &state{
		trouble: f.trouble, services: map[types.NamespacedName]istio.Service{},
		objects: map[types.NamespacedName]*kept{}, of: map[types.NamespacedName][]*kept{}, reports: map[Target]Report{},
	}
	for _, service := range f.services {
		now.services[types.NamespacedName{Namespace: service.Namespace, Name: service.Name}] = service
	}
	var originals []*istio.Original
	for _, have := range f.objects {
		id := types.NamespacedName{Namespace: have.GetNamespace(), Name: have.GetName()}
		k := versionOf(id, have, s.objects[id], f.written[id], f.settings.ClusterDomain)
		now.objects[id] = k
		if k.original != nil {
			originals = append(originals, k.original)
		}
	}
	now.mesh = istio.Next(s.mesh, f.settings, f.services, originals)
	for id, k := range now.objects {
		now.objects[id] = k.brought(now.mesh, s.objects[id], f.written[id], f.leads)
	}
	for _, k := range slices.SortedFunc(maps.Values(now.objects), func(a, b *kept) int {
		return cmp.Or(cmp.Compare(a.name.Namespace, b.name.Namespace), cmp.Compare(a.name.Name, b.name.Name))
	}) {
		for service := range k.concerns {
			now.of[service] = append(now.of[service], k)
		}
	}
	now.rules = now.rulesFrom(f)
	if f.trouble == nil {
		for id, hidden := range sidecarscope.Hidden(f.settings.ClusterDomain, f.services, now.virtualServices(), f.sidecars) {
			now.rules.findings[id] = append(now.rules.findings[id], hidden...)
		}
	}
	now.report(s)
	return now
}

// versionOf returns the newest version of a VirtualService, parsed, but not rendered: that of the
// cache, unless this process has written a newer one. before may be nil.
func versionOf(id types.NamespacedName, cached *unstructured.Unstructured, before *kept, w written, clusterDomain string) *kept {
	k := &kept{name: id, have: cached}
	if before != nil && before.have.GetUID() == cached.GetUID() {
		have, past := before.have, before.past
		if w.got != nil && w.got.GetUID() == cached.GetUID() {
			have, past = w.got, slices.Concat(past, w.past)
		}
		if slices.Contains(past, cached.GetResourceVersion()) {
			k.have, k.past = have, past
		}
		if before.have.GetResourceVersion() == k.have.GetResourceVersion() {
			k.original, k.fault, k.rendering, k.concerns = before.original, before.fault, before.rendering, before.concerns
			return k
		}
	}
	k.original, k.fault = read(k.have, clusterDomain)
	return k
}

// brought returns the VirtualService with its rendering and its status; before, which may be nil, if
// these are unchanged.
func (k *kept) brought(m *istio.Mesh, before *kept, w written, leads bool) *kept {
	r, made := renderAgain(m, k.have, k.original, k.fault, k.rendering)
	if !made && before != nil && before.rendering == r && w.failed == "" && !w.lost && slices.Equal(before.past, k.past) {
		return before
	}
	k.rendering = r
	if made {
		k.concerns = r.Concerns()
	}
	switch {
	case !r.Changed:
		return k
	case w.failed != "":
		k.status, k.message = StatusFailed, w.failed
	case before != nil && before.status == StatusFailed && w.got == nil:
		k.status, k.message = before.status, before.message // It is tried again after a pause.
	case w.lost && w.got.GetResourceVersion() == k.have.GetResourceVersion(),
		before != nil && before.lost && before.have.GetResourceVersion() == k.have.GetResourceVersion():
		k.status, k.message, k.lost = StatusPending, "Another client has changed it since it was read. It will be read again.", true
	case leads:
		k.status, k.message = StatusPending, "Its routes are being written."
	default:
		k.status, k.message = StatusPending, "The elected replica writes its routes."
	}
	k.differ = names.DifferingRoutes(k.have, r.Object)
	return k
}

// report fills in the report of each Target. Reports of Services without changes are taken from before.
func (s *state) report(before *state) {
	for id, service := range s.services {
		same := s.mesh.Kept(before.mesh, id) && reflect.DeepEqual(s.trouble, before.trouble) && slices.Equal(s.of[id], before.of[id]) &&
			slices.Equal(s.rules.findings[id], before.rules.findings[id])
		var renderings []istio.Rendering
		if !same {
			for _, k := range s.of[id] {
				renderings = append(renderings, *k.rendering)
			}
		}
		for _, sandbox := range service.Sandboxes {
			t := Target{Key: sandbox.Key, Namespace: id.Namespace, Service: id.Name}
			if said, has := before.reports[t]; same && has {
				s.reports[t] = said
				continue
			}
			report := Report{Trouble: s.trouble}
			if s.trouble == nil {
				report = reportOf(s.mesh.Report(id, sandbox.Key, renderings, s.rules.findings[id]...), sandbox.Key, s.objects)
			}
			report.Synced, report.Mappings = true, sandbox.Mappings
			s.reports[t] = report
		}
	}
}

// changed returns the Targets with other reports than in before, which may be nil.
func (s *state) changed(before *state) []Target {
	before = cmp.Or(before, &state{})
	return meshes.Changed(before.reports, s.reports)
}

// settled reports whether no VirtualService has a route for the routing key, or will have one.
// Nothing is known of that while they cannot be read.
func (s *state) settled(key string) bool {
	if s.trouble != nil {
		return s.trouble.Reason == ReasonNoVirtualServices
	}
	for _, service := range s.services {
		if slices.ContainsFunc(service.Sandboxes, func(of istio.Sandbox) bool { return of.Key == key }) {
			return false
		}
	}
	for _, k := range s.objects {
		if k.behind() && len(names.RoutesOf(k.have, key)) > 0 {
			return false
		}
	}
	return true
}

// read parses the owner's part of a VirtualService. It returns a panic as an error, so that one
// VirtualService does not affect the routes of others.
func read(have *unstructured.Unstructured, clusterDomain string) (o *istio.Original, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			o, err = nil, fmt.Errorf("an error of the operator: %v", fault)
		}
	}()
	return istio.Read(withoutDigest(have), clusterDomain), nil
}

// Target identifies the Service and the routing key of an IstioRoute.
type Target = meshes.Target

// Statuses of a VirtualService that routes to a Service, beside those of package istio.
const (
	StatusPending = meshes.StatusPending
	StatusFailed  = meshes.StatusFailed
)

// Report is the report of a Target. Its matches are the VirtualServices that route to the Service.
type Report = meshes.Report[crdv1.VirtualServiceMatch]

// reportOf returns the report for requests with a key. The match of a VirtualService that is out of
// date and lacks routes for this key has the progress of its write.
func reportOf(r istio.Report, key string, objects map[types.NamespacedName]*kept) Report {
	out := Report{Matches: r.Matched}
	for i := range out.Matches {
		m := &out.Matches[i]
		k := objects[types.NamespacedName{Namespace: m.Namespace, Name: m.Name}]
		if k.behind() && (m.Status == istio.StatusApplied || m.Status == istio.StatusPartial) &&
			slices.ContainsFunc(k.differ, func(name string) bool { return names.NamedFor(name, key) }) {
			m.Status, m.Message = k.status, k.message
		}
		if note := rewrites.Note(k.have); note != "" && !slices.Contains(out.Notes, note) {
			out.Notes = append(out.Notes, note)
		}
	}
	for _, f := range r.Findings {
		switch {
		case !f.Lost:
			out.Notes = append(out.Notes, f.Message)
		case out.Lost == nil:
			out.Lost = new(condition.False(f.Reason, f.Message))
		}
	}
	return out
}

package istio

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
)

// Statuses of a VirtualService in the status of an IstioRoute.
const (
	// StatusApplied means that the rendering has all derived routes.
	StatusApplied = "Applied"
	// StatusPartial means that some derived routes are missing.
	StatusPartial = "Partial"
	// StatusSkipped means that there are no derived routes.
	StatusSkipped = "Skipped"
	// StatusIgnored means that an annotation excludes the VirtualService.
	StatusIgnored = "Ignored"
)

// Report is the state of requests with one key to one Service.
type Report struct {
	// Matched are the VirtualServices that route to the Service, sorted by namespace and name.
	Matched []crdv1.VirtualServiceMatch
	// Findings are sorted; those about lost requests come first.
	Findings []Finding
}

// Report returns the state of requests with a key to a Service, given the renderings of all
// VirtualServices. further are additional findings about the Service. It returns the zero Report if the
// Service is not managed.
func (m *Mesh) Report(service types.NamespacedName, key string, renderings []Rendering, further ...Finding) Report {
	s := m.services[m.resolve(service.Name, service.Namespace)]
	if s == nil {
		return Report{}
	}
	var all, beside []Finding
	var report Report
	ofKey := slices.DeleteFunc(slices.Clone(s.findings), func(f Finding) bool { return f.Key != key })
	straight, expected, covered, inMesh := false, true, false, false
	for _, r := range renderings {
		direct, leads := r.leads[service]
		serving := m.serving(&r, service, key)
		direct, leads = direct || len(serving) > 0, leads || len(serving) > 0
		findings := r.of(service, key, leads)
		for _, other := range serving {
			findings = append(findings, r.lost(other.id(), key)...)
		}
		for _, f := range findings {
			all = append(all, f)
			if r.beside(f, service.Namespace) {
				beside = append(beside, f)
			}
		}
		if leads {
			if _, itself := r.leads[service]; itself {
				serving = nil
			}
			match := r.match(r.routes[claim{service, key}], append(ofKey, findings...), serving)
			report.Matched = append(report.Matched, match)
			straight = straight || direct
			expected = expected && !r.read.gatewaysOnly
			inMesh = inMesh || match.Status == StatusApplied && r.read.inMesh()
			covered = covered || direct && match.Status == StatusApplied && r.read.seenBy(service.Namespace)
		}
	}
	if covered {
		for i, f := range all {
			all[i].Lost = f.Lost && !slices.Contains(beside, f)
		}
	}
	further = slices.DeleteFunc(slices.Clone(further), func(f Finding) bool { return f.Key != "" && f.Key != key })
	all = slices.Concat(all, ofKey, further)
	elsewhere := slices.IndexFunc(m.hosts.deciding[s.host].by, func(vs *virtualService) bool { return vs.seenBy(service.Namespace) && !vs.gatewaysOnly })
	unreadable := slices.ContainsFunc(all, func(f Finding) bool { return f.Reason == ReasonUnreadable })
	switch {
	case unreadable || straight || !expected:
	case elsewhere >= 0:
		all = append(all, s.routedElsewhere(m.hosts.deciding[s.host].by[elsewhere]))
	case len(report.Matched) == 0:
		all = append(all, m.none(s))
	default:
		all = append(all, m.notRouted(s, inMesh))
	}
	sortFindings(all)
	report.Findings = all
	slices.SortFunc(report.Matched, func(a, b crdv1.VirtualServiceMatch) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return report
}

// beside reports whether a finding is not about lost requests if another VirtualService, exported to the
// namespace of the Service, has all routes for its host: this VirtualService is then not used, excluded
// from derived routes, or not exported there.
func (r *Rendering) beside(f Finding, namespace string) bool {
	switch f.Reason {
	case ReasonIgnored, ReasonReleaseInfersRoute, ReasonReleaseReplacesRoutes, ReasonShadowed, ReasonDelegateUnused:
		return true
	}
	return r.read != nil && !r.read.seenBy(namespace)
}

// of returns the findings about a Service and a key. leads states whether the VirtualService routes to the
// Service, which then includes the findings about all its Services.
func (r *Rendering) of(service types.NamespacedName, key string, leads bool) []Finding {
	return lists.Filter(slices.Concat(r.general, r.keyed[key]), func(f Finding) bool {
		return f.Service == service || f.Service == (types.NamespacedName{}) && leads
	})
}

// lost returns the findings about lost requests that name a Service, for a key.
func (r *Rendering) lost(service types.NamespacedName, key string) []Finding {
	return slices.DeleteFunc(r.of(service, key, false), func(f Finding) bool { return f.Service != service || !f.Lost })
}

// match returns the row of an IstioRoute's status. routes is the number of derived routes. serving are
// the Services to which requests for the host of its Service are routed instead of it.
func (r *Rendering) match(routes int, findings []Finding, serving []*managed) crdv1.VirtualServiceMatch {
	match := crdv1.VirtualServiceMatch{Namespace: r.Name.Namespace, Name: r.Name.Name}
	lost := slices.IndexFunc(findings, func(f Finding) bool { return f.Lost })
	switch {
	case r.ignored:
		match.Status = StatusIgnored
	case routes == 0:
		match.Status = StatusSkipped
	case lost >= 0:
		match.Status = StatusPartial
	default:
		match.Status = StatusApplied
	}
	switch {
	case lost >= 0:
		match.Message = findings[lost].Message
	case routes == 0:
		match.Message = "None of its routes has a destination port for which the sandbox has a Service."
	case len(serving) > 0:
		match.Message = fmt.Sprintf("Routes for the key: %d. Requests to the host of this Service take them too: the VirtualService routes that host to Service %s.", routes, namesOf(serving))
	default:
		match.Message = fmt.Sprintf("Routes for the key: %d.", routes)
	}
	return match
}

// namesOf returns the names of Services as text.
func namesOf(services []*managed) string {
	return strings.Join(lists.Map(services, func(s *managed) string { return s.id().String() }), ", ")
}

// none returns the finding that no VirtualService routes to a Service, with one to add.
func (m *Mesh) none(s *managed) Finding {
	return Finding{Reason: ReasonNoVirtualService, Service: s.id(), Lost: true, Message: fmt.Sprintf(
		"No VirtualService routes HTTP to Service %s, so requests with the key reach the baseline. Add %s.", s.id(), m.example(s))}
}

// example returns a minimal VirtualService for a Service, as YAML in one line, with an unused name. The
// caller checks that no VirtualService routes the host.
func (m *Mesh) example(s *managed) string {
	return fmt.Sprintf("{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: %s, namespace: %s}, spec: {hosts: [%s], http: [{route: [{destination: {host: %s}}]}]}}",
		m.hosts.freeName(s.id()), s.Namespace, s.host, s.host)
}

// notRouted returns the finding that no VirtualService routes the host of the Service. inMesh is true if
// another host in the mesh has derived routes: then no requests are lost if a Rollout moves weights to
// the Service.
func (m *Mesh) notRouted(s *managed, inMesh bool) Finding {
	f := Finding{Reason: ReasonHostNotRouted, Service: s.id(), Lost: true, Message: fmt.Sprintf(
		"No VirtualService decides requests from within the mesh to the host %s itself; with the key they reach the baseline. Add %s, or, if no workload calls it, annotate one that routes to it with %s=true.",
		s.host, m.example(s), AnnotationGatewaysOnly)}
	if rollout, is := m.settings.Released[s.id()]; is && inMesh {
		f.Lost, f.Message = false, fmt.Sprintf(
			"Rollout %s moves weights to Service %s, so workloads usually do not call its host. No VirtualService decides requests to that host, and with the key they reach the baseline. If workloads call it, add %s.",
			rollout, s.id(), m.example(s))
	}
	return f
}

// routedElsewhere returns the finding that a VirtualService for the host has no route to the Service.
func (s *managed) routedElsewhere(by *virtualService) Finding {
	return Finding{Reason: ReasonRoutedElsewhere, VirtualService: by.name, Service: s.id(), Lost: true, Message: fmt.Sprintf(
		"VirtualService %s decides requests to the host %s and has no HTTP route from there to Service %s or to another Service of the sandbox, so requests with the key are routed like those without. "+
			"Add an HTTP route with the destination %s to VirtualService %s, or fork the workloads that it routes to.",
		by.name, s.host, s.id(), s.host, by.name)}
}

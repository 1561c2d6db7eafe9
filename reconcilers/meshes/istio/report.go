package istio

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// How it went with a VirtualService, as the status of an IstioRoute says it.
const (
	// StatusApplied means that all routes are in it, or will be with the rendering.
	StatusApplied = "Applied"
	// StatusPartial means that some are not.
	StatusPartial = "Partial"
	// StatusSkipped means that none is.
	StatusSkipped = "Skipped"
	// StatusIgnored means that its owner wants none.
	StatusIgnored = "Ignored"
)

// Report is what there is to say of the requests with one key to one Service.
type Report struct {
	// Matched are the VirtualServices that lead to the Service, by namespace and name.
	Matched []crdv1.VirtualServiceMatch
	// Findings are the lost requests first.
	Findings []Finding
}

// Report returns what the renderings of all VirtualServices come to for requests with a key
// to a Service. further are findings about the Service from elsewhere.
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

// beside reports whether a finding costs no request that counts while another VirtualService
// has all routes for requests straight to the Service, and is seen in its namespace: this one is
// not used, or wants no routes, or is not seen there.
func (r *Rendering) beside(f Finding, namespace string) bool {
	switch f.Reason {
	case ReasonIgnored, ReasonReleaseInfersRoute, ReasonReleaseReplacesRoutes, ReasonShadowed, ReasonDelegateUnused:
		return true
	}
	return r.read != nil && !r.read.seenBy(namespace)
}

// of returns the findings that concern a Service and a key.
func (r *Rendering) of(service types.NamespacedName, key string, leads bool) []Finding {
	var all []Finding
	for _, f := range slices.Concat(r.general, r.keyed[key]) {
		if f.Service == service || f.Service == (types.NamespacedName{}) && leads {
			all = append(all, f)
		}
	}
	return all
}

// lost returns the findings of lost requests that name a Service and concern a key.
func (r *Rendering) lost(service types.NamespacedName, key string) []Finding {
	return slices.DeleteFunc(r.of(service, key, false), func(f Finding) bool { return f.Service != service || !f.Lost })
}

// match is the line of an IstioRoute's status, for so many routes. serving are the Services to
// which requests for the host of its Service are routed instead of it.
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
		match.Message = "None of its routes leads to a port for which the sandbox has a Service."
	case len(serving) > 0:
		match.Message = fmt.Sprintf("Routes for the key: %d. Requests to the host of this Service take them too: the VirtualService routes that host to Service %s.", routes, namesOf(serving))
	default:
		match.Message = fmt.Sprintf("Routes for the key: %d.", routes)
	}
	return match
}

// namesOf lists Services.
func namesOf(services []*managed) string {
	var all []string
	for _, s := range services {
		all = append(all, s.id().String())
	}
	return strings.Join(all, ", ")
}

// none says which VirtualService to add.
func (m *Mesh) none(s *managed) Finding {
	return Finding{Reason: ReasonNoVirtualService, Service: s.id(), Lost: true, Message: fmt.Sprintf(
		"No VirtualService routes HTTP to Service %s, so requests with the key reach the baseline. Add %s.", s.id(), m.example(s))}
}

// example returns the smallest VirtualService for a Service, as YAML in one line. Its name is free;
// the caller checks that no VirtualService decides requests to the host.
func (m *Mesh) example(s *managed) string {
	return fmt.Sprintf("{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {name: %s, namespace: %s}, spec: {hosts: [%s], http: [{route: [{destination: {host: %s}}]}]}}",
		m.hosts.freeName(s.id()), s.Namespace, s.host, s.host)
}

// notRouted reports that requests to the host of the Service itself have no routes. inMesh reports
// whether requests to another host of the mesh have them: then the host of a Service to which a Rollout
// moves weights needs none.
func (m *Mesh) notRouted(s *managed, inMesh bool) Finding {
	f := Finding{Reason: ReasonHostNotRouted, Service: s.id(), Lost: true, Message: fmt.Sprintf(
		"No VirtualService decides requests from within the mesh to the host %s itself; with the key they reach the baseline. Add %s, or, if no workload calls it, annotate one that leads to it with %s=true.",
		s.host, m.example(s), AnnotationGatewaysOnly)}
	if rollout, is := m.settings.Released[s.id()]; is && inMesh {
		f.Lost, f.Message = false, fmt.Sprintf(
			"Rollout %s moves weights to Service %s, so workloads usually do not call its host. No VirtualService decides requests to that host, and with the key they reach the baseline. If workloads call it, add %s.",
			rollout, s.id(), m.example(s))
	}
	return f
}

// routedElsewhere names the VirtualService that lacks a route to the Service.
func (s *managed) routedElsewhere(by *virtualService) Finding {
	return Finding{Reason: ReasonRoutedElsewhere, VirtualService: by.name, Service: s.id(), Lost: true, Message: fmt.Sprintf(
		"VirtualService %s decides requests to the host %s and has no HTTP route from there to Service %s or to another Service of the sandbox, so requests with the key are routed like those without. "+
			"Add an HTTP route with the destination %s to VirtualService %s, or fork the workloads that it routes to.",
		by.name, s.host, s.id(), s.host, by.name)}
}

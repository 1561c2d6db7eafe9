package preview

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/preview/access"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/controlplane-link/preview/label"
	"switchyard.dev/controlplane-link/registry"
)

// Sites has the preview domains: one of each organisation, and those that clusters have instead of it. It is safe for
// concurrent use.
type Sites struct {
	domains endpoints.Domains
	// all are the domains of organisations and clusters, the longest ones first.
	all      atomic.Pointer[[]domain]
	clusters atomic.Pointer[map[registry.Cluster]endpoints.Settings]
}

// domain is a preview domain. cluster: only endpoints of that have previews there; empty: those of all clusters.
type domain struct{ name, org, cluster string }

// NewSites returns the sites of organisations with a preview domain each. It is an error if two have the same, if one
// is below another, or if a script below one could reach cookies of the page with this origin.
func NewSites(domains map[string]string, page string) (*Sites, error) {
	s := &Sites{domains: endpoints.Domains{}}
	for _, org := range slices.Sorted(maps.Keys(domains)) {
		name, err := label.Domain(domains[org])
		if err == nil {
			err = access.CheckDomain(name, page)
		}
		if err != nil {
			return nil, fmt.Errorf("the preview domain of organisation %q: %w", org, err)
		}
		for other, of := range s.domains {
			if endpoints.Overlap(name, of) {
				return nil, fmt.Errorf("the preview domains of organisations %q (%s) and %q (%s) are the same, or one is below the other: give each organisation a domain of its own", other, of, org, name)
			}
		}
		s.domains[org] = name
	}
	s.set(nil)
	return s, nil
}

// Domains are the preview domains by organisation.
func (s *Sites) Domains() endpoints.Domains { return s.domains }

// set replaces the clusters, of which some have domains of their own.
func (s *Sites) set(clusters []model.Cluster) {
	var all []domain
	for org, name := range s.domains {
		all = append(all, domain{name: name, org: org})
	}
	reported := map[registry.Cluster]endpoints.Settings{}
	for _, c := range clusters {
		reported[registry.Cluster{Organisation: c.Org, Name: c.Name}] = endpoints.SettingsOf(c)
		if own := s.domains.Of(c); own != "" && own != s.domains[c.Org] {
			all = append(all, domain{name: own, org: c.Org, cluster: c.Name})
		}
	}
	slices.SortFunc(all, func(a, b domain) int {
		return cmp.Or(cmp.Compare(len(b.name), len(a.name)), cmp.Compare(a.name, b.name), cmp.Compare(a.org, b.org), cmp.Compare(a.cluster, b.cluster))
	})
	s.all.Store(&all)
	s.clusters.Store(&reported)
}

// settings returns what the agent of a cluster has reported.
func (s *Sites) settings(c registry.Cluster) endpoints.Settings { return (*s.clusters.Load())[c] }

// place is the preview that a host names.
type place struct {
	access.Site
	label label.Label
	// domains are those that the host is below, which clusters can share.
	domains []domain
}

// has reports whether endpoints of a cluster have previews at the host.
func (p place) has(cluster string) bool {
	return slices.ContainsFunc(p.domains, func(d domain) bool { return d.cluster == "" || d.cluster == cluster })
}

// find returns the preview that a host names, which can have a port. false: it is below no preview domain, or below
// that of clusters of several organisations.
func (s *Sites) find(host string) (p place, _ bool) {
	for _, d := range *s.all.Load() {
		l, err := label.Parse(host, d.name)
		switch {
		case err != nil:
			continue
		case p.Organisation == "":
			p.Site, p.label = access.Site{Organisation: d.org, Domain: d.name, Host: l.Host(d.name)}, l
		case p.Organisation != d.org:
			return place{}, false
		}
		p.domains = append(p.domains, d)
	}
	return p, p.Organisation != ""
}

// Site implements access.Sites.
func (s *Sites) Site(host string) (access.Site, bool) {
	p, is := s.find(host)
	return p.Site, is
}

// Clusters has the clusters of an organisation, as store.Store.
type Clusters interface {
	Clusters(ctx context.Context, org string) ([]model.Cluster, error)
}

// Read reads what agents of clusters have reported. After an error the former ones stay.
func (s *Sites) Read(ctx context.Context, from Clusters) error {
	var all []model.Cluster
	for _, org := range slices.Sorted(maps.Keys(s.domains)) {
		clusters, err := from.Clusters(ctx, org)
		if err != nil {
			return fmt.Errorf("the preview domains of the clusters of organisation %q: %w", org, err)
		}
		all = append(all, clusters...)
	}
	s.set(all)
	return nil
}

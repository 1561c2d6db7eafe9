package preview

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	// Certified reports whether there is a certificate for hosts below a domain. It can be set before the first use;
	// default: there is one.
	Certified func(domain string) bool

	domains endpoints.Domains
	page    string
	reads   sync.Mutex // those of Read have an order
	known   atomic.Pointer[known]
}

// known are the zones by their domain, and what the agents of clusters have reported.
type known struct {
	zones    map[string]zone
	settings map[registry.Cluster]endpoints.Settings
}

// zone has the hosts below a preview domain. Without clusters those of all have previews there. org is empty if clusters
// of several organisations have the domain: it is not served.
type zone struct {
	org      string
	clusters []string
}

// NewSites returns the sites of organisations with a preview domain each. It is an error if two have the same, if one
// is below another, or if a script below one could reach cookies of the page with this origin.
func NewSites(domains map[string]string, page string) (*Sites, error) {
	s := &Sites{Certified: func(string) bool { return true }, domains: endpoints.Domains{}, page: page}
	for org, text := range domains {
		name, err := label.Domain(text)
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

// usable returns the domain of a cluster without regard to other clusters, and a problem, as Of.
func (s *Sites) usable(c model.Cluster) (domain, problem string) {
	domain, problem = s.domains.Of(c)
	if err := access.CheckDomain(domain, s.page); domain != "" && err != nil {
		return s.domains[c.Org], endpoints.Ignored(err)
	}
	return domain, problem
}

// Of returns the domain in the URLs of the previews of a cluster, and a problem, as endpoints.Domains.
func (s *Sites) Of(c model.Cluster) (domain, problem string) {
	domain, problem = s.usable(c)
	z, has := s.known.Load().zones[domain]
	switch {
	case domain == "" || domain == s.domains[c.Org]:
		return domain, problem
	case has && z.org != c.Org:
		problem = endpoints.Ignored(fmt.Errorf("clusters of several organisations have %s; give each organisation a domain of its own", domain))
	case !s.Certified(domain):
		problem = endpoints.Ignored(fmt.Errorf("no certificate of previews has the name *.%s; add it to the certificate of previews.tls.secret", domain))
	case has:
		return domain, ""
	}
	return s.domains[c.Org], problem
}

// set replaces the clusters, of which some have domains of their own.
func (s *Sites) set(clusters []model.Cluster) {
	now := &known{map[string]zone{}, map[registry.Cluster]endpoints.Settings{}}
	for org, name := range s.domains {
		now.zones[name] = zone{org: org}
	}
	for _, c := range clusters {
		now.settings[registry.Cluster{Organisation: c.Org, Name: c.Name}] = endpoints.SettingsOf(c)
		own, _ := s.usable(c)
		z, has := now.zones[own]
		switch {
		case own == "" || own == s.domains[c.Org]:
		case has && z.org != c.Org:
			now.zones[own] = zone{}
		default:
			now.zones[own] = zone{c.Org, append(z.clusters, c.Name)}
		}
	}
	s.known.Store(now)
}

// settings returns what the agent of a cluster has reported.
func (s *Sites) settings(c registry.Cluster) endpoints.Settings { return s.known.Load().settings[c] }

// place is the preview that a host names.
type place struct {
	access.Site
	label label.Label
	zone  zone
}

// has reports whether endpoints of a cluster have previews at the host.
func (p place) has(cluster string) bool {
	return len(p.zone.clusters) == 0 || slices.Contains(p.zone.clusters, cluster)
}

// find returns the preview that a host names, which can have a port. false: it names none.
func (s *Sites) find(host string) (place, bool) {
	_, below, _ := strings.Cut(host, ".")
	below, _, _ = strings.Cut(below, ":")
	below = strings.ToLower(strings.TrimSuffix(below, "."))
	z := s.known.Load().zones[below]
	l, err := label.Parse(host, below)
	if err != nil || z.org == "" {
		return place{}, false
	}
	return place{access.Site{Organisation: z.org, Domain: below, Host: l.Host(below)}, l, z}, true
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
	s.reads.Lock()
	defer s.reads.Unlock()
	var all []model.Cluster
	for org := range s.domains {
		clusters, err := from.Clusters(ctx, org)
		if err != nil {
			return fmt.Errorf("the preview domains of the clusters of organisation %q: %w", org, err)
		}
		all = append(all, clusters...)
	}
	s.set(all)
	return nil
}

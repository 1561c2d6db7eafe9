package precedence

import (
	"cmp"
	"slices"
	"strings"
)

// Order is an order of precedence: that of the Gateway API with the deviations of an implementation.
// The package comment describes the fields.
type Order struct {
	RegexFirst, KindsJoined, CallsAtRoot, HostsApart, NamespaceFirst bool
}

// The orders of known implementations.
var (
	// API is the order of the API, with regular expressions after prefixes.
	API = Order{}
	// Istiod is the order of Istio's proxies.
	Istiod = Order{KindsJoined: true, HostsApart: true, NamespaceFirst: true}
	// Contour is the order of Contour's proxies.
	Contour = Order{RegexFirst: true, KindsJoined: true, CallsAtRoot: true, HostsApart: true}
)

// At is the position of a rule: the index of its route, and the index of the rule within it.
type At struct{ Route, Rule int }

// candidate is a match with its position, and the host name of its route that applies: "*" if the
// route is for all hosts.
type candidate struct {
	At
	match    int
	hostname string
	*Match
	route *Route
}

// Winner returns the position of the rule that handles a request; false if none does.
func (o Order) Winner(routes []Route, q Request) (At, bool) {
	return o.winner(routes, o.accepted(routes), q)
}

func (o Order) winner(routes []Route, accepted []bool, q Request) (At, bool) {
	best, bestHost, found := candidate{}, "", false
	for i := range routes {
		hostname, fits := hostnameFor(&routes[i], q.Host)
		if !accepted[i] || !fits {
			continue
		}
		if o.HostsApart {
			if bestHost == "" || moreSpecific(hostname, bestHost) < 0 {
				bestHost, found = hostname, false
			} else if hostname != bestHost {
				continue
			}
		}
		for j := range routes[i].Rules {
			for k := range routes[i].Rules[j] {
				c := candidate{At{i, j}, k, hostname, &routes[i].Rules[j][k], &routes[i]}
				if c.fits(q) && (!found || o.compare(&c, &best) < 0) {
					best, found = c, true
				}
			}
		}
	}
	return best.At, found
}

// accepted returns for each route whether the parent accepts it. Without KindsJoined, a route is not
// accepted if an older one of the other kind has an intersecting host name.
func (o Order) accepted(routes []Route) []bool {
	accepted := make([]bool, len(routes))
	byAge := make([]int, len(routes))
	for i := range byAge {
		byAge[i] = i
	}
	slices.SortStableFunc(byAge, func(a, b int) int { return o.older(&routes[a], &routes[b]) })
	for n, i := range byAge {
		accepted[i] = o.KindsJoined || !slices.ContainsFunc(byAge[:n], func(j int) bool {
			return accepted[j] && routes[i].Kind != routes[j].Kind && hostsMeet(&routes[i], &routes[j])
		})
	}
	return accepted
}

func hostsMeet(a, b *Route) bool {
	return slices.ContainsFunc(allHostnames(a), func(h string) bool {
		return slices.ContainsFunc(allHostnames(b), func(g string) bool { _, meet := narrower(h, g); return meet })
	})
}

// hostnameFor returns the most specific host name of a route that matches a host; false if none does.
func hostnameFor(r *Route, host string) (string, bool) {
	best := ""
	for _, h := range allHostnames(r) {
		if (h == "*" || hostFits(h, host)) && (best == "" || moreSpecific(h, best) < 0) {
			best = h
		}
	}
	return best, best != ""
}

// allHostnames returns the host names of a route, ["*"] if it has none.
func allHostnames(r *Route) []string {
	if len(r.Hostnames) == 0 {
		return []string{"*"}
	}
	return r.Hostnames
}

// moreSpecific is negative if a is the more specific host name: one without a wildcard before one
// with, then the longer one.
func moreSpecific(a, b string) int {
	exact := func(h string) int {
		if strings.HasPrefix(h, "*") {
			return 0
		}
		return len(h)
	}
	return cmp.Or(-cmp.Compare(exact(a), exact(b)), -cmp.Compare(len(a), len(b)))
}

// compare is negative if a precedes b.
func (o Order) compare(a, b *candidate) int {
	specific := o.http
	if a.route.Kind == GRPCRoute && b.route.Kind == GRPCRoute && !o.KindsJoined {
		specific = grpc
	}
	return cmp.Or(
		moreSpecific(a.hostname, b.hostname),
		specific(a.Match, b.Match),
		o.older(a.route, b.route),
		cmp.Compare(a.Rule, b.Rule),
		cmp.Compare(a.match, b.match),
	)
}

func (o Order) http(a, b *Match) int {
	return cmp.Or(
		-cmp.Compare(o.class(a), o.class(b)),
		-cmp.Compare(a.path.length, b.path.length),
		-cmp.Compare(min(1, len(a.method)), min(1, len(b.method))),
		-cmp.Compare(len(a.headers), len(b.headers)),
		-cmp.Compare(len(a.query), len(b.query)),
	)
}

// class returns the rank of the kind of path match in this order.
func (o Order) class(m *Match) pathClass {
	class := m.path.class
	switch {
	case class == anyPath && o.CallsAtRoot:
		class = prefixPath
	case m.all:
		return anyPath - 1
	}
	switch {
	case o.RegexFirst && class == regexPath:
		return prefixPath
	case o.RegexFirst && class == prefixPath:
		return regexPath
	}
	return class
}

func grpc(a, b *Match) int {
	return cmp.Or(
		-cmp.Compare(a.service, b.service),
		-cmp.Compare(a.rpc, b.rpc),
		-cmp.Compare(len(a.headers), len(b.headers)),
	)
}

// older is negative if a is the older route, or of two with the same age the first by name.
func (o Order) older(a, b *Route) int {
	if a.Created.IsZero() != b.Created.IsZero() {
		if a.Created.IsZero() {
			return 1
		}
		return -1
	}
	names := cmp.Compare(a.Namespace+"/"+a.Name.Name, b.Namespace+"/"+b.Name.Name)
	if o.NamespaceFirst {
		// Istiod's internal names of routes are the name, ~ and a number.
		names = cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name.Name+"~", b.Name.Name+"~"))
	}
	// An HTTPRoute and a GRPCRoute can have the same name.
	return cmp.Or(a.Created.Compare(b.Created), names, -cmp.Compare(a.Kind, b.Kind))
}

package meshes

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"switchyard.dev/reconcilers/meshes/precedence"
)

// What random routes and requests are made of. Some names and namespaces are the beginning of
// others, since implementations differ in which of those goes first.
var (
	routeNamespaces = []string{"app", "app-b"}
	nameEnds        = []string{"", "", "-b", "-b-c", "b"}
	hostnames       = []gatewayv1.Hostname{"*.test", "shop.test", "a.shop.test", "*.shop.test"}
	paths           = []string{"/", "/a", "/a/", "/a/b", "/a/b/", "/a/b/c", "/ab", "/b", "/s.A", "/s.A/m"}
	pathRegexes     = []string{"/a.*", "/[ab]", "/.*", "/a/(b|c)", "/s[.]A/m", "/a/b/?.*"}
	methods         = []gatewayv1.HTTPMethod{"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"}
	headers         = []string{"X1", "x2", "baggage"}
	headerRegexes   = []string{"v", "v|w", "[vw]+", ".*", "(?:.*,)?v(?:,.*)?"}
	queryRegexes    = []string{"1", "1|2", "[0-9]+"}
	services        = []string{"", "s.A", "s.B", "s.A.C"}
	rpcs            = []string{"", "m", "n"}
)

// routeSet is the routes of one parent, which no others have.
type routeSet struct {
	number int
	order  precedence.Order
	parent gatewayv1.ParentReference
	// host is that of all requests, which the routes do not look at; "" at a Gateway.
	host string
	// port is where the parent's proxy listens.
	port int
	// objects are the routes; routes are the same as the calculator sees them.
	objects []client.Object
	routes  []precedence.Route
	// oddity is what the implementation does otherwise in this set, if anything.
	oddity oddity
}

// oddity is something that an implementation does otherwise than its Order says. Only sets that
// have it have what it is about.
type oddity string

// Those of istiod.
const (
	// The API lets the first count where a match names a header in large and in small letters;
	// istiod asks for both.
	repeatedHeader oddity = "a header named twice in a match"
	// Of an HTTPRoute and a GRPCRoute of the same namespace and name istiod keeps the HTTPRoute,
	// and of the GRPCRoute only the host names that it has more.
	oneNameOfBothKinds oddity = "one name for both kinds"
	// Where routes name the port of a Service, a GRPCRoute's rule without matches does not come
	// after those whose match is empty.
	nothingAskedAtPort oddity = "a rule without matches beside an empty match, at the port of a Service"
)

var istiodOddities = []oddity{repeatedHeader, oneNameOfBothKinds, nothingAskedAtPort}

// String returns the routes as YAML.
func (s *routeSet) String() string {
	var b strings.Builder
	for _, o := range s.objects {
		var spec any
		switch o := o.(type) {
		case *gatewayv1.HTTPRoute:
			spec = o.Spec
		case *gatewayv1.GRPCRoute:
			spec = o.Spec
		}
		text, err := yaml.Marshal(spec)
		fmt.Fprintf(&b, "--- %T %s/%s of %s %v\n%s", o, o.GetNamespace(), o.GetName(), o.GetCreationTimestamp().UTC().Format(time.TimeOnly), err, text)
	}
	return b.String()
}

// ofService reports whether the parent is a Service.
func (s *routeSet) ofService() bool { return s.host != "" }

// dice are what decides at random.
type dice struct {
	*rand.Rand
	oddity oddity
	// atPort is set where routes name the port of a Service.
	atPort bool
}

func (d dice) oneIn(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d dice, from []T) T { return from[d.IntN(len(from))] }

// few returns up to most of what draw returns.
func few[T any](d dice, least, most int, draw func() T) []T {
	var out []T
	for range least + d.IntN(most-least+1) {
		out = append(out, draw())
	}
	return out
}

// istiodOddity returns one of istiod's for a few sets.
func (d dice) istiodOddity(s *routeSet) oddity {
	atPort := s.ofService() && s.parent.Port != nil
	switch {
	case atPort && d.oneIn(3):
		return nothingAskedAtPort
	case !atPort && d.oneIn(10):
		return pick(d, []oddity{repeatedHeader, oneNameOfBothKinds})
	}
	return ""
}

// routes draws between one and six routes of a parent: of a Gateway from all namespaces, of a
// Service from its own, since istiod joins no others.
func (d dice) routes(s *routeSet) {
	d.atPort, d.oddity = s.ofService() && s.parent.Port != nil, s.oddity
	s.objects = nil
	names := map[string]bool{}
	for range 1 + d.IntN(6) {
		meta := metadata{pick(d, routeNamespaces), fmt.Sprintf("r%04d%s", s.number, pick(d, nameEnds))}
		if s.ofService() || s.oddity == oneNameOfBothKinds {
			meta.namespace = routeNamespaces[0]
		}
		kind := precedence.HTTPRoute
		if d.oneIn(4) || d.oddity == nothingAskedAtPort || d.oddity == oneNameOfBothKinds && d.oneIn(2) {
			kind = precedence.GRPCRoute
		}
		id := meta.namespace + "/" + meta.name
		if s.oddity == oneNameOfBothKinds {
			id += kind
		}
		if !names[id] {
			names[id] = true
			s.objects = append(s.objects, d.route(kind, meta, s.parent))
		}
	}
}

type metadata struct{ namespace, name string }

// route returns a route whose rules do not say yet which one it was.
func (d dice) route(kind string, meta metadata, parent gatewayv1.ParentReference) client.Object {
	common := gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{parent}}
	var names []gatewayv1.Hostname
	for _, i := range d.Perm(len(hostnames))[:d.IntN(3)] {
		names = append(names, hostnames[i])
	}
	if kind == precedence.GRPCRoute {
		r := &gatewayv1.GRPCRoute{Spec: gatewayv1.GRPCRouteSpec{CommonRouteSpec: common, Hostnames: names}}
		r.Namespace, r.Name = meta.namespace, meta.name
		for range 1 + d.IntN(2) {
			r.Spec.Rules = append(r.Spec.Rules, gatewayv1.GRPCRouteRule{Matches: few(d, 0, 2, d.grpcMatch)})
		}
		return r
	}
	r := &gatewayv1.HTTPRoute{Spec: gatewayv1.HTTPRouteSpec{CommonRouteSpec: common, Hostnames: names}}
	r.Namespace, r.Name = meta.namespace, meta.name
	for range 1 + d.IntN(2) {
		r.Spec.Rules = append(r.Spec.Rules, gatewayv1.HTTPRouteRule{Matches: few(d, 0, 3, d.httpMatch)})
	}
	return r
}

// sign has each rule of a route say in its answers which one it was.
func sign(o client.Object) {
	says := func(kind string, rule int) *gatewayv1.HTTPHeaderFilter {
		name := precedence.Name{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
		return &gatewayv1.HTTPHeaderFilter{Set: []gatewayv1.HTTPHeader{{Name: ServedBy, Value: ruleName(name, rule)}}}
	}
	switch o := o.(type) {
	case *gatewayv1.HTTPRoute:
		for i := range o.Spec.Rules {
			o.Spec.Rules[i].Filters = []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterResponseHeaderModifier, ResponseHeaderModifier: says(precedence.HTTPRoute, i)}}
		}
	case *gatewayv1.GRPCRoute:
		for i := range o.Spec.Rules {
			o.Spec.Rules[i].Filters = []gatewayv1.GRPCRouteFilter{{Type: gatewayv1.GRPCRouteFilterResponseHeaderModifier, ResponseHeaderModifier: says(precedence.GRPCRoute, i)}}
		}
	}
}

// ruleName is how a rule says which one it is.
func ruleName(route precedence.Name, rule int) string { return fmt.Sprintf("%s rule %d", route, rule) }

func (d dice) httpMatch() gatewayv1.HTTPRouteMatch {
	class, value := pick(d, []gatewayv1.PathMatchType{"Exact", "PathPrefix", "PathPrefix", "RegularExpression"}), pick(d, paths)
	if class == gatewayv1.PathMatchRegularExpression {
		value = pick(d, pathRegexes)
	}
	if often, has := oftenInContour[d.oddity]; has {
		class, value = often.class, pick(d, often.paths)
	}
	m := gatewayv1.HTTPRouteMatch{}
	if !d.oneIn(8) { // else that of all paths
		m.Path = &gatewayv1.HTTPPathMatch{Type: &class, Value: &value}
	}
	if d.oneIn(4) {
		m.Method = new(pick(d, methods))
	}
	for _, h := range d.values(3, headers, headerRegexes) {
		m.Headers = append(m.Headers, gatewayv1.HTTPHeaderMatch{Name: gatewayv1.HTTPHeaderName(h.name), Type: new(gatewayv1.HeaderMatchType(h.class)), Value: h.value})
	}
	for _, q := range d.values(5, []string{"q", "Q"}, queryRegexes) {
		m.QueryParams = append(m.QueryParams, gatewayv1.HTTPQueryParamMatch{Name: gatewayv1.HTTPHeaderName(q.name), Type: new(gatewayv1.QueryParamMatchType(q.class)), Value: q.value})
	}
	return m
}

func (d dice) grpcMatch() gatewayv1.GRPCRouteMatch {
	m := gatewayv1.GRPCRouteMatch{}
	if d.oddity == nothingAskedAtPort && d.oneIn(2) || !d.atPort && d.oneIn(8) {
		return m
	}
	if service, rpc := pick(d, services), pick(d, rpcs); service+rpc != "" {
		m.Method = &gatewayv1.GRPCMethodMatch{}
		if d.oneIn(4) {
			m.Method.Type = new(gatewayv1.GRPCMethodMatchRegularExpression)
			service = strings.ReplaceAll(service, ".", "[.]")
			rpc = cmp.Or(map[string]string{"n": "m|n"}[rpc], rpc)
		}
		if service != "" {
			m.Method.Service = &service
		}
		if rpc != "" {
			m.Method.Method = &rpc
		}
	}
	for _, h := range d.values(3, headers, headerRegexes) {
		m.Headers = append(m.Headers, gatewayv1.GRPCHeaderMatch{Name: gatewayv1.GRPCHeaderName(h.name), Type: new(gatewayv1.GRPCHeaderMatchType(h.class)), Value: h.value})
	}
	if d.atPort && d.oddity == "" && m.Method == nil && m.Headers == nil {
		m.Method = &gatewayv1.GRPCMethodMatch{Service: new(pick(d, services[1:]))}
	}
	return m
}

// asked is what is asked of a header or a parameter.
type asked struct{ name, class, value string }

// values asks for something of one in some of the names.
func (d dice) values(some int, names, regexes []string) []asked {
	var out []asked
	for _, name := range names {
		if !d.oneIn(some) {
			continue
		}
		a := asked{name, "Exact", regexes[0]}
		if d.oneIn(2) {
			a.class, a.value = "RegularExpression", pick(d, regexes)
		}
		out = append(out, a)
		if small := strings.ToLower(name); d.oddity == repeatedHeader && small != name && name != "Q" {
			out = append(out, asked{small, "Exact", regexes[0]})
		}
	}
	return out
}

// request returns a request that routes with these parents may tell from others.
func (d dice) request() precedence.Request {
	q := precedence.Request{
		Host:    pick(d, []string{"", "shop.test", "x.test", "a.shop.test", "b.shop.test", "b.a.shop.test"}),
		Path:    pick(d, append([]string{"/a/x", "/abc", "/none", "/a/c", "/s.A/n", "/s.A/", "/s.A/m/x", "/s.B/m", "/s.A.C/m"}, paths...)),
		Method:  string(pick(d, methods)),
		Headers: map[string]string{}, Query: map[string]string{},
	}
	for _, name := range headers {
		if v := pick(d, []string{"", "v", "w", "vw", "w,v"}); v != "" {
			q.Headers[strings.ToLower(name)] = v
		}
	}
	for _, name := range []string{"q", "Q"} {
		if v := pick(d, []string{"", "", "1", "2", "x"}); v != "" {
			q.Query[name] = v
		}
	}
	return q
}

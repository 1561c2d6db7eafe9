package precedence

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/eventbus/lists"
)

// The kinds of routes.
const (
	HTTPRoute = "HTTPRoute"
	GRPCRoute = "GRPCRoute"
)

// Name identifies a route.
type Name struct{ Kind, Namespace, Name string }

// String returns the name as KIND NAMESPACE/NAME.
func (n Name) String() string { return n.Kind + " " + n.Namespace + "/" + n.Name }

// Route is the part of an HTTPRoute or a GRPCRoute that decides precedence.
type Route struct {
	Name
	// Created is the creation time, zero if the route does not exist yet.
	Created time.Time
	// Hostnames are its host names, in lower case; none means all hosts.
	Hostnames []string
	// Rules are the matches of each rule. A rule has at least one.
	Rules [][]Match
}

// BadExpression returns a regular expression of the route that does not compile, "" if all do. The
// expression * of a header or a query parameter is valid: istiod treats it as any value.
func (r *Route) BadExpression() string {
	for _, rule := range r.Rules {
		for _, m := range lists.Pointers(rule) {
			if m.path.class == regexPath && m.path.regex == nil {
				return m.path.text
			}
			for _, v := range slices.Concat(m.headers, m.query) {
				if v.broken && v.text != "*" {
					return v.text
				}
			}
		}
	}
	return ""
}

// Match is a match of a rule: all its conditions have to be met.
type Match struct {
	path    path
	method  string
	headers []value
	query   []value
	// service and rpc are the lengths of the service and the method in a GRPCRoute.
	service, rpc int
	// all is true for the implicit match of a GRPCRoute's rule without matches.
	all bool
}

// pathClass is the kind of a path match.
type pathClass int

// The classes, the least specific first.
const (
	anyPath pathClass = iota
	regexPath
	prefixPath
	exactPath
)

// path is a path match. length is its length for the precedence in implementations that join both
// kinds.
type path struct {
	class  pathClass
	text   string
	regex  *regexp.Regexp
	length int
	// samples are texts that the regular expression matches.
	samples []string
	// rpc is set if a GRPCRoute matches this method of any service.
	rpc string
}

// value is a match of a header or a query parameter.
type value struct {
	name, text string
	// regex is set if text is a regular expression; broken is true if it does not compile.
	regex  *regexp.Regexp
	broken bool
	// samples are texts that meet it.
	samples []string
}

// OfHTTP returns the Route of an HTTPRoute.
func OfHTTP(r *gatewayv1.HTTPRoute) Route {
	out := Route{Name: Name{HTTPRoute, r.Namespace, r.Name}, Created: r.CreationTimestamp.Time, Hostnames: hostnames(r.Spec.Hostnames)}
	for _, rule := range r.Spec.Rules {
		matches := rule.Matches
		if len(matches) == 0 {
			matches = []gatewayv1.HTTPRouteMatch{{}}
		}
		of := lists.Map(lists.Pointers(matches), ofHTTPMatch)
		out.Rules = append(out.Rules, of)
	}
	return out
}

// OfGRPC returns the Route of a GRPCRoute.
func OfGRPC(r *gatewayv1.GRPCRoute) Route {
	out := Route{Name: Name{GRPCRoute, r.Namespace, r.Name}, Created: r.CreationTimestamp.Time, Hostnames: hostnames(r.Spec.Hostnames)}
	for _, rule := range r.Spec.Rules {
		of := lists.Map(lists.Pointers(rule.Matches), ofGRPCMatch)
		if of == nil {
			of = []Match{{all: true, path: anyCall}}
		}
		out.Rules = append(out.Rules, of)
	}
	return out
}

func hostnames(in []gatewayv1.Hostname) []string {
	return lists.Map(in, func(h gatewayv1.Hostname) string { return strings.ToLower(string(h)) })
}

func ofHTTPMatch(m *gatewayv1.HTTPRouteMatch) Match {
	out := Match{path: path{class: prefixPath, text: "/", length: 1}}
	if m.Path != nil {
		out.path = httpPath(ptr.Deref(m.Path.Type, gatewayv1.PathMatchPathPrefix), ptr.Deref(m.Path.Value, "/"))
	}
	out.method = string(ptr.Deref(m.Method, ""))
	for _, h := range m.Headers {
		out.headers = with(out.headers, strings.ToLower(string(h.Name)), h.Value, ptr.Deref(h.Type, "") == gatewayv1.HeaderMatchRegularExpression)
	}
	for _, q := range m.QueryParams {
		out.query = with(out.query, string(q.Name), q.Value, ptr.Deref(q.Type, "") == gatewayv1.QueryParamMatchRegularExpression)
	}
	return out
}

func httpPath(class gatewayv1.PathMatchType, text string) path {
	switch class {
	case gatewayv1.PathMatchExact:
		return path{class: exactPath, text: text, length: len(text)}
	case gatewayv1.PathMatchRegularExpression:
		return path{class: regexPath, text: text, regex: whole(text), length: len(text), samples: samples(text)}
	}
	if text != "/" {
		text = strings.TrimSuffix(text, "/")
	}
	return path{class: prefixPath, text: text, length: len(text)}
}

func ofGRPCMatch(m *gatewayv1.GRPCRouteMatch) Match {
	out := Match{path: anyCall}
	if m.Method != nil {
		service, rpc := ptr.Deref(m.Method.Service, ""), ptr.Deref(m.Method.Method, "")
		out.service, out.rpc = len(service), len(rpc)
		out.path = grpcPath(ptr.Deref(m.Method.Type, "") == gatewayv1.GRPCMethodMatchRegularExpression, service, rpc)
	}
	for _, h := range m.Headers {
		out.headers = with(out.headers, strings.ToLower(string(h.Name)), h.Value, ptr.Deref(h.Type, "") == gatewayv1.GRPCHeaderMatchRegularExpression)
	}
	return out
}

// anyCall is the path match of a GRPCRoute that names neither service nor method, with the length of
// the prefix /.
var anyCall = path{class: anyPath, length: len("/")}

// grpcPath returns the path match for a service and a method, as /service/method. Empty means any.
func grpcPath(regex bool, service, rpc string) path {
	anyService := ""
	switch {
	case service == "" && rpc == "":
		return anyCall
	case !regex && rpc == "":
		return path{class: prefixPath, text: "/" + service, length: len(service) + 2}
	case !regex && service != "":
		text := "/" + service + "/" + rpc
		return path{class: exactPath, text: text, length: len(text)}
	case service == "":
		service = "[^/]+"
		if !regex {
			anyService = rpc
		}
	case rpc == "":
		rpc = ".+"
	}
	text := "/" + service + "/" + rpc
	return path{class: regexPath, text: text, regex: whole(text), length: len(text), samples: samples(text), rpc: anyService}
}

// with returns values with a match appended, unless there is one with this name: the first applies.
func with(values []value, name, text string, regex bool) []value {
	if slices.ContainsFunc(values, func(v value) bool { return v.name == name }) {
		return values
	}
	v := value{name: name, text: text, samples: []string{text}}
	if regex {
		v.regex, v.samples = whole(text), samples(text)
		v.broken = v.regex == nil
	}
	return append(values, v)
}

// whole compiles an expression that has to match the whole value; nil if it does not compile.
func whole(expression string) *regexp.Regexp {
	// Compile it alone first: "a)(b" is invalid, but would be valid within the group.
	if _, err := regexp.Compile(expression); err != nil {
		return nil
	}
	re, err := regexp.Compile(`^(?:` + expression + `)$`)
	if err != nil {
		return nil
	}
	return re
}

package precedence_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"switchyard.dev/reconcilers/meshes/precedence"
)

// set is a set of random routes, as objects.
type set struct {
	http []*gatewayv1.HTTPRoute
	grpc []*gatewayv1.GRPCRoute
}

var (
	paths     = []string{"/", "/a", "/a/", "/a/b", "/a/b/c", "/ab", "/b", "/s.A", "/s.A/m"}
	regexes   = []string{"/a.*", "/[ab]", "/.*", "/a/(b|c)", "/s[.]A/m"}
	hostnames = []gatewayv1.Hostname{"*.test", "shop.test", "a.shop.test"}
	asked     = append([]string{"/a/x", "/abc", "/none", "/a/c", "/s.A/n", "/s.B/m"}, paths...)
	hosts     = []string{"", "shop.test", "x.test", "a.shop.test"}
	methods   = []string{"GET", "PATCH"}
)

func drawHosts(t *rapid.T) []gatewayv1.Hostname {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(hostnames), 0, 2, rapid.ID).Draw(t, "hostnames")
}

func drawHTTPMatch(t *rapid.T) gatewayv1.HTTPRouteMatch {
	class := rapid.SampledFrom([]gatewayv1.PathMatchType{"Exact", "PathPrefix", "PathPrefix", "RegularExpression"}).Draw(t, "class")
	values := paths
	if class == gatewayv1.PathMatchRegularExpression {
		values = regexes
	}
	path := rapid.SampledFrom(values).Draw(t, "path")
	m := gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Type: &class, Value: &path}}
	if rapid.IntRange(0, 3).Draw(t, "method") == 0 {
		method := gatewayv1.HTTPMethod("GET")
		m.Method = &method
	}
	for _, name := range []gatewayv1.HTTPHeaderName{"X1", "x2"} {
		if v := rapid.SampledFrom([]string{"", "", "v", "v|w"}).Draw(t, string(name)); v != "" {
			class := gatewayv1.HeaderMatchRegularExpression
			m.Headers = append(m.Headers, gatewayv1.HTTPHeaderMatch{Name: name, Type: &class, Value: v})
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "query") == 0 {
		m.QueryParams = []gatewayv1.HTTPQueryParamMatch{{Name: "q", Value: "1"}}
	}
	return m
}

func drawGRPCMatch(t *rapid.T) gatewayv1.GRPCRouteMatch {
	m := gatewayv1.GRPCRouteMatch{}
	service, method := rapid.SampledFrom([]string{"", "s.A", "s.B"}).Draw(t, "service"), rapid.SampledFrom([]string{"", "m"}).Draw(t, "rpc")
	if service+method != "" {
		m.Method = &gatewayv1.GRPCMethodMatch{}
		if service != "" {
			m.Method.Service = &service
		}
		if method != "" {
			m.Method.Method = &method
		}
	}
	if rapid.Bool().Draw(t, "x1") {
		m.Headers = []gatewayv1.GRPCHeaderMatch{{Name: "x1", Value: "v"}}
	}
	return m
}

func drawSet(t *rapid.T) (set, []precedence.Route) {
	var s set
	var routes []precedence.Route
	for i := range rapid.IntRange(1, 5).Draw(t, "routes") {
		meta := gatewayv1.HTTPRoute{}.ObjectMeta
		meta.Namespace, meta.Name = rapid.SampledFrom([]string{"app", "app-b"}).Draw(t, "namespace"), []string{"r", "r-b", "rb", "r-b-c", "s"}[i]
		meta.CreationTimestamp.Time = time.Unix(rapid.Int64Range(1, 3).Draw(t, "created"), 0)
		rules := rapid.IntRange(1, 2).Draw(t, "rules")
		if rapid.IntRange(0, 3).Draw(t, "kind") > 0 {
			r := &gatewayv1.HTTPRoute{ObjectMeta: meta, Spec: gatewayv1.HTTPRouteSpec{Hostnames: drawHosts(t)}}
			for range rules {
				r.Spec.Rules = append(r.Spec.Rules, gatewayv1.HTTPRouteRule{Matches: rapid.SliceOfN(rapid.Custom(drawHTTPMatch), 0, 2).Draw(t, "matches")})
			}
			s.http, routes = append(s.http, r), append(routes, precedence.OfHTTP(r))
			continue
		}
		r := &gatewayv1.GRPCRoute{ObjectMeta: meta, Spec: gatewayv1.GRPCRouteSpec{Hostnames: drawHosts(t)}}
		for range rules {
			r.Spec.Rules = append(r.Spec.Rules, gatewayv1.GRPCRouteRule{Matches: rapid.SliceOfN(rapid.Custom(drawGRPCMatch), 0, 2).Draw(t, "matches")})
		}
		s.grpc, routes = append(s.grpc, r), append(routes, precedence.OfGRPC(r))
	}
	return s, routes
}

// row is a match that a request meets, with all criteria of precedence in their order: first the
// numbers, of which the larger precede, then the texts, of which the smaller precede.
type row struct {
	route, kind string
	rule        int
	larger      []int
	smaller     []string
	hostname    string
}

// plain returns the rule that handles a request, by a direct implementation of the API's documentation:
// it sorts all matches that the request meets. s are the routes that the parent accepts.
func plain(o precedence.Order, s set, q precedence.Request) string {
	var rows []row
	for _, r := range s.http {
		if h, ok := plainHost(r.Spec.Hostnames, q.Host); ok {
			rows = append(rows, row{hostname: h, route: r.Name, rule: -1})
			for i, rule := range r.Spec.Rules {
				matches := rule.Matches
				if len(matches) == 0 {
					matches = []gatewayv1.HTTPRouteMatch{{}}
				}
				for j, m := range matches {
					if specific, ok := plainHTTP(o, m, q); ok {
						rows = append(rows, row{r.Name, "h", i, slices.Concat(hostRank(h), specific), plainAge(o, r.ObjectMeta.CreationTimestamp.Unix(), r.Namespace, r.Name, i, j), h})
					}
				}
			}
		}
	}
	for _, r := range s.grpc {
		if h, ok := plainHost(r.Spec.Hostnames, q.Host); ok {
			rows = append(rows, row{hostname: h, route: r.Name, rule: -1})
			for i, rule := range r.Spec.Rules {
				matches := rule.Matches
				none := len(matches) == 0
				if none {
					matches = []gatewayv1.GRPCRouteMatch{{}}
				}
				for j, m := range matches {
					if specific, ok := plainGRPC(o, m, none, q); ok {
						rows = append(rows, row{r.Name, "g", i, slices.Concat(hostRank(h), specific), plainAge(o, r.ObjectMeta.CreationTimestamp.Unix(), r.Namespace, r.Name, i, j), h})
					}
				}
			}
		}
	}
	if o.HostsApart && len(rows) > 0 {
		best := slices.MinFunc(rows, func(a, b row) int { return slices.Compare(hostRank(b.hostname), hostRank(a.hostname)) }).hostname
		rows = slices.DeleteFunc(rows, func(r row) bool { return r.hostname != best })
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return r.rule < 0 })
	if len(rows) == 0 {
		return ""
	}
	first := slices.MinFunc(rows, func(a, b row) int {
		if c := slices.Compare(b.larger, a.larger); c != 0 {
			return c
		}
		return slices.Compare(a.smaller, b.smaller)
	})
	return fmt.Sprintf("%s rule %d", first.route, first.rule)
}

func hostRank(h string) []int {
	if strings.HasPrefix(h, "*") {
		return []int{0, len(h)}
	}
	return []int{len(h), len(h)}
}

func plainHost(hostnames []gatewayv1.Hostname, host string) (string, bool) {
	best := ""
	for _, h := range hostnames {
		if name := string(h); (name == host || name[0] == '*' && strings.HasSuffix(host, name[1:])) && (best == "" || slices.Compare(hostRank(name), hostRank(best)) > 0) {
			best = name
		}
	}
	if len(hostnames) == 0 {
		return "*", true
	}
	return best, best != ""
}

// kept returns the routes, except the one named without, that the parent accepts: those that share none
// of the tested hosts with an older one of the other kind.
func (s set) kept(o precedence.Order, without string) set {
	type entry struct {
		age  []string
		http *gatewayv1.HTTPRoute
		grpc *gatewayv1.GRPCRoute
	}
	hostnames := func(e entry) []gatewayv1.Hostname {
		if e.http != nil {
			return e.http.Spec.Hostnames
		}
		return e.grpc.Spec.Hostnames
	}
	var all []entry
	for _, r := range s.http {
		if r.Name != without {
			all = append(all, entry{plainAge(o, r.CreationTimestamp.Unix(), r.Namespace, r.Name, 0, 0), r, nil})
		}
	}
	for _, r := range s.grpc {
		if r.Name != without {
			all = append(all, entry{plainAge(o, r.CreationTimestamp.Unix(), r.Namespace, r.Name, 0, 0), nil, r})
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return slices.Compare(a.age, b.age) })
	var out set
	var accepted []entry
	for _, e := range all {
		refused := !o.KindsJoined && slices.ContainsFunc(accepted, func(a entry) bool {
			return (a.http == nil) != (e.http == nil) && slices.ContainsFunc(hosts, func(h string) bool {
				_, one := plainHost(hostnames(a), h)
				_, other := plainHost(hostnames(e), h)
				return one && other
			})
		})
		if refused {
			continue
		}
		accepted = append(accepted, e)
		if e.http != nil {
			out.http = append(out.http, e.http)
		} else {
			out.grpc = append(out.grpc, e.grpc)
		}
	}
	return out
}

func plainAge(o precedence.Order, created int64, namespace, name string, rule, match int) []string {
	names := []string{namespace + "/" + name}
	if o.NamespaceFirst {
		names = []string{namespace, name + "~"}
	}
	return slices.Concat([]string{fmt.Sprint(created)}, names, []string{fmt.Sprintf("%03d %03d", rule, match)})
}

func plainHTTP(o precedence.Order, m gatewayv1.HTTPRouteMatch, q precedence.Request) ([]int, bool) {
	class, text := gatewayv1.PathMatchPathPrefix, "/"
	if m.Path != nil {
		class, text = *m.Path.Type, *m.Path.Value
	}
	rank, fits := 0, false
	switch class {
	case gatewayv1.PathMatchExact:
		rank, fits = 9, q.Path == text
	case gatewayv1.PathMatchPathPrefix:
		if text != "/" {
			text = strings.TrimSuffix(text, "/")
		}
		rank, fits = 5, text == "/" || q.Path == text || strings.HasPrefix(q.Path, text+"/")
	case gatewayv1.PathMatchRegularExpression:
		rank, fits = 3, expression(text).MatchString(q.Path)
		if o.RegexFirst {
			rank = 7
		}
	}
	method := 0
	if m.Method != nil {
		method, fits = 1, fits && string(*m.Method) == q.Method
	}
	for _, h := range m.Headers {
		v, has := q.Headers[strings.ToLower(string(h.Name))]
		fits = fits && has && expression(h.Value).MatchString(v)
	}
	for _, p := range m.QueryParams {
		fits = fits && q.Query[string(p.Name)] == p.Value
	}
	return []int{rank, len(text), method, len(m.Headers), len(m.QueryParams)}, fits
}

func plainGRPC(o precedence.Order, m gatewayv1.GRPCRouteMatch, none bool, q precedence.Request) ([]int, bool) {
	fits, service, method := true, "", ""
	if m.Method != nil {
		if m.Method.Service != nil {
			service = *m.Method.Service
			fits = q.Path == "/"+service || strings.HasPrefix(q.Path, "/"+service+"/")
		}
		if m.Method.Method != nil {
			method = *m.Method.Method
			segments := strings.Split(q.Path, "/")
			fits = fits && len(segments) == 3 && segments[1] != "" && segments[2] == method
		}
	}
	for _, h := range m.Headers {
		fits = fits && q.Headers[string(h.Name)] == h.Value
	}
	if !o.KindsJoined {
		return []int{len(service), len(method), len(m.Headers)}, fits
	}
	specific := []int{2, 0, 0, len(m.Headers), 0}
	switch {
	case o.CallsAtRoot && service == "" && method == "":
		specific[0], specific[1] = 5, len("/")
	case none:
		specific[0] = 1
	case service != "" && method != "":
		specific[0], specific[1] = 9, len("/"+service+"/"+method)
	case service != "":
		specific[0], specific[1] = 5, len("/"+service+"/")
	case method != "":
		specific[0], specific[1] = 3, len("/[^/]+/"+method)
		if o.RegexFirst {
			specific[0] = 7
		}
	}
	return specific, fits
}

var expressions = map[string]*regexp.Regexp{}

func expression(text string) *regexp.Regexp {
	if expressions[text] == nil {
		expressions[text] = regexp.MustCompile("^(?:" + text + ")$")
	}
	return expressions[text]
}

// universe calls f with one request for each class that the random routes can distinguish.
func universe(f func(precedence.Request)) {
	for _, host := range hosts {
		for _, path := range asked {
			for _, method := range methods {
				for i := range 18 {
					q := precedence.Request{Host: host, Path: path, Method: method, Headers: map[string]string{}, Query: map[string]string{}}
					for n, name := range []string{"x1", "x2"} {
						if v := []string{"", "v", "w"}[i/(1+2*n)%3]; v != "" {
							q.Headers[name] = v
						}
					}
					if i >= 9 {
						q.Query["q"] = "1"
					}
					f(q)
				}
			}
		}
	}
}

var orders = []precedence.Order{precedence.API, precedence.Istiod, precedence.Contour}

// at returns a description of the position of a rule.
func at(routes []precedence.Route, w precedence.At) string {
	return fmt.Sprintf("%s rule %d", routes[w.Route].Name.Name, w.Rule)
}

func TestTheWinnerIsThatOfAPlainReading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, routes := drawSet(t)
		o := rapid.SampledFrom(orders).Draw(t, "order")
		s = s.kept(o, "")
		universe(func(q precedence.Request) {
			want, got := plain(o, s, q), ""
			if w, found := o.Winner(routes, q); found {
				got = at(routes, w)
			}
			if want != got {
				t.Fatalf("%s: want %q, got %q", q, want, got)
			}
		})
	})
}

// brute returns the rules that handle requests of the universe that match a rule.
func brute(o precedence.Order, s set, routes []precedence.Route, rule precedence.At) map[string]bool {
	alone := []precedence.Route{routes[rule.Route]}
	alone[0].Rules = alone[0].Rules[rule.Rule : rule.Rule+1]
	winners := map[string]bool{}
	universe(func(q precedence.Request) {
		if _, fits := o.Winner(alone, q); !fits {
			return
		}
		if winner := plain(o, s, q); winner != "" {
			winners[winner] = true
		}
	})
	return winners
}

func TestLossesAreThoseOfAllRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, routes := drawSet(t)
		o := rapid.SampledFrom(orders).Draw(t, "order")
		rule := precedence.At{Route: rapid.IntRange(0, len(routes)-1).Draw(t, "route")}
		rule.Rule = rapid.IntRange(0, len(routes[rule.Route].Rules)-1).Draw(t, "rule")
		s = s.kept(o, "")
		want := brute(o, s, routes, rule)
		delete(want, at(routes, rule))
		got := map[string]bool{}
		for _, l := range o.Losses(routes, 0, rule) {
			got[at(routes, l.Winner)] = true
			if answers := plain(o, s, l.Request); answers != at(routes, l.Winner) {
				t.Fatalf("%s is no loss to %s: %s answers it", l.Request, at(routes, l.Winner), answers)
			}
			alone := []precedence.Route{routes[rule.Route]}
			alone[0].Rules = alone[0].Rules[rule.Rule : rule.Rule+1]
			if _, fits := o.Winner(alone, l.Request); !fits {
				t.Fatalf("%s does not fit %s", l.Request, at(routes, rule))
			}
		}
		complete(t, s, want, got)
	})
}

// complete fails unless got includes all of want. It can have more, since the universe does not include
// all requests.
func complete(t *rapid.T, s set, want, got map[string]bool) {
	for name := range want {
		if !got[name] {
			text, _ := yaml.Marshal([]any{s.http, s.grpc})
			t.Fatalf("%s was not found, only %v, among\n%s", name, got, text)
		}
	}
}

func TestOvertakesAreThoseOfAllRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, routes := drawSet(t)
		o := rapid.SampledFrom(orders).Draw(t, "order")
		rule := precedence.At{Route: rapid.IntRange(0, len(routes)-1).Draw(t, "route")}
		rule.Rule = rapid.IntRange(0, len(routes[rule.Route].Rules)-1).Draw(t, "rule")
		added := make([]bool, len(routes))
		added[rule.Route] = true
		before, after := s.kept(o, routes[rule.Route].Name.Name), s.kept(o, "")
		want, got := map[string]bool{}, map[string]bool{}
		universe(func(q precedence.Request) {
			if plain(o, after, q) == at(routes, rule) {
				want[plain(o, before, q)] = true
			}
		})
		delete(want, "")
		for _, l := range o.Overtakes(routes, added, rule) {
			got[at(routes, l.Loser)] = true
			if plain(o, before, l.Request) != at(routes, l.Loser) || plain(o, after, l.Request) != at(routes, rule) {
				t.Fatalf("%s is not overtaken from %s", l.Request, at(routes, l.Loser))
			}
		}
		complete(t, s, want, got)
	})
}

package meshes

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/reconcilers/meshes/precedence"
	"switchyard.dev/tests/conformance/crd"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tests/world"
	"switchyard.dev/tools/contour"
)

var askContour = flag.Bool("contour", false, "compile Contour and compare with it too")

// What findContour found, for the program that runs within.
const (
	contourVariable            = "SWITCHYARD_CONTOUR"
	contourDefinitionsVariable = "SWITCHYARD_CONTOUR_DEFINITIONS"
)

// findContour finds Contour where a test is to ask it, and compiles it if the cache lacks it.
func findContour() error {
	if !*askContour || podnet.Inside() {
		return nil
	}
	root, err := crd.Root()
	if err != nil {
		return err
	}
	found, err := contour.Find(context.Background(), root)
	if err != nil {
		return err
	}
	if err := os.Setenv(contourVariable, found.Program); err != nil {
		return err
	}
	return os.Setenv(contourDefinitionsVariable, found.Definitions)
}

// contourSets is how many sets of routes are compared with Contour, all at Gateways.
const contourSets = 1000

// TestPrecedenceIsThatOfContour is a second opinion on the package precedence.
func TestPrecedenceIsThatOfContour(t *testing.T) {
	if !*askContour {
		t.Skip("-contour is not given")
	}
	implementation{
		order: precedence.Contour, oddities: contourOddities, gateways: contourSets, shift: 8000, oddity: dice.contourOddity, suit: suitContour,
		define: func(w *world.World) {
			_, err := envtest.InstallCRDs(w.Config, envtest.CRDInstallOptions{
				Paths: []string{os.Getenv(contourDefinitionsVariable)}, ErrorIfPathMissing: true, MaxTime: world.Patience,
			})
			w.Must(err)
			class := &gatewayv1.GatewayClass{Spec: gatewayv1.GatewayClassSpec{ControllerName: "projectcontour.io/gateway-controller"}}
			class.Name = "contour"
			made := []client.Object{class}
			for _, g := range gateways("contour", contourSets) {
				made = append(made, g)
			}
			kinds := gatewayClient(w)
			for _, o := range made {
				w.Must(kinds.Create(w.Context(), o))
			}
			for _, namespace := range routeNamespaces {
				w.Create(echoService(namespace, nobody))
			}
		},
		serve: func(w *world.World, sets []*routeSet, ask func(*Mesh, asker, []*routeSet)) {
			// A Contour serves one Gateway.
			for n := 0; n*perGateway < len(sets); n++ {
				t.Run(gatewayName(n), func(t *testing.T) {
					part := w.In(t)
					m := runContour(part, gatewayName(n))
					ask(m, asker{gateway: Client(net.IPv4(127, 0, 0, 1))}, sets[n*perGateway:min((n+1)*perGateway, len(sets))])
				})
			}
		},
	}.agrees(t)
}

// runContour runs a Contour for a Gateway, and its Envoy, until the test ends. It returns both.
func runContour(w *world.World, gateway string) *Mesh {
	w.Helper()
	m := &Mesh{World: w, dir: w.TempDir()}
	settings, bootstrap := filepath.Join(m.dir, "contour.yaml"), filepath.Join(m.dir, "envoy.json")
	w.Must(os.WriteFile(settings, fmt.Appendf(nil, "gateway: {gatewayRef: {namespace: %s, name: %s}}\n", routeNamespaces[0], gateway), 0o600))
	program := os.Getenv(contourVariable)
	m.run("contour", exec.Command(program, "serve", "--no-incluster", "--kubeconfig", w.Kubeconfig, "--config-path", settings, //nolint:gosec // found by findContour
		"--insecure", "--disable-leader-election", "--xds-address", "127.0.0.1", "--xds-port", "15010",
		"--http-address", "127.0.0.1", "--http-port", "15014", "--health-address", "127.0.0.1", "--health-port", "15015",
		"--stats-address", "127.0.0.1", "--stats-port", "15090", "--envoy-service-http-address", "0.0.0.0",
		"--disable-feature", "tlsroutes", "--disable-feature", "tcproutes", "--disable-feature", "backendtlspolicies", "--disable-feature", "extensionservices"), nil)
	said, err := exec.CommandContext(w.Context(), program, "bootstrap", bootstrap, "--xds-address", "127.0.0.1", "--xds-port", "15010", //nolint:gosec // found by findContour
		"--admin-address", filepath.Join(m.dir, "admin.sock"), "--resources-dir", m.dir).CombinedOutput()
	if err != nil {
		w.Fatalf("contour bootstrap: %v: %s", err, said)
	}
	m.run("envoy", sidecar.Envoy(bootstrap, "--service-cluster", "contour", "--service-node", gateway, "--concurrency", "1", "-l", "error"), nil)
	m.Await("Contour's Envoy has configuration", func() error { return sidecar.Healthy(w.Context(), "http://127.0.0.1:15090/ready") })
	return m
}

// nobody is a Service without endpoints, from which each rule answers: Contour leaves out a
// rule without a backend, and an answer does not say which rule gave it where the backend does
// not exist.
const nobody = "nobody"

// Those of Contour, each as its source has it.
const (
	// Of two routes that rank equally the older goes first by the API. Contour asks which rule is
	// the earlier in its route, then in which order the conditions' texts are.
	equalRank oddity = "routes that rank equally"
	// Of two rules with a same match the older has that match by the API. Contour leaves out the
	// younger rule, all other matches of it too.
	sameMatch oddity = "a match that another rule has"
	// A slash at the end of a prefix says nothing by the API. To Contour it makes it longer.
	slashAtEnd oddity = "a slash at the end of a prefix"
	// Of two expressions as long that go with one path, Contour lets the later in the alphabet go
	// first, whatever else is asked for.
	expressionsAsLong oddity = "two expressions as long"
	// Contour leaves out a match of a GRPCRoute that has a service or a method alone, or an
	// expression for them.
	partOfACall oddity = "a part of a call"
)

var contourOddities = []oddity{equalRank, sameMatch, slashAtEnd, expressionsAsLong, partOfACall}

// oftenInContour are paths with which these oddities are frequent.
var oftenInContour = map[oddity]struct {
	class gatewayv1.PathMatchType
	paths []string
}{
	equalRank:         {gatewayv1.PathMatchPathPrefix, []string{"/", "/a"}},
	sameMatch:         {gatewayv1.PathMatchPathPrefix, []string{"/", "/a"}},
	slashAtEnd:        {gatewayv1.PathMatchPathPrefix, []string{"/a", "/a/", "/a/b", "/a/b/"}},
	expressionsAsLong: {gatewayv1.PathMatchRegularExpression, []string{"/a/(b|c)", "/a/b/?.*"}},
}

// contourOddity returns one of Contour's for some sets.
func (d dice) contourOddity(*routeSet) oddity {
	if d.oneIn(3) {
		return pick(d, contourOddities)
	}
	return ""
}

// suitContour leaves out of a set what shows an oddity other than its own, gives each rule a
// backend, and reports whether a match is left that Contour takes.
func suitContour(s *routeSet) bool {
	c := conditions{own: s.oddity}
	var left []client.Object
	for n, o := range s.objects {
		switch o := o.(type) {
		case *gatewayv1.HTTPRoute:
			o.Spec.Rules = c.suitHTTP(n, o.Spec.Rules)
			if len(o.Spec.Rules) > 0 {
				left = append(left, o)
			}
		case *gatewayv1.GRPCRoute:
			o.Spec.Rules = c.suitGRPC(n, o.Spec.Rules)
			if len(o.Spec.Rules) > 0 {
				left = append(left, o)
			}
		}
	}
	s.objects = left
	return len(c.taken) > 0
}

// conditions are the matches of a set that Contour takes, and the oddity that the set has.
type conditions struct {
	taken []condition
	own   oddity
}

// condition is a match as Contour sorts it.
type condition struct {
	route, rule int
	rank
	path string
	// text is all that is asked for.
	text string
}

// rank is what the API sorts by, but for age.
type rank struct {
	class          gatewayv1.PathMatchType
	length         int
	method         bool
	headers, query int
}

func (c *conditions) suitHTTP(route int, rules []gatewayv1.HTTPRouteRule) []gatewayv1.HTTPRouteRule {
	var out []gatewayv1.HTTPRouteRule
	for n, rule := range rules {
		if len(rule.Matches) == 0 {
			rule.Matches = []gatewayv1.HTTPRouteMatch{{}}
		}
		var kept []gatewayv1.HTTPRouteMatch
		for _, m := range rule.Matches {
			class, path := gatewayv1.PathMatchPathPrefix, "/"
			if m.Path != nil {
				class, path = *m.Path.Type, *m.Path.Value
			}
			if c.take(condition{
				route, n, rank{class, len(path), m.Method != nil, len(m.Headers), len(m.QueryParams)}, path, text(class, path, m.Headers, m.Method, m.QueryParams),
			}) {
				kept = append(kept, m)
			}
		}
		if rule.Matches = kept; kept != nil {
			rule.BackendRefs = []gatewayv1.HTTPBackendRef{{BackendRef: backend()}}
			out = append(out, rule)
		}
	}
	return out
}

func (c *conditions) suitGRPC(route int, rules []gatewayv1.GRPCRouteRule) []gatewayv1.GRPCRouteRule {
	var out []gatewayv1.GRPCRouteRule
	for n, rule := range rules {
		matches := rule.Matches
		if len(matches) == 0 {
			matches = []gatewayv1.GRPCRouteMatch{{}}
		}
		var kept []gatewayv1.GRPCRouteMatch
		for _, m := range matches {
			class, path := gatewayv1.PathMatchPathPrefix, "/"
			switch call := m.Method; {
			case call == nil:
			case call.Type != nil || call.Service == nil || call.Method == nil:
				if c.own == partOfACall {
					kept = append(kept, m)
				}
				continue
			default:
				class, path = gatewayv1.PathMatchExact, "/"+*call.Service+"/"+*call.Method
			}
			if c.take(condition{route, n, rank{class: class, length: len(path), headers: len(m.Headers)}, path, text(class, path, m.Headers)}) {
				kept = append(kept, m)
			}
		}
		if kept != nil {
			if len(rule.Matches) > 0 {
				rule.Matches = kept
			}
			rule.BackendRefs = []gatewayv1.GRPCBackendRef{{BackendRef: backend()}}
			out = append(out, rule)
		}
	}
	return out
}

func backend() gatewayv1.BackendRef {
	return gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: nobody, Port: new(gatewayv1.PortNumber(Port))}}
}

func text(conditions ...any) string {
	b, _ := json.Marshal(conditions) // all of it is text
	return string(b)
}

// take takes a match, and reports whether it shows no oddity but the set's own.
func (c *conditions) take(m condition) bool {
	if odd := c.odd(m); odd != "" && odd != c.own {
		return false
	}
	c.taken = append(c.taken, m)
	return true
}

// odd returns what is odd about a match, beside those that were taken before.
func (c *conditions) odd(m condition) oddity {
	if m.class == gatewayv1.PathMatchPathPrefix && len(m.path) > 1 && m.path[len(m.path)-1] == '/' {
		return slashAtEnd
	}
	odd := oddity("")
	for _, o := range c.taken {
		switch {
		case o.text == m.text && (o.route != m.route || o.rule != m.rule):
			return sameMatch
		case m.class == gatewayv1.PathMatchRegularExpression && o.class == m.class && o.length == m.length && o.path != m.path:
			return expressionsAsLong
		case o.rank == m.rank && o.route != m.route:
			odd = equalRank
		}
	}
	return odd
}

package gatewayadapter_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/gatewayapi"
	"switchyard.dev/tests/world"
)

// TestADerivedRouteIsACopyThatAsksForTheKey derives from routes with all kinds of parents, host names
// and settings, and from unknown kinds of backends.
func TestADerivedRouteIsACopyThatAsksForTheKey(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	c.service("other")
	const parents = `parentRefs: [{name: edge, sectionName: https}, {group: "", kind: Service, name: customer, port: 8081}], hostnames: [shop.test, "*.shop.test"]`
	shop, rpc := &gatewayv1.HTTPRoute{}, &gatewayv1.GRPCRoute{}
	c.makeRoute(shop, `{metadata: {name: shop, namespace: `+c.ns+`}, spec: {`+parents+`, rules: [{
  name: api, matches: [{path: {type: PathPrefix, value: /api}, method: GET, headers: [{name: x, value: z}]}, {path: {type: Exact, value: /}}],
  filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: b}]}}, {type: URLRewrite, urlRewrite: {hostname: in.test}}],
  timeouts: {request: 3s, backendRequest: 1s},
  backendRefs: [{name: customer, port: 8081, weight: 3}, {name: other, port: 8081, weight: 1}, {name: gone, port: 1, weight: 1}, {group: example.com, kind: Bucket, name: b, weight: 1}]},
 {matches: [{path: {type: PathPrefix, value: /other}}], backendRefs: [{name: other, port: 8081}]}]}}`)
	c.makeRoute(rpc, `{metadata: {name: rpc, namespace: `+c.ns+`}, spec: {`+parents+`, rules: [{
  matches: [{method: {service: shop.Customer, method: Get}}], filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [a]}}],
  backendRefs: [{name: customer, port: 8081, weight: 3}, {name: other, port: 8081, weight: 1}]}]}}`)
	fork := c.sandbox("k1")
	c.says("k1", "that both are derived, of a Gateway and a Service", func(r gatewayadapter.Report) bool {
		return isDerived(r) && len(r.Matches) == 2 && cmp.Equal(r.Matches[1].ParentKinds, []string{"Gateway", "Service"}) && r.Matches[1].WithinMesh() &&
			strings.Contains(r.Matches[1].Message, "Service "+c.ns+"/gone, which does not exist")
	})

	derived := c.derives("k1", "it is there", nil)
	for i, m := range derived.Spec.Rules[0].Matches {
		headers := len(shop.Spec.Rules[0].Matches[i/2].Headers) // Two headers may carry the key.
		if len(m.Headers) != headers+1 || !strings.Contains(m.Headers[headers].Value, "k1") {
			t.Errorf("match %d is %+v", i, m)
		}
		derived.Spec.Rules[0].Matches[i].Headers = m.Headers[:headers:headers]
		if headers == 0 {
			derived.Spec.Rules[0].Matches[i].Headers = nil
		}
	}
	want := shop.Spec.DeepCopy()
	want.Rules = want.Rules[:1] // The other routes to another Service.
	m := want.Rules[0].Matches
	want.Rules[0].Matches = []gatewayv1.HTTPRouteMatch{m[0], m[0], m[1], m[1]}
	want.Rules[0].BackendRefs[0].Name = gatewayv1.ObjectName(fork)
	if diff := cmp.Diff(*want, derived.Spec); diff != "" {
		t.Errorf("but for the key it differs (-want +have):\n%s", diff)
	}

	var all gatewayv1.GRPCRouteList
	c.Must(c.routes.List(t.Context(), &all, client.InNamespace(c.ns), client.MatchingLabels{gatewayapi.LabelRoutingKey: "k1"}))
	if len(all.Items) != 1 {
		t.Fatalf("there are %d GRPCRoutes", len(all.Items))
	}
	have, wanted := all.Items[0].Spec, rpc.Spec.DeepCopy()
	if n := len(have.Rules[0].Matches); n != 2 {
		t.Errorf("it has %d matches", n)
	}
	for _, m := range have.Rules[0].Matches {
		if len(m.Headers) != 1 || !strings.Contains(m.Headers[0].Value, "k1") || *m.Method.Service != "shop.Customer" {
			t.Errorf("a match is %+v", m)
		}
	}
	have.Rules[0].Matches, wanted.Rules[0].Matches = nil, nil
	wanted.Rules[0].BackendRefs[0].Name = gatewayv1.ObjectName(fork)
	if diff := cmp.Diff(*wanted, have); diff != "" {
		t.Errorf("but for its matches it differs (-want +have):\n%s", diff)
	}
}

// TestARouteThatIsFullBecomesSeveral derives from a route that has as many matches as it may have,
// and then from few.
func TestARouteThatIsFullBecomesSeveral(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	var rules []string
	for i := range 16 {
		var matches []string
		for j := range 8 {
			matches = append(matches, fmt.Sprintf("{path: {type: PathPrefix, value: /%d/%d}}", i, j))
		}
		rules = append(rules, "{matches: ["+strings.Join(matches, ", ")+"], backendRefs: [{name: customer, port: 8081}]}")
	}
	shop := &gatewayv1.HTTPRoute{}
	c.makeRoute(shop, `{metadata: {name: shop, namespace: `+c.ns+`}, spec: {parentRefs: [{name: edge}], rules: [`+strings.Join(rules, ", ")+`]}}`)
	c.sandbox("k1")
	c.says("k1", "that all are derived", func(r gatewayadapter.Report) bool { return isDerived(r) && len(r.Matches) == 2 })
	matches := 0
	for _, r := range c.derivedOf("k1") {
		for _, rule := range r.Spec.Rules {
			matches += len(rule.Matches)
		}
	}
	if want := 16 * 8 * 2; matches != want {
		t.Errorf("they have %d matches in all, not %d", matches, want)
	}
	c.edit(shop, func(r *gatewayv1.HTTPRoute) { r.Spec.Rules = r.Spec.Rules[:2] })
	c.derives("k1", "one is enough", func(r *gatewayv1.HTTPRoute) bool { return len(r.Spec.Rules) == 2 })
	c.says("k1", "that it is derived", func(r gatewayadapter.Report) bool { return isDerived(r) && len(r.Matches) == 1 })
}

// TestAChangeIsFollowedWithinASecond changes a route several times. Other programs may slow one of
// them down.
func TestAChangeIsFollowedWithinASecond(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	shop := c.httpRoute("shop", "customer")
	c.sandbox("k1")
	c.derives("k1", "it is there", nil)
	best := time.Hour
	for i := range 5 {
		host := gatewayv1.Hostname(fmt.Sprintf("shop-%d.test", i))
		c.edit(shop, func(r *gatewayv1.HTTPRoute) { r.Spec.Hostnames = []gatewayv1.Hostname{host} })
		began := time.Now()
		c.derives("k1", "it follows", func(r *gatewayv1.HTTPRoute) bool { return r.Spec.Hostnames[0] == host })
		best = min(best, time.Since(began))
	}
	t.Logf("the quickest took %s", best)
	if best > time.Second {
		t.Errorf("the quickest of five took %s", best)
	}
}

// TestRequestsTakenByAnotherRouteAreReported has two routes of one Service, of which the older is derived
// from later: the route derived from the newer one wins where both match.
func TestRequestsTakenByAnotherRouteAreReported(t *testing.T) {
	w := world.Shared(t)
	w.DefineGatewayAPI()
	c := start(t, w, gatewayadapter.Settings{})
	var both [2]gatewayv1.HTTPRoute
	for i, name := range []string{"a", "b"} {
		c.makeRoute(&both[i], `{metadata: {name: `+name+`, namespace: `+c.ns+`}, spec: {parentRefs: [{name: edge}],
  rules: [{matches: [{headers: [{name: `+name+`, value: "1"}]}], backendRefs: [{name: customer, port: 8081}]}]}}`)
	}
	c.edit(&both[0], func(r *gatewayv1.HTTPRoute) { r.Annotations = map[string]string{crdv1.AnnotationIgnore: "true"} })
	c.sandbox("k1")
	newer := c.derives("k1", "of b alone", nil)
	const such = "Requests such as GET / with a: 1 and b: 1 and baggage: sd-routing-key=k1 are answered by HTTPRoute "
	c.says("k1", "that the other is left alone, that b takes its requests, and what Gateways do not lead", func(r gatewayadapter.Report) bool {
		notes := strings.Join(r.Notes, " ")
		return r.Lost != nil && r.Lost.Reason == gatewayapi.ReasonRequestsTaken && strings.Contains(r.Lost.Message, such+c.ns+"/"+newer.Name) && strings.Contains(notes, crdv1.AnnotationIgnore) && strings.Contains(notes, "Requests from within the mesh reach the baseline")
	})
	c.Eventually("its second is over, which is all that its age tells", func() error {
		if time.Since(newer.CreationTimestamp.Time) < 1100*time.Millisecond {
			return errors.New("it is not")
		}
		return nil
	})
	c.edit(&both[0], func(r *gatewayv1.HTTPRoute) { r.Annotations = nil })
	c.says("k1", "which requests another route takes", func(r gatewayadapter.Report) bool {
		return r.Lost != nil && r.Lost.Reason == gatewayapi.ReasonRequestsLost &&
			strings.Contains(r.Lost.Message, such+c.ns+"/"+newer.Name)
	})
}

package policies_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"switchyard.dev/reconcilers/policies"
)

// guard is a kind that only the values of the chart name.
var guard = policies.Kind{Group: "example.com", Kind: "Guard", Resource: "guards"}

// read reads a policy, once as it is and once as it is cached: both apply to the same.
func read(t *testing.T, text string) []policies.Policy {
	t.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	for _, kind := range policies.Kinds([]policies.Kind{guard}) {
		if kind.GroupKind() != o.GroupVersionKind().GroupKind() {
			continue
		}
		whole := policies.Read(kind, o.DeepCopy().Object)
		kept, err := policies.Keep(&o)
		if err != nil {
			t.Fatal(err)
		}
		cached := policies.Read(kind, kept.(*unstructured.Unstructured).Object)
		if !reflect.DeepEqual(whole, cached) {
			t.Errorf("cached it is read as %+v, else as %+v", cached, whole)
		}
		return []policies.Policy{cached}
	}
	t.Fatalf("no kind is known for %s", text)
	return nil
}

func TestWhichPoliciesApplyToARouteAlone(t *testing.T) {
	route := policies.Route{Kind: "HTTPRoute", Namespace: "shop", Name: "cart", Rules: []string{"pay"},
		Labels: map[string]string{"team": "a", "kept": "x"}, DerivedLabels: map[string]string{"kept": "x"},
		Services: []types.NamespacedName{{Namespace: "shop", Name: "cart"}}}
	for name, tt := range map[string]struct{ policy, applies string }{
		"of the route":                 {`{apiVersion: kuadrant.io/v1, kind: RateLimitPolicy, metadata: {namespace: shop, name: p}, spec: {targetRef: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart}}}`, "RateLimitPolicy shop/p targets HTTPRoute shop/cart"},
		"of another namespace":         {`{apiVersion: kuadrant.io/v1, kind: RateLimitPolicy, metadata: {namespace: pay, name: p}, spec: {targetRef: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart}}}`, ""},
		"of another namespace, named":  {`{apiVersion: kuadrant.io/v1, kind: RateLimitPolicy, metadata: {namespace: pay, name: p}, spec: {targetRef: {group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: shop, name: cart}}}`, "RateLimitPolicy pay/p targets HTTPRoute shop/cart"},
		"of a GRPCRoute of the name":   {`{apiVersion: kuadrant.io/v1, kind: RateLimitPolicy, metadata: {namespace: shop, name: p}, spec: {targetRef: {group: gateway.networking.k8s.io, kind: GRPCRoute, name: cart}}}`, ""},
		"of the Gateway":               {`{apiVersion: kuadrant.io/v1, kind: AuthPolicy, metadata: {namespace: shop, name: p}, spec: {targetRef: {group: gateway.networking.k8s.io, kind: Gateway, name: cart}}}`, ""},
		"by a label that is preserved": {`{apiVersion: gateway.envoyproxy.io/v1alpha1, kind: SecurityPolicy, metadata: {namespace: shop, name: p}, spec: {targetSelectors: [{group: gateway.networking.k8s.io, kind: HTTPRoute, matchLabels: {kept: x}}]}}`, ""},
		"by an expression":             {`{apiVersion: gateway.envoyproxy.io/v1alpha1, kind: SecurityPolicy, metadata: {namespace: shop, name: p}, spec: {targetSelectors: [{group: gateway.networking.k8s.io, kind: HTTPRoute, matchExpressions: [{key: team, operator: Exists}]}]}}`, "SecurityPolicy shop/p selects HTTPRoute shop/cart by label team"},
		"by the Istio name of a rule":  {`{apiVersion: networking.istio.io/v1alpha3, kind: EnvoyFilter, metadata: {namespace: shop, name: p}, spec: {configPatches: [{match: {routeConfiguration: {vhost: {route: {name: pay}}}}}]}}`, "EnvoyFilter shop/p names a route of HTTPRoute shop/cart"},
		"by the name of a longer one":  {`{apiVersion: networking.istio.io/v1alpha3, kind: EnvoyFilter, metadata: {namespace: shop, name: p}, spec: {configPatches: [{match: {routeConfiguration: {vhost: {route: {name: shop.cart.two.0}}}}}]}}`, ""},
		"by the Envoy Gateway name":    {`{apiVersion: gateway.envoyproxy.io/v1alpha1, kind: EnvoyPatchPolicy, metadata: {namespace: gw, name: p}, spec: {jsonPatches: [{name: gw/edge/http, operation: {jsonPath: "..routes[?(@.name=='httproute/shop/cart/rule/0/match/0/*')]"}}]}}`, "EnvoyPatchPolicy gw/p names a route of HTTPRoute shop/cart"},
		"of a kind of the values":      {`{apiVersion: example.com/v9, kind: Guard, metadata: {namespace: shop, name: p}, spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart}]}}`, "Guard shop/p targets HTTPRoute shop/cart"},
		"of a kind for pods alone":     {`{apiVersion: monitoring.coreos.com/v1, kind: PodMonitor, metadata: {namespace: shop, name: p}, spec: {targetRef: {group: gateway.networking.k8s.io, kind: HTTPRoute, name: cart}}}`, ""},
		"in a form that is unknown":    {`{apiVersion: kuadrant.io/v1, kind: AuthPolicy, metadata: {namespace: shop, name: p}, spec: {targetRef: [1, {}], targetRefs: x, targetSelectors: [{matchLabels: 1}]}}`, ""},
		"without a specification":      {`{apiVersion: kuadrant.io/v1, kind: AuthPolicy, metadata: {namespace: shop, name: p}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, miss := range policies.OnRoute(read(t, tt.policy), route) {
				got = append(got, miss.Applies)
			}
			if all := strings.Join(got, "; "); !strings.HasPrefix(all, tt.applies) || tt.applies == "" && all != "" {
				t.Errorf("it applies: %q", all)
			}
		})
	}
}

func TestWhichPoliciesApplyToABaselineAlone(t *testing.T) {
	w := policies.Workload{Namespace: "shop", Labels: map[string]string{"app": "cart", "team": "a"}, Fork: map[string]string{"team": "a", "f": "1"}, Services: []string{"cart"}}
	for name, tt := range map[string]struct {
		policy string
		labels []string
		is     bool
	}{
		"by a label that the fork lacks":                 {`{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: p}, spec: {selector: {matchLabels: {app: cart, team: a}}}}`, []string{"app"}, true},
		"by a label that it has":                         {`{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: p}, spec: {selector: {matchLabels: {team: a}}}}`, nil, false},
		"of the mesh":                                    {`{apiVersion: security.istio.io/v1beta1, kind: RequestAuthentication, metadata: {namespace: istio-system, name: p}, spec: {selector: {matchLabels: {app: cart}}}}`, []string{"app"}, true},
		"of another namespace":                           {`{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: pay, name: p}, spec: {selector: {matchLabels: {app: cart}}}}`, nil, false},
		"of every pod":                                   {`{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: p}, spec: {}}`, nil, false},
		"of the Service":                                 {`{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: p}, spec: {targetRefs: [{group: "", kind: Service, name: cart}]}}`, nil, true},
		"by a workload selector":                         {`{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {namespace: shop, name: p}, spec: {workloadSelector: {labels: {app: cart}}}}`, []string{"app"}, true},
		"of Linkerd":                                     {`{apiVersion: policy.linkerd.io/v1beta3, kind: Server, metadata: {namespace: shop, name: p}, spec: {podSelector: {matchExpressions: [{key: app, operator: In, values: [cart]}]}}}`, []string{"app"}, true},
		"of Cilium":                                      {`{apiVersion: cilium.io/v2, kind: CiliumNetworkPolicy, metadata: {namespace: shop, name: p}, specs: [{endpointSelector: {matchLabels: {"k8s:app": cart}}}]}`, []string{"app"}, true},
		"of Cilium, for this namespace":                  {`{apiVersion: cilium.io/v2, kind: CiliumClusterwideNetworkPolicy, metadata: {name: p}, spec: {endpointSelector: {matchLabels: {app: cart, "k8s:io.kubernetes.pod.namespace": shop}}}}`, []string{"app"}, true},
		"of Cilium, for another namespace":               {`{apiVersion: cilium.io/v2, kind: CiliumClusterwideNetworkPolicy, metadata: {name: p}, spec: {endpointSelector: {matchLabels: {app: cart, "k8s:io.kubernetes.pod.namespace": pay}}}}`, nil, false},
		"a monitor of another namespace":                 {`{apiVersion: monitoring.coreos.com/v1, kind: PodMonitor, metadata: {namespace: ops, name: p}, spec: {selector: {matchLabels: {app: cart}}, namespaceSelector: {matchNames: [shop]}}}`, []string{"app"}, true},
		"a monitor of its own namespace":                 {`{apiVersion: monitoring.coreos.com/v1, kind: PodMonitor, metadata: {namespace: ops, name: p}, spec: {selector: {matchLabels: {app: cart}}}}`, nil, false},
		"by what forks alone have":                       {`{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: p}, spec: {selector: {matchLabels: {f: "1"}}}}`, nil, false},
		"in a form that is unknown":                      {`{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: p}, spec: {selector: {matchLabels: [1]}, podSelector: 3}}`, nil, false},
		"of a further kind, by pods":                     {`{apiVersion: example.com/v1, kind: Guard, metadata: {namespace: shop, name: p}, spec: {podSelector: {matchLabels: {app: cart}}}}`, []string{"app"}, true},
		"of a further kind, of every pod":                {`{apiVersion: example.com/v1, kind: Guard, metadata: {namespace: shop, name: p}, spec: {podSelector: {}}}`, nil, false},
		"of a further kind, by a field that is not read": {`{apiVersion: example.com/v1, kind: Guard, metadata: {name: p}, spec: {subject: {pods: {podSelector: {matchLabels: {app: cart}}}}}}`, nil, true},
		"of a further kind, by such a field of another namespace's own": {`{apiVersion: example.com/v1, kind: Guard, metadata: {namespace: pay, name: p}, spec: {subject: {}}}`, nil, false},
		"with an operator that is unknown":                              {`{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: p}, spec: {selector: {matchExpressions: [{key: app, operator: Like}]}}}`, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			passed := policies.OnWorkload(read(t, tt.policy), w)
			if (len(passed) == 1) != tt.is || tt.is && !slices.Equal(passed[0].Labels, tt.labels) {
				t.Errorf("it is %+v", passed)
			}
		})
	}
}

func TestAPolicyWithTheSameSettingsReplacesOne(t *testing.T) {
	w := policies.Workload{Namespace: "shop", Labels: map[string]string{"app": "cart"}, Fork: map[string]string{"f": "1"}}
	const authorization = `{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: p}, spec: {selector: {matchLabels: {app: cart}}, action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]}}`
	for name, tt := range map[string]struct {
		policy, other string
		replaced      bool
	}{
		"for a label of the fork":         {authorization, `{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: q}, spec: {rules: [{to: [{operation: {paths: [/a]}}]}], action: DENY, selector: {matchLabels: {f: "1"}}}}`, true},
		"with another path":               {authorization, `{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: q}, spec: {selector: {matchLabels: {f: "1"}}, action: DENY, rules: [{to: [{operation: {paths: [/b]}}]}]}}`, false},
		"for another fork":                {authorization, `{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: q}, spec: {selector: {matchLabels: {f: "2"}}, action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]}}`, false},
		"in another namespace":            {authorization, `{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: pay, name: q}, spec: {selector: {matchLabels: {f: "1"}}, action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]}}`, false},
		"for the mesh":                    {authorization, `{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: istio-system, name: q}, spec: {action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]}}`, true},
		"for a Service":                   {authorization, `{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: q}, spec: {targetRefs: [{kind: Service, name: x}], action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]}}`, false},
		"for the namespace":               {`{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {namespace: shop, name: p}, spec: {selector: {matchLabels: {app: cart}}, mtls: {mode: STRICT}}}`, `{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {namespace: shop, name: q}, spec: {mtls: {mode: STRICT}}}`, true},
		"for the namespace, more loosely": {`{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {namespace: shop, name: p}, spec: {selector: {matchLabels: {app: cart}}, mtls: {mode: STRICT}}}`, `{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {namespace: shop, name: q}, spec: {mtls: {mode: PERMISSIVE}}}`, false},
		"of another kind":                 {`{apiVersion: security.istio.io/v1, kind: PeerAuthentication, metadata: {namespace: shop, name: p}, spec: {selector: {matchLabels: {app: cart}}}}`, `{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {namespace: shop, name: q}, spec: {selector: {matchLabels: {f: "1"}}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if passed := policies.OnWorkload(append(read(t, tt.policy), read(t, tt.other)...), w); (len(passed) == 0) != tt.replaced {
				t.Errorf("it is %+v", passed)
			}
		})
	}
}

func TestANetworkPolicyWithTheSameSettingsReplacesOne(t *testing.T) {
	w := policies.Workload{Namespace: "shop", Labels: map[string]string{"app": "cart"}, Fork: map[string]string{"f": "1"}}
	cached := func(label, from string) policies.Policy {
		var n networkingv1.NetworkPolicy
		text := `{metadata: {namespace: shop, name: p}, spec: {podSelector: {matchLabels: {` + label + `}}, ingress: [{from: [{podSelector: {matchLabels: {app: ` + from + `}}}]}]}}`
		if err := yaml.Unmarshal([]byte(text), &n); err != nil {
			t.Fatal(err)
		}
		policies.KeepPodSelector(&n)
		return policies.OfNetworkPolicy(&n)
	}
	for from, replaced := range map[string]bool{"web": true, "other": false} {
		if passed := policies.OnWorkload([]policies.Policy{cached("app: cart", "web"), cached(`f: "1"`, from)}, w); (len(passed) == 0) != replaced {
			t.Errorf("with one from %s it is %+v", from, passed)
		}
	}
}

func TestFurtherKindsAndDefaults(t *testing.T) {
	for _, wrong := range []policies.Kind{{}, {Group: "g", Kind: "K"}, policies.NetworkPolicies} {
		if wrong.Validate() == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
	if s := (policies.Settings{}).WithDefaults(true); s.Routes != policies.Refuse || s.Workloads != policies.Report {
		t.Errorf("a new installation has %+v", s)
	}
	if s := (policies.Settings{}).WithDefaults(false); s.Routes != policies.Report || s.Workloads != policies.Report {
		t.Errorf("an upgraded installation has %+v", s)
	}
	if s := (policies.Settings{Routes: policies.Refuse, Workloads: policies.Refuse}).WithDefaults(false); s.Routes != policies.Refuse || s.Workloads != policies.Refuse {
		t.Errorf("an upgraded installation with values has %+v", s)
	}
	for _, wrong := range []policies.Settings{{Routes: "allow"}, {Workloads: "allow"}, {Kinds: []policies.Kind{{}}}, {PreservedLabels: []string{"("}}} {
		if wrong.Validate() == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
	if err := (policies.Settings{Routes: policies.Auto, Workloads: policies.Refuse, Kinds: []policies.Kind{guard}, PreservedLabels: []string{"^team$"}}).Validate(); err != nil {
		t.Error(err)
	}
}

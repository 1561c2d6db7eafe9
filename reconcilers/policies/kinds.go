package policies

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of object that is a policy.
type Kind struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Resource is its plural, as in the name of its CustomResourceDefinition.
	Resource string `json:"resource"`
	// routes and workloads are the kinds of targets of its objects.
	routes, workloads bool
	// observes: its objects protect nothing, they only observe.
	observes bool
	// tunes: its objects protect nothing, they set how connections to a Service are made.
	tunes bool
	// everywhere: objects in any namespace, or in none, may apply to pods in any other.
	everywhere bool
	// root: objects in RootNamespace apply to pods in all namespaces.
	root bool
	// further: a value names it, so its objects may select by fields that are not read.
	further bool
}

// RootNamespace is where Istio reads policies for the whole mesh, unless configured otherwise.
const RootNamespace = "istio-system"

// known are the kinds that are read wherever the cluster has them. Kinds that only attach to
// Gateways are left out, since derived routes have the same Gateway; so are those that rules
// refer to (ExtensionRef), since derived rules refer to them too.
var known = []Kind{
	{Group: "gateway.envoyproxy.io", Kind: "SecurityPolicy", Resource: "securitypolicies", routes: true},
	{Group: "gateway.envoyproxy.io", Kind: "BackendTrafficPolicy", Resource: "backendtrafficpolicies", routes: true},
	{Group: "gateway.envoyproxy.io", Kind: "EnvoyExtensionPolicy", Resource: "envoyextensionpolicies", routes: true},
	{Group: "gateway.envoyproxy.io", Kind: "EnvoyPatchPolicy", Resource: "envoypatchpolicies", routes: true},
	{Group: "kuadrant.io", Kind: "AuthPolicy", Resource: "authpolicies", routes: true},
	{Group: "kuadrant.io", Kind: "RateLimitPolicy", Resource: "ratelimitpolicies", routes: true},
	{Group: "kuadrant.io", Kind: "TokenRateLimitPolicy", Resource: "tokenratelimitpolicies", routes: true},
	{Group: "gateway.kgateway.dev", Kind: "TrafficPolicy", Resource: "trafficpolicies", routes: true},
	{Group: "gateway.solo.io", Kind: "RouteOption", Resource: "routeoptions", routes: true},
	{Group: "gateway.nginx.org", Kind: "RateLimitPolicy", Resource: "ratelimitpolicies", routes: true},
	{Group: "apisix.apache.org", Kind: "HTTPRoutePolicy", Resource: "httproutepolicies", routes: true},
	{Group: "alb.networking.azure.io", Kind: "WebApplicationFirewallPolicy", Resource: "webapplicationfirewallpolicies", routes: true},
	{Group: "networking.gke.io", Kind: "GCPBackendPolicy", Resource: "gcpbackendpolicies", routes: true},
	{Group: "agentgateway.dev", Kind: "AgentgatewayPolicy", Resource: "agentgatewaypolicies", routes: true},
	{Group: "gateway.networking.x-k8s.io", Kind: "XBackendTrafficPolicy", Resource: "xbackendtrafficpolicies", routes: true, tunes: true},
	{Group: "networking.gke.io", Kind: "HealthCheckPolicy", Resource: "healthcheckpolicies", routes: true, tunes: true},
	{Group: "gateway.kgateway.dev", Kind: "BackendConfigPolicy", Resource: "backendconfigpolicies", routes: true, tunes: true},
	{Group: "gateway.nginx.org", Kind: "UpstreamSettingsPolicy", Resource: "upstreamsettingspolicies", routes: true, tunes: true},
	{Group: "apisix.apache.org", Kind: "BackendTrafficPolicy", Resource: "backendtrafficpolicies", routes: true, tunes: true},
	{Group: "gateway.k8s.aws", Kind: "TargetGroupConfiguration", Resource: "targetgroupconfigurations", routes: true, tunes: true},
	{Group: "networking.istio.io", Kind: "DestinationRule", Resource: "destinationrules", routes: true, tunes: true},
	{Group: "policy.linkerd.io", Kind: "AuthorizationPolicy", Resource: "authorizationpolicies", routes: true},
	{Group: "policy.linkerd.io", Kind: "Server", Resource: "servers", workloads: true},
	{Group: "security.istio.io", Kind: "AuthorizationPolicy", Resource: "authorizationpolicies", routes: true, workloads: true, root: true},
	{Group: "security.istio.io", Kind: "RequestAuthentication", Resource: "requestauthentications", routes: true, workloads: true, root: true},
	{Group: "security.istio.io", Kind: "PeerAuthentication", Resource: "peerauthentications", workloads: true},
	{Group: "networking.istio.io", Kind: "EnvoyFilter", Resource: "envoyfilters", routes: true, workloads: true, root: true},
	{Group: "networking.istio.io", Kind: "Sidecar", Resource: "sidecars", workloads: true},
	{Group: "extensions.istio.io", Kind: "WasmPlugin", Resource: "wasmplugins", routes: true, workloads: true, root: true},
	{Group: "telemetry.istio.io", Kind: "Telemetry", Resource: "telemetries", workloads: true, observes: true, root: true},
	{Group: "cilium.io", Kind: "CiliumNetworkPolicy", Resource: "ciliumnetworkpolicies", workloads: true},
	{Group: "cilium.io", Kind: "CiliumClusterwideNetworkPolicy", Resource: "ciliumclusterwidenetworkpolicies", workloads: true, everywhere: true},
	{Group: "monitoring.coreos.com", Kind: "PodMonitor", Resource: "podmonitors", workloads: true, observes: true, everywhere: true},
}

// NetworkPolicies are the kind that every cluster has, and that needs no definition.
var NetworkPolicies = Kind{Group: "networking.k8s.io", Kind: "NetworkPolicy", Resource: "networkpolicies", workloads: true}

// Kinds returns the known kinds that have a definition, and further ones: these may apply to
// routes as well as to workloads.
func Kinds(further []Kind) []Kind {
	out := slices.Clone(known)
	for _, k := range further {
		k.routes, k.workloads, k.everywhere, k.further = true, true, true, true
		if i := slices.IndexFunc(out, func(have Kind) bool { return have.GroupKind() == k.GroupKind() }); i >= 0 {
			out[i].routes, out[i].workloads = true, true
			continue
		}
		out = append(out, k)
	}
	return out
}

// Present returns the kinds to read: those for routes only if there are derived routes.
func Present(further []Kind, routes bool) []Kind {
	all := Kinds(further)
	if routes {
		return all
	}
	return OfWorkloads(all)
}

// OfRoutes returns the kinds of policies that may apply to routes.
func OfRoutes(all []Kind) []Kind {
	return slices.DeleteFunc(slices.Clone(all), func(k Kind) bool { return !k.routes })
}

// OfWorkloads returns the kinds of policies that may apply to pods.
func OfWorkloads(all []Kind) []Kind {
	return slices.DeleteFunc(slices.Clone(all), func(k Kind) bool { return !k.workloads })
}

// Namespaces returns the namespaces of objects that may apply to pods of a namespace; one empty name
// for all.
func (k Kind) Namespaces(of string) []string {
	switch {
	case k.everywhere:
		return []string{""}
	case k.root && of != RootNamespace:
		return []string{of, RootNamespace}
	}
	return []string{of}
}

// Observes reports whether objects of the kind protect nothing.
func (k Kind) Observes() bool { return k.observes }

// Crosses reports whether an object of the kind in a namespace may apply to pods of others.
func (k Kind) Crosses(namespace string) bool {
	return k.everywhere || k.root && namespace == RootNamespace
}

// Validate returns an error that names a missing field.
func (k Kind) Validate() error {
	if k.Group == "" || k.Kind == "" || k.Resource == "" {
		return fmt.Errorf("%+v needs a group, a kind and a resource (its plural)", struct{ Group, Kind, Resource string }{k.Group, k.Kind, k.Resource})
	}
	if k.GroupKind() == NetworkPolicies.GroupKind() {
		return errors.New("NetworkPolicies are always read: remove the entry")
	}
	return nil
}

// GroupKind returns its group and kind.
func (k Kind) GroupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.Kind} }

// Definition returns the name of its CustomResourceDefinition.
func (k Kind) Definition() string { return k.Resource + "." + k.Group }

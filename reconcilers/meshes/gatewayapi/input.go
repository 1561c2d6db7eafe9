package gatewayapi

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/precedence"
	"switchyard.dev/reconcilers/meshes/releases"
	"switchyard.dev/reconcilers/policies"
)

// Managed is one baseline Service that requests with a routing key leave for a member of a
// sandbox: what a GatewayAPIRoute asks for.
type Managed struct {
	// Name and UID are those of the GatewayAPIRoute, which owns what is derived for it. Without
	// a UID nothing has an owner.
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
	// RoutingKey is the key.
	RoutingKey string `json:"routingKey"`
	// Sandbox is metadata.name of the SignadotSandbox.
	Sandbox string `json:"sandbox"`
	// Namespace and TargetService name the baseline Service. Those that stand for its ports are
	// in the same namespace, and listen on the same ports.
	Namespace     string `json:"namespace"`
	TargetService string `json:"targetService"`
	// Mappings say which Service stands for which port.
	Mappings []crdv1.IstioPortMapping `json:"mappings"`
}

// service returns the baseline Service.
func (m *Managed) service() types.NamespacedName {
	return types.NamespacedName{Namespace: m.Namespace, Name: m.TargetService}
}

// forks returns the Services that replace the baseline's, each once, sorted.
func (m *Managed) forks() []string {
	var out []string
	for _, mapping := range m.Mappings {
		out = append(out, mapping.ToService)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Routes is the HTTPRoutes and GRPCRoutes of a cluster, or some of them, with the BackendTLSPolicies
// of their backends.
type Routes struct {
	HTTP []*gatewayv1.HTTPRoute
	GRPC []*gatewayv1.GRPCRoute
	TLS  []*gatewayv1.BackendTLSPolicy
}

// Input is what there is.
type Input struct {
	// Managed are all GatewayAPIRoutes. Those of one routing key are looked at together, since one
	// route may refer to several of their Services.
	Managed []Managed
	// Routes are all routes, the derived ones that are there among them.
	Routes Routes
	// Grants are all ReferenceGrants.
	Grants []*gatewayv1.ReferenceGrant
	// Services are all Services. Without any, none is missed.
	Services []*corev1.Service
	// VirtualServices names the VirtualService that governs a Service, for each that has one. Its
	// routing is then no business of HTTPRoutes.
	VirtualServices map[types.NamespacedName]string
	// Policies are those of the cluster. RefusePolicies: nothing is derived from a route to which one
	// applies that would not apply to the derived route. Otherwise one is derived, with backends
	// of the sandbox alone.
	Policies       []policies.Policy
	RefusePolicies bool
	// Plugins are the values of policies.PluginsAnnotation of Services that have it.
	Plugins map[types.NamespacedName]string
	// Releases are the selectors of Argo Rollouts for the routes in which they set weights.
	Releases []releases.Selector
	// Taken are names of derived routes that another routing key has, and which that is.
	Taken map[Object]string
	// CustomHeaders are the configured headers that carry a key.
	CustomHeaders []string
	// PreservedLabels and PreservedAnnotations are globs of what a derived route has of its
	// original's metadata.
	PreservedLabels, PreservedAnnotations []string
	// Order is that of the implementation.
	Order precedence.Order
}

// Result is what there is to be.
type Result struct {
	// Routes are all derived routes.
	Routes Routes
	// Refused are those of Input.Taken that there would be.
	Refused []Object
	// Findings are what people should know, by Managed, in the order of those, and for each the
	// routes in theirs.
	Findings []Finding
	// Matched is what the status of each GatewayAPIRoute says, by its name.
	Matched map[string][]MatchedObject
}

// Object identifies a route.
type Object = crdv1.RouteObject

// Finding is something that people should know about what was derived, or was not.
type Finding struct {
	// Managed is the name of the GatewayAPIRoute.
	Managed string
	// Baseline is the route that it is about, without a name when it is about none.
	Baseline Object
	// Reason is one CamelCase word for programs.
	Reason string
	// Problem reports whether requests with the key may go elsewhere than they should. What is
	// no problem is worth knowing.
	Problem bool
	// Message says what is wrong, with which object, and what to do.
	Message string
}

// Reasons of findings.
const (
	// ReasonNoRoute: no route refers to the Service.
	ReasonNoRoute = "NoRoute"
	// ReasonRoutedElsewhere: a route with the Service as a parent routes to other Services.
	ReasonRoutedElsewhere = "HostRoutedElsewhere"
	// ReasonRoutedAsParent: a route with the Service as a parent routes to another Service of the sandbox.
	ReasonRoutedAsParent = "RoutedAsParent"
	// ReasonKeyNotMatched: no match can say that a request carries this key.
	ReasonKeyNotMatched = "KeyNotMatched"
	// ReasonIgnored: the owner asks us to leave the route alone.
	ReasonIgnored = "Ignored"
	// ReasonVirtualService: a VirtualService governs the Service.
	ReasonVirtualService = "GovernedByVirtualService"
	// ReasonPortNotMapped: the route refers to a port for which no Service stands.
	ReasonPortNotMapped = "PortNotMapped"
	// ReasonBackendNotFound: the route refers to a Service, or a port of it, that is not there.
	ReasonBackendNotFound = "BackendNotFound"
	// ReasonNotPermitted: no ReferenceGrant lets the derived route refer to the Service.
	ReasonNotPermitted = "RefNotPermitted"
	// ReasonHeaderTaken: a match of the owner is about a header that carries keys.
	ReasonHeaderTaken = "HeaderTaken"
	// ReasonTooManyHeaders: a match has as many headers as it may have.
	ReasonTooManyHeaders = "TooManyHeaders"
	// ReasonBadExpression: a route has a regular expression that proxies refuse.
	ReasonBadExpression = "BadExpression"
	// ReasonNameTaken: another object has the name of a derived route.
	ReasonNameTaken = "NameTaken"
	// ReasonPolicyNotApplied: a policy applies to the route and not to a derived one.
	ReasonPolicyNotApplied = "PolicyNotApplied"
	// ReasonReleaseSelectsRoutes: a Rollout would set weights in a derived route, and fail.
	ReasonReleaseSelectsRoutes = "ReleaseSelectsRoutes"
	// ReasonRequestsLost: requests that the route answers go elsewhere with the key.
	ReasonRequestsLost = "RequestsLost"
	// ReasonRequestsTaken: requests that another route answers go to the fork with the key.
	ReasonRequestsTaken = "RequestsTaken"
	// ReasonPartOfRequests: the rule sends a part of its requests to another Service.
	ReasonPartOfRequests = "PartOfRequests"
	// ReasonMoreSpecificRoute: some requests go to another route, with and without the key.
	ReasonMoreSpecificRoute = "MoreSpecificRoute"
)

// StatusDerived is the status of a route beside which stands a derived one as it should.
const StatusDerived = "Derived"

// MatchedObject is a route that refers to the Service, in the status of a GatewayAPIRoute. Its
// status is StatusDerived, or the reason of the first problem.
type MatchedObject = crdv1.MatchedObject

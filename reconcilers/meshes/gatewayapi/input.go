package gatewayapi

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/meshes/precedence"
	"switchyard.dev/reconcilers/meshes/releases"
	"switchyard.dev/reconcilers/policies"
)

// Managed is the content of a GatewayAPIRoute: requests with a routing key for a baseline Service are
// routed to a member of a sandbox.
type Managed struct {
	// Name and UID are those of the GatewayAPIRoute, which owns the objects derived for it. Without
	// a UID they have no owner.
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
	// RoutingKey is the routing key.
	RoutingKey string `json:"routingKey"`
	// Sandbox is metadata.name of the SignadotSandbox.
	Sandbox string `json:"sandbox"`
	// Namespace and TargetService name the baseline Service. The Services that replace it are in
	// the same namespace and listen on the same ports.
	Namespace     string `json:"namespace"`
	TargetService string `json:"targetService"`
	// Mappings map ports of the baseline Service to the Services that replace it.
	Mappings []crdv1.IstioPortMapping `json:"mappings"`
}

// service returns the baseline Service.
func (m *Managed) service() types.NamespacedName {
	return types.NamespacedName{Namespace: m.Namespace, Name: m.TargetService}
}

// forks returns the Services that replace the baseline Service, sorted and without duplicates.
func (m *Managed) forks() []string {
	out := lists.Map(m.Mappings, func(mapping crdv1.IstioPortMapping) string { return mapping.ToService })
	return lists.Unique(out)
}

// Routes is the HTTPRoutes and GRPCRoutes of a cluster, or some of them, with the BackendTLSPolicies
// of their backends.
type Routes struct {
	HTTP []*gatewayv1.HTTPRoute
	GRPC []*gatewayv1.GRPCRoute
	TLS  []*gatewayv1.BackendTLSPolicy
}

// Input is the current state of the cluster and the settings.
type Input struct {
	// Managed are all GatewayAPIRoutes. Those with the same routing key are processed together, since
	// one route can refer to several of their Services.
	Managed []Managed
	// Routes are all routes, including derived ones.
	Routes Routes
	// Grants are all ReferenceGrants.
	Grants []*gatewayv1.ReferenceGrant
	// Services are all Services. If empty, no Service is reported as missing.
	Services []*corev1.Service
	// VirtualServices names the VirtualService that governs a Service, for each Service that has one.
	// Nothing is derived for these Services.
	VirtualServices map[types.NamespacedName]string
	// Policies are the policies of the cluster. If a policy applies to a route but would not apply to
	// a derived one, RefusePolicies means that nothing is derived from the route. Otherwise the derived
	// route only has backends of the sandbox.
	Policies       []policies.Policy
	RefusePolicies bool
	// Plugins are the values of policies.PluginsAnnotation of Services that have it.
	Plugins map[types.NamespacedName]string
	// Releases are the selectors of Argo Rollouts for the routes in which they set weights.
	Releases []releases.Selector
	// Taken maps names of derived routes that are in use by another routing key to that key.
	Taken map[Object]string
	// CustomHeaders are the configured headers that carry a key.
	CustomHeaders []string
	// PreservedLabels and PreservedAnnotations are globs of the keys that are copied from the
	// original's metadata.
	PreservedLabels, PreservedAnnotations []string
	// Order is the precedence of the implementation.
	Order precedence.Order
}

// Result is the desired state, with findings and statuses.
type Result struct {
	// Routes are all derived routes.
	Routes Routes
	// Refused are the objects of Input.Taken that this key would have created.
	Refused []Object
	// Findings are sorted by the order of Input.Managed, then of the routes.
	Findings []Finding
	// Matched are the rows for the status of each GatewayAPIRoute, by its name.
	Matched map[string][]MatchedObject
}

// Object identifies a route.
type Object = crdv1.RouteObject

// Finding is a fact about a derived route, or the lack of one, that users should know.
type Finding struct {
	// Managed is the name of the GatewayAPIRoute.
	Managed string
	// Baseline is the route that it is about; its name is empty if it is about none.
	Baseline Object
	// Reason is a CamelCase word for programs.
	Reason string
	// Problem is true if requests with the key can be routed to a wrong destination. Other findings
	// are for information.
	Problem bool
	// Message states the problem, the object and the remedy.
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
	// ReasonKeyNotMatched: no header match can express this key.
	ReasonKeyNotMatched = "KeyNotMatched"
	// ReasonIgnored: the route has the annotation crdv1.AnnotationIgnore.
	ReasonIgnored = "Ignored"
	// ReasonVirtualService: a VirtualService governs the Service.
	ReasonVirtualService = "GovernedByVirtualService"
	// ReasonPortNotMapped: the route refers to a port for which the sandbox has no Service.
	ReasonPortNotMapped = "PortNotMapped"
	// ReasonBackendNotFound: the route refers to a Service or port that does not exist.
	ReasonBackendNotFound = "BackendNotFound"
	// ReasonNotPermitted: no ReferenceGrant lets the derived route refer to the Service.
	ReasonNotPermitted = "RefNotPermitted"
	// ReasonHeaderTaken: a match of the original is on a header that carries keys.
	ReasonHeaderTaken = "HeaderTaken"
	// ReasonTooManyHeaders: a match already has the maximum number of headers.
	ReasonTooManyHeaders = "TooManyHeaders"
	// ReasonBadExpression: a route has a regular expression that proxies reject.
	ReasonBadExpression = "BadExpression"
	// ReasonNameTaken: another object has the name of a derived route.
	ReasonNameTaken = "NameTaken"
	// ReasonPolicyNotApplied: a policy applies to the route but not to a derived one.
	ReasonPolicyNotApplied = "PolicyNotApplied"
	// ReasonReleaseSelectsRoutes: a Rollout would set weights in a derived route, and fail.
	ReasonReleaseSelectsRoutes = "ReleaseSelectsRoutes"
	// ReasonRequestsLost: requests that the route handles are routed elsewhere with the key.
	ReasonRequestsLost = "RequestsLost"
	// ReasonRequestsTaken: requests that another route handles are routed to the fork with the key.
	ReasonRequestsTaken = "RequestsTaken"
	// ReasonPartOfRequests: the rule sends a share of its requests to another Service.
	ReasonPartOfRequests = "PartOfRequests"
	// ReasonMoreSpecificRoute: another route handles some requests, with and without the key.
	ReasonMoreSpecificRoute = "MoreSpecificRoute"
)

// StatusDerived is the status of a route with a derived route and no problem.
const StatusDerived = "Derived"

// MatchedObject is a route that refers to the Service, in the status of a GatewayAPIRoute. Its
// status is StatusDerived, or the reason of the first problem.
type MatchedObject = crdv1.MatchedObject

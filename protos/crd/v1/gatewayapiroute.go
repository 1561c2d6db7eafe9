package v1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GatewayAPIRoute asks for routes of one routing key beside every HTTPRoute and
// GRPCRoute that refers to one baseline Service.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=gatewayapiroutes,singular=gatewayapiroute,shortName=sdgar,scope=Cluster,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.managed.targetService`,description="The baseline Service."
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.managed.namespace`,description="Its namespace."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="Time since Ready last changed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Routing-Key",type=string,JSONPath=`.spec.routingKey`,description="Requests that carry this key are routed."
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="To",type=string,JSONPath=`.spec.managed.mappings[0].toService`,description="Where requests with the key go, on the first port.",priority=1
// +kubebuilder:printcolumn:name="Route",type=string,JSONPath=`.status.matchedObjects[0].baseline.name`,description="The first route that refers to the Service.",priority=1
type GatewayAPIRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state, in the form of an IstioRoute.
	// +optional
	Spec IstioRouteSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status GatewayAPIRouteStatus `json:"status,omitzero"`
}

// GatewayAPIRouteList is a list of GatewayAPIRoute objects.
//
// +kubebuilder:object:root=true
type GatewayAPIRouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []GatewayAPIRoute `json:"items"`
}

// GatewayAPIRouteStatus is the observed state.
type GatewayAPIRouteStatus struct {
	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// The routes that refer to the Service, and the route that was derived from each.
	// +optional
	MatchedObjects []MatchedObject `json:"matchedObjects,omitempty"`

	// The generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// MatchedObject is a route that refers to the Service.
type MatchedObject struct {
	// The route.
	Baseline RouteObject `json:"baseline"`

	// The route that was derived from it; absent when there is none.
	// +optional
	Derived *RouteObject `json:"derived,omitempty"`

	// The kinds of the parents of the derived route, such as Gateway, or Service for requests
	// within a mesh.
	// +optional
	ParentKinds []string `json:"parentKinds,omitempty"`

	// Derived, or the reason of the first problem.
	Status string `json:"status"`

	// Details, for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// WithinMesh reports whether the derived route applies to requests from within a mesh.
func (m MatchedObject) WithinMesh() bool {
	return m.Derived != nil && slices.Contains(m.ParentKinds, "Service")
}

// RouteObject identifies a route of the Gateway API.
type RouteObject struct {
	// HTTPRoute or GRPCRoute.
	Kind string `json:"kind"`

	// Its namespace.
	Namespace string `json:"namespace"`

	// Its name.
	Name string `json:"name"`
}

// String returns the route as people write it.
func (o RouteObject) String() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

// ConditionRoutesMatched is a condition of a GatewayAPIRoute, beside Ready, Accepted and
// RoutesApplied: an HTTPRoute or a GRPCRoute refers to the Service.
const ConditionRoutesMatched = "RoutesMatched"

// StatusConditions returns the place of the object's conditions, never nil.
func (r *GatewayAPIRoute) StatusConditions() *[]StatusCondition { return &r.Status.Conditions }

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*GatewayAPIRoute) ConditionTypes() []string {
	return []string{ConditionReady, ConditionAccepted, ConditionRoutesMatched, ConditionRoutesApplied}
}

// Asked returns the spec.
func (r *GatewayAPIRoute) Asked() *IstioRouteSpec { return &r.Spec }

// Observed returns the generation that the status describes.
func (r *GatewayAPIRoute) Observed() int64 { return r.Status.ObservedGeneration }

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RoutingConfig lists the members that are reachable under one routing key. The key is in the
// annotation signadot.com/routing-key; without it, it is the name of the object.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=routingconfigs,singular=routingconfig,shortName=sdrc,scope=Cluster,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="Workload",type=string,JSONPath=`.spec.sandboxedWorkloads[0].name`,description="The first member reachable under the key."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="Time since Ready last changed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Routing-Key",type=string,JSONPath=`.metadata.annotations.signadot\.com/routing-key`,description="Requests that carry this key reach it."
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.status.routeServer.routes[0].from.host`,description="The first baseline host that is routed.",priority=1
// +kubebuilder:printcolumn:name="To",type=string,JSONPath=`.status.routeServer.routes[0].to.host`,description="Where requests with the key go instead.",priority=1
type RoutingConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +optional
	Spec RoutingConfigSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status RoutingConfigStatus `json:"status,omitzero"`
}

// RoutingConfigList is a list of RoutingConfig objects.
//
// +kubebuilder:object:root=true
type RoutingConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []RoutingConfig `json:"items"`
}

// RoutingConfigSpec is the desired state.
type RoutingConfigSpec struct {
	// The members reachable under the key: forks, external and virtual
	// workloads, never baselines.
	SandboxedWorkloads []SandboxedWorkload `json:"sandboxedWorkloads"`
}

// SandboxedWorkload is a member and the middlewares before it.
type SandboxedWorkload struct {
	SandboxedWorkloadRef `json:",inline"`

	// Middlewares that requests to it pass, in order.
	// +optional
	Middlewares []MiddlewareInstance `json:"middlewares,omitempty"`
}

// RoutingConfigStatus is the observed state.
type RoutingConfigStatus struct {
	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// The generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The members as they were resolved.
	// +optional
	ProcessedWorkloads []ProcessedWorkload `json:"processedWorkloads,omitempty"`

	// The reports of route servers.
	// +optional
	RouteServer *RouteServerStatus `json:"routeServer,omitempty"`
}

// ProcessedWorkload is a member as it was resolved.
type ProcessedWorkload struct {
	// The baseline that it replaces.
	Baseline ProcessedBaseline `json:"baseline"`

	// Middlewares that requests to it pass, in order.
	// +optional
	Middlewares []MiddlewareInstance `json:"middlewares,omitempty"`

	// How its traffic is routed.
	// +optional
	Routes *ProcessedRoutes `json:"routes,omitempty"`

	// The member.
	Workload SandboxedWorkloadRef `json:"workload"`
}

// ProcessedBaseline identifies a baseline that exists.
type ProcessedBaseline struct {
	WorkloadRef `json:",inline"`

	// UID of the baseline.
	UID string `json:"uid"`
}

// ProcessedRoutes describes how the traffic of a member is routed.
type ProcessedRoutes struct {
	// Routing by DevMesh sidecars.
	// +optional
	DevMesh *DevMeshRouting `json:"devMesh,omitempty"`

	// The IstioRoute objects that were made.
	// +optional
	Istio []ProcessedIstioRoute `json:"istio,omitempty"`

	// The GatewayAPIRoute objects that were made.
	// +optional
	GatewayAPI []ProcessedGatewayAPIRoute `json:"gatewayAPI,omitempty"`
}

// ProcessedGatewayAPIRoute is a GatewayAPIRoute that was made, with a copy of its status.
type ProcessedGatewayAPIRoute struct {
	// Name of the GatewayAPIRoute.
	Name string `json:"name"`

	// Its status.
	// +optional
	Status *GatewayAPIRouteStatus `json:"status,omitempty"`
}

// ProcessedIstioRoute is an IstioRoute that was made, with a copy of its status.
type ProcessedIstioRoute struct {
	// Name of the IstioRoute.
	Name string `json:"name"`

	// Its status.
	// +optional
	Status *IstioRouteStatus `json:"status,omitempty"`
}

// RouteServerStatus is what route servers report about this key.
type RouteServerStatus struct {
	// The routes.
	// +optional
	Routes []RouteServerRoute `json:"routes,omitempty"`
}

// RouteServerRoute routes one port of a baseline to a member.
type RouteServerRoute struct {
	// The baseline.
	// +optional
	Baseline *WorkloadBaseline `json:"baseline,omitempty"`

	// Where the baseline is reached.
	From RouteLocation `json:"from"`

	// The sandbox of the member, as its users know it.
	// +optional
	SandboxName string `json:"sandboxName,omitempty"`

	// Where the member is reached.
	To RouteLocation `json:"to"`
}

// Condition types of a RoutingConfig, beside Ready and Accepted.
const (
	// ConditionWorkloadsFound: every member exists and reports how it is reached.
	ConditionWorkloadsFound = "WorkloadsFound"
	// ConditionPublished: the routing of this generation is on the log, from
	// which the data plane has it.
	ConditionPublished = "Published"
)

// RoutingKey is the key that the object is about: the annotation
// signadot.com/routing-key, else metadata.name.
func (r *RoutingConfig) RoutingKey() string {
	if key := r.Annotations[AnnotationRoutingKey]; key != "" {
		return key
	}
	return r.Name
}

// StatusConditions returns the place of the object's conditions, never nil.
func (r *RoutingConfig) StatusConditions() *[]StatusCondition { return &r.Status.Conditions }

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*RoutingConfig) ConditionTypes() []string {
	return []string{ConditionReady, ConditionAccepted, ConditionWorkloadsFound, ConditionPublished}
}

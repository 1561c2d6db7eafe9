package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IstioRoute asks for routes of one routing key in every VirtualService that
// routes to one baseline Service.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=istioroutes,singular=istioroute,shortName=sdir,scope=Cluster,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.managed.targetService`,description="The baseline Service."
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.managed.namespace`,description="Its namespace."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="Time since Ready last changed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Routing-Key",type=string,JSONPath=`.spec.routingKey`,description="Requests that carry this key are routed."
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="To",type=string,JSONPath=`.spec.managed.mappings[0].toService`,description="Where requests with the key go, on the first port.",priority=1
// +kubebuilder:printcolumn:name="Virtual-Service",type=string,JSONPath=`.status.matchedVirtualServices[0].name`,description="The first VirtualService that carries the routes.",priority=1
type IstioRoute struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +optional
	Spec IstioRouteSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status IstioRouteStatus `json:"status,omitzero"`
}

// IstioRouteList is a list of IstioRoute objects.
//
// +kubebuilder:object:root=true
type IstioRouteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []IstioRoute `json:"items"`
}

// IstioRouteSpec is the desired state.
type IstioRouteSpec struct {
	// Routes from a baseline Service to a member. It is the only type of route.
	Managed ManagedIstioRoute `json:"managed"`

	// The routing key.
	RoutingKey string `json:"routingKey"`
}

// ManagedIstioRoute routes a baseline Service to a member.
type ManagedIstioRoute struct {
	// The baseline behind the Service.
	Baseline IstioRouteBaseline `json:"baseline"`

	// The Service that replaces each port.
	Mappings []IstioPortMapping `json:"mappings"`

	// Middlewares that requests pass, in order.
	// +optional
	Middlewares []MiddlewareInstance `json:"middlewares,omitempty"`

	// Namespace of the baseline Service.
	Namespace string `json:"namespace"`

	// The member that requests with the key reach.
	SandboxedWorkload SandboxedWorkloadRef `json:"sandboxedWorkload"`

	// Name of the baseline Service.
	TargetService string `json:"targetService"`
}

// IstioRouteBaseline identifies a baseline, with its last observed state.
type IstioRouteBaseline struct {
	WorkloadBaseline `json:",inline"`
	WorkloadRef      `json:",inline"`
}

// IstioPortMapping routes one port of the baseline Service to another Service.
type IstioPortMapping struct {
	// Port of the baseline Service.
	FromPort int32 `json:"fromPort"`

	// Name of the Service that replaces it.
	ToService string `json:"toService"`

	// The port that the workload itself listens on.
	// +optional
	WorkloadPort int32 `json:"workloadPort,omitempty"`
}

// IstioRouteStatus is the observed state.
type IstioRouteStatus struct {
	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// The VirtualServices that route to the Service.
	// +optional
	MatchedVirtualServices []VirtualServiceMatch `json:"matchedVirtualServices,omitempty"`

	// The generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Condition types of an IstioRoute, beside Ready and Accepted.
const (
	// ConditionVirtualServicesMatched: a VirtualService routes to the Service.
	ConditionVirtualServicesMatched = "VirtualServicesMatched"
	// ConditionRoutesApplied: every one of them carries the routes.
	ConditionRoutesApplied = "RoutesApplied"
)

// StatusConditions returns the place of the object's conditions, never nil.
func (r *IstioRoute) StatusConditions() *[]StatusCondition { return &r.Status.Conditions }

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*IstioRoute) ConditionTypes() []string {
	return []string{ConditionReady, ConditionAccepted, ConditionVirtualServicesMatched, ConditionRoutesApplied}
}

// Asked returns the spec.
func (r *IstioRoute) Asked() *IstioRouteSpec { return &r.Spec }

// Observed returns the generation that the status describes.
func (r *IstioRoute) Observed() int64 { return r.Status.ObservedGeneration }

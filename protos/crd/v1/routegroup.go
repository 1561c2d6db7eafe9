package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SignadotRouteGroup unites sandboxes under a routing key of its own.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=signadotroutegroups,singular=signadotroutegroup,shortName=sdrg,scope=Cluster,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="Sandboxes",type=integer,JSONPath=`.status.totalSandboxes`,description="Sandboxes in the group."
// +kubebuilder:printcolumn:name="Sandboxes-Ready",type=integer,JSONPath=`.status.readySandboxes`,description="Those of them that are ready."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="Time since Ready last changed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Routing-Key",type=string,JSONPath=`.spec.routingKey`,description="Requests that carry this key reach every sandbox of the group."
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type SignadotRouteGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +optional
	Spec SignadotRouteGroupSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status SignadotRouteGroupStatus `json:"status,omitzero"`
}

// SignadotRouteGroupList is a list of SignadotRouteGroup objects.
//
// +kubebuilder:object:root=true
type SignadotRouteGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []SignadotRouteGroup `json:"items"`
}

// SignadotRouteGroupSpec is the desired state.
type SignadotRouteGroupSpec struct {
	// The routing key of the group.
	RoutingKey string `json:"routingKey"`

	// Names of the SignadotSandbox objects in the group.
	// +optional
	SandboxNames []string `json:"sandboxNames,omitempty"`

	// The control plane's count of changes to the group.
	// +optional
	SDRevision int64 `json:"sdRevision,omitempty"`

	// Middlewares under this key, instead of those that the sandboxes ask for.
	// +optional
	TrafficManagerMatches []MiddlewareMatch `json:"trafficManagerMatches,omitempty"`
}

// SignadotRouteGroupStatus is how far a route group is.
type SignadotRouteGroupStatus struct {
	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// The generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// How many of its sandboxes are ready.
	// +optional
	ReadySandboxes int32 `json:"readySandboxes"`

	// How many sandboxes it has.
	// +optional
	TotalSandboxes int32 `json:"totalSandboxes"`
}

// Condition types of a SignadotRouteGroup, beside Ready, Accepted and
// RoutingReady.
// ConditionSandboxesReady: every sandbox of the group exists and is ready.
const ConditionSandboxesReady = "SandboxesReady"

// StatusConditions returns the place of the object's conditions, never nil.
func (g *SignadotRouteGroup) StatusConditions() *[]StatusCondition { return &g.Status.Conditions }

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*SignadotRouteGroup) ConditionTypes() []string {
	return []string{ConditionReady, ConditionAccepted, ConditionSandboxesReady, ConditionRoutingReady}
}

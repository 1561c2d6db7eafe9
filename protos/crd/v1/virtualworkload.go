package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// VirtualWorkload is a member of a sandbox without pods of its own: middlewares handle requests
// to a baseline, and requests that they do not answer reach the baseline.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=virtualworkloads,singular=virtualworkload,shortName=sdvw,scope=Namespaced,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="Member",type=string,JSONPath=`.spec.name`,description="Name of the member."
// +kubebuilder:printcolumn:name="Baseline",type=string,JSONPath=`.spec.baseline.name`,description="The baseline workload."
// +kubebuilder:printcolumn:name="Sandbox",type=string,JSONPath=`.metadata.annotations.signadot\.com/sandbox-name`,description="Name of the sandbox."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="Time since Ready last changed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type VirtualWorkload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +optional
	Spec VirtualWorkloadSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status VirtualWorkloadStatus `json:"status,omitzero"`
}

// VirtualWorkloadList is a list of VirtualWorkload objects.
//
// +kubebuilder:object:root=true
type VirtualWorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []VirtualWorkload `json:"items"`
}

// VirtualWorkloadSpec is the desired state.
type VirtualWorkloadSpec struct {
	// The workload that it receives the requests of.
	Baseline ObjectRef `json:"baseline"`

	// Name of the member, as its users know it.
	// +kubebuilder:validation:Pattern=`^$|^[a-z]([a-z0-9-]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:MaxLength=30
	Name string `json:"name"`
}

// VirtualWorkloadStatus is the observed state.
type VirtualWorkloadStatus struct {
	// The last observed state of the baseline.
	// +optional
	Baseline *WorkloadBaseline `json:"baseline,omitempty"`

	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// The generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// How traffic can reach it.
	// +optional
	RoutingConfig *WorkloadRoutingInfo `json:"routingConfig,omitempty"`
}

// StatusConditions returns the place of the object's conditions, never nil.
func (w *VirtualWorkload) StatusConditions() *[]StatusCondition { return &w.Status.Conditions }

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*VirtualWorkload) ConditionTypes() []string {
	return []string{ConditionReady, ConditionAccepted, ConditionBaselineFound}
}

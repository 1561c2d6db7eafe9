package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SignadotExternalWorkload is a member of a sandbox that runs outside the
// cluster, usually on a developer's machine, behind a reverse tunnel.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=signadotexternalworkloads,singular=signadotexternalworkload,shortName=sdxw,scope=Namespaced,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="Member",type=string,JSONPath=`.spec.name`,description="Name of the member."
// +kubebuilder:printcolumn:name="Baseline",type=string,JSONPath=`.spec.baseline.name`,description="The baseline workload."
// +kubebuilder:printcolumn:name="Sandbox",type=string,JSONPath=`.metadata.annotations.signadot\.com/sandbox-name`,description="Name of the sandbox."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="Time since Ready last changed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Connected",type=boolean,JSONPath=`.status.tunnel.health.connected`,description="Whether the workstation is connected.",priority=1
// +kubebuilder:printcolumn:name="Proxy",type=string,JSONPath=`.status.tunnel.info.tunnelProxyPodName`,description="The pod that owns the tunnel.",priority=1
type SignadotExternalWorkload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +optional
	Spec SignadotExternalWorkloadSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status SignadotExternalWorkloadStatus `json:"status,omitzero"`
}

// SignadotExternalWorkloadList is a list of SignadotExternalWorkload objects.
//
// +kubebuilder:object:root=true
type SignadotExternalWorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []SignadotExternalWorkload `json:"items"`
}

// SignadotExternalWorkloadSpec is the desired state.
type SignadotExternalWorkloadSpec struct {
	// The workload that it receives the traffic of; absent means a reverse tunnel of its own.
	// +optional
	Baseline *ExternalBaseline `json:"baseline,omitempty"`

	// Name of the member, as its users know it.
	// +kubebuilder:validation:Pattern=`^$|^[a-z]([a-z0-9-]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:MaxLength=30
	Name string `json:"name"`

	// Deprecated: has to be written, is not read.
	RoutingKey string `json:"routingKey"`

	// The ports that are forwarded to the workstation.
	// +optional
	Tunnel *TunnelSpec `json:"tunnel,omitempty"`

	// Deprecated: has to be written, is not read.
	WorkloadID string `json:"workloadID"`
}

// SignadotExternalWorkloadStatus is the observed state.
type SignadotExternalWorkloadStatus struct {
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

	// The tunnel.
	// +optional
	Tunnel *TunnelStatus `json:"tunnel,omitempty"`
}

// Condition types of a SignadotExternalWorkload, beside Ready, Accepted,
// BaselineFound and ServicesReady.
// ConditionTunnelConnected: the workstation holds the tunnel.
const ConditionTunnelConnected = "TunnelConnected"

// StatusConditions returns the place of the object's conditions, never nil.
func (w *SignadotExternalWorkload) StatusConditions() *[]StatusCondition { return &w.Status.Conditions }

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*SignadotExternalWorkload) ConditionTypes() []string {
	return []string{ConditionReady, ConditionAccepted, ConditionBaselineFound, ConditionTunnelConnected, ConditionServicesReady}
}

// NoWorkstation begins the message of an external workload without a workstation, which a workstation
// that has just connected does not repeat.
const NoWorkstation = "No workstation is connected"

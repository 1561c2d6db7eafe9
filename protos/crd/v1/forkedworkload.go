package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ForkedWorkload is a workload cloned for one sandbox: a baseline and the
// patches that make the fork of it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=forkedworkloads,singular=forkedworkload,shortName=sdfw,scope=Namespaced,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="Baseline",type=string,JSONPath=`.spec.baseline.name`,description="The baseline workload."
// +kubebuilder:printcolumn:name="Sandbox",type=string,JSONPath=`.metadata.annotations.signadot\.com/sandbox-name`,description="Name of the sandbox."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="Time since Ready last changed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Routing-Key",type=string,JSONPath=`.metadata.annotations.signadot\.com/routing-key`,description="Requests that carry this key reach it."
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.baseline.kind`,description="Kind of the baseline.",priority=1
// +kubebuilder:printcolumn:name="Fork",type=string,JSONPath=`.status.fork.objectRef.name`,description="The clone.",priority=1
type ForkedWorkload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +optional
	Spec ForkedWorkloadSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status ForkedWorkloadStatus `json:"status,omitzero"`
}

// ForkedWorkloadList is a list of ForkedWorkload objects.
//
// +kubebuilder:object:root=true
type ForkedWorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []ForkedWorkload `json:"items"`
}

// ForkedWorkloadSpec is the desired state.
type ForkedWorkloadSpec struct {
	// The workload that is cloned. It is never changed.
	Baseline ObjectRef `json:"baseline"`

	// Deprecated: not needed any more, accepted and ignored.
	// +optional
	DisableSandboxTrafficManager bool `json:"disableSandboxTrafficManager,omitempty"`

	// Patches that are applied to the clone, in order.
	// +optional
	Patches []Patch `json:"patches,omitempty"`

	// RE2 expressions, not anchored, for the keys of those labels of the
	// baseline's pods that the clone keeps, and of its Services that their clones
	// keep.
	// +optional
	PreservedLabels []string `json:"preservedLabels,omitempty"`

	// What templates in patches know about the sandbox's resources, by the
	// name of the resource.
	// +optional
	ResourceTemplateData map[string]ResourceTemplateData `json:"resourceTemplateData,omitempty"`
}

// ResourceTemplateData is what a patch template knows about one resource.
type ResourceTemplateData struct {
	// Name of the resource.
	Name string `json:"name"`

	// Name of the Resource object, and so of the object with its outputs.
	ObjectName string `json:"objectName"`

	// Kind of the object that holds the outputs.
	// +optional
	// +kubebuilder:validation:Enum=Secret;ConfigMap
	// +kubebuilder:default=Secret
	OutputKind string `json:"outputKind,omitempty"`

	// Outputs that cannot be environment variables, by their key, and why.
	// +optional
	NotVariables map[string]string `json:"notVariables,omitempty"`
}

// ForkedWorkloadStatus is how far a fork is.
type ForkedWorkloadStatus struct {
	// The last observed state of the baseline.
	// +optional
	Baseline *WorkloadBaseline `json:"baseline,omitempty"`

	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// The clone.
	// +optional
	Fork *ForkStatus `json:"fork,omitempty"`

	// The generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// How traffic can reach it.
	// +optional
	RoutingConfig *WorkloadRoutingInfo `json:"routingConfig,omitempty"`
}

// ForkStatus identifies the clone.
type ForkStatus struct {
	// The clone that was made.
	// +optional
	ObjectRef *ObjectRef `json:"objectRef,omitempty"`
}

// Condition types of a ForkedWorkload, beside Ready and Accepted.
const (
	// ConditionBaselineFound: the baseline exists and is of a kind that can
	// stand behind a sandbox. External and virtual workloads have it too.
	ConditionBaselineFound = "BaselineFound"
	// ConditionForkAvailable: the clone has pods that are ready.
	ConditionForkAvailable = "ForkAvailable"
	// ConditionServicesReady: there is a Service for every Service of the
	// baseline that can be mapped. External workloads have it too.
	ConditionServicesReady = "ServicesReady"
	// ConditionPoliciesApply is False while a policy applies to the baseline and not to the fork,
	// and absent while all known ones apply to both. It does not count for Ready. Sandboxes have
	// it too.
	ConditionPoliciesApply = "PoliciesApply"
	// ConditionInMesh is False while a mesh routes requests and a running pod of the fork has no proxy
	// of a mesh, and absent otherwise. It does not count for Ready.
	ConditionInMesh = "InMesh"
)

// StatusConditions returns the place of the object's conditions, never nil.
func (w *ForkedWorkload) StatusConditions() *[]StatusCondition { return &w.Status.Conditions }

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*ForkedWorkload) ConditionTypes() []string {
	return []string{ConditionReady, ConditionAccepted, ConditionBaselineFound, ConditionForkAvailable, ConditionServicesReady}
}

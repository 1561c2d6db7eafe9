package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SignadotObjectLifecycleMethods runs units before an object starts and after
// it stops.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=signadotobjectlifecyclemethods,singular=signadotobjectlifecyclemethods,shortName=solm,scope=Cluster,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="IO-Context",type=string,JSONPath=`.spec.ioContextName`,description="Where its units exchange values."
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Its phase."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="Time since Ready last changed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Failed-Phase",type=string,JSONPath=`.status.failedPhase`,description="Where it failed.",priority=1
type SignadotObjectLifecycleMethods struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +optional
	Spec SignadotObjectLifecycleMethodsSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status SignadotObjectLifecycleMethodsStatus `json:"status,omitzero"`
}

// SignadotObjectLifecycleMethodsList is a list of SignadotObjectLifecycleMethods objects.
//
// +kubebuilder:object:root=true
type SignadotObjectLifecycleMethodsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []SignadotObjectLifecycleMethods `json:"items"`
}

// SignadotObjectLifecycleMethodsSpec is the desired state.
type SignadotObjectLifecycleMethodsSpec struct {
	OLM `json:",inline"`

	// Name of the IO context in which its units exchange values.
	// +kubebuilder:validation:Pattern=`^$|^[a-zA-Z]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`
	// +kubebuilder:validation:MaxLength=60
	IOContextName string `json:"ioContextName"`
}

// PhaseOLMFailed is the phase of a SignadotObjectLifecycleMethods that failed; failedPhase is
// then the phase in which it failed. It is the only published phase.
const PhaseOLMFailed = "OLMFailed"

// SignadotObjectLifecycleMethodsStatus is the observed state.
type SignadotObjectLifecycleMethodsStatus struct {
	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// The phase in which it failed.
	// +optional
	FailedPhase string `json:"failedPhase,omitempty"`

	// The generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// How far it is, in one word.
	// +optional
	Phase string `json:"phase,omitempty"`

	// The units of postStop.
	// +optional
	PostStop []WorkUnitStatus `json:"postStop,omitempty"`

	// The units of preStart. The published name is not that of the spec.
	// +optional
	PreCreate []WorkUnitStatus `json:"preCreate,omitempty"`
}

// Condition types of a SignadotObjectLifecycleMethods, beside Ready and
// Accepted.
const (
	// ConditionPreStartDone: every unit of preStart has succeeded.
	ConditionPreStartDone = "PreStartDone"
	// ConditionPostStopDone: every unit of postStop has succeeded.
	ConditionPostStopDone = "PostStopDone"
)

// StatusConditions returns the place of the object's conditions, never nil.
func (m *SignadotObjectLifecycleMethods) StatusConditions() *[]StatusCondition {
	return &m.Status.Conditions
}

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*SignadotObjectLifecycleMethods) ConditionTypes() []string {
	return []string{ConditionReady, ConditionAccepted, ConditionPreStartDone, ConditionPostStopDone}
}

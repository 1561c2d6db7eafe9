package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JobRunnerGroup is a pool of pods that run jobs.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=jobrunnergroups,singular=jobrunnergroup,shortName=sdjrg,scope=Namespaced,categories={signadot,switchyard}
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,description="Image of the runners."
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`,description="Runners."
// +kubebuilder:printcolumn:name="Runners-Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Runners that are ready."
// +kubebuilder:printcolumn:name="Idle",type=integer,JSONPath=`.status.readyIdleReplicas`,description="Ready runners without a job."
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="Time since Ready last changed."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
type JobRunnerGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The desired state.
	// +optional
	Spec JobRunnerGroupSpec `json:"spec,omitzero"`

	// The observed state.
	// +optional
	Status JobRunnerGroupStatus `json:"status,omitzero"`
}

// JobRunnerGroupList is a list of JobRunnerGroup objects.
//
// +kubebuilder:object:root=true
type JobRunnerGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// The objects.
	Items []JobRunnerGroup `json:"items"`
}

// JobRunnerGroupSpec is the desired state.
type JobRunnerGroupSpec struct {
	// Whether a job may ask for more time than jobExecutionTimeout.
	// +optional
	AllowIncreaseJobExecutionTimeout bool `json:"allowIncreaseJobExecutionTimeout,omitempty"`

	// Image of the main container.
	Image string `json:"image"`

	// How long a job may run, as a Go duration.
	// +optional
	JobExecutionTimeout string `json:"jobExecutionTimeout,omitempty"`

	// The pod that runners are made from.
	// +optional
	PodTemplate *corev1.PodTemplateSpec `json:"podTemplate,omitempty"`

	// How many runners there are; absent means 1.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Whether a runner takes another job after its first.
	// +optional
	ReusePods bool `json:"reusePods,omitempty"`
}

// JobRunnerGroupStatus is the observed state.
type JobRunnerGroupStatus struct {
	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// Runners in phase Failed, which need attention by a person.
	// +optional
	FailedPhaseReplicas int32 `json:"failedPhaseReplicas"`

	// The highest sequence number of a job that was given to a runner; -1
	// before the first. Leaving it out writes -1.
	// +required
	// +kubebuilder:default=-1
	MaxAssignedJobSequenceNum *int64 `json:"maxAssignedJobSequenceNum,omitempty"`

	// The generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Hash of the pod template of this generation.
	// +optional
	PodTemplateHash string `json:"podTemplateHash,omitempty"`

	// Ready runners without a job.
	// +optional
	ReadyIdleReplicas int32 `json:"readyIdleReplicas"`

	// Ready runners.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// Runners.
	// +optional
	Replicas int32 `json:"replicas"`

	// Label selector of the runners, as text.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Runners that are not ready.
	// +optional
	UnavailableReplicas int32 `json:"unavailableReplicas"`

	// Runners with the pod template of this generation.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
}

// Condition types of a JobRunnerGroup, beside Ready and Accepted.
// ConditionRunnersAvailable: as many runners as asked for are ready.
const ConditionRunnersAvailable = "RunnersAvailable"

// StatusConditions returns the place of the object's conditions, never nil.
func (g *JobRunnerGroup) StatusConditions() *[]StatusCondition { return &g.Status.Conditions }

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*JobRunnerGroup) ConditionTypes() []string {
	return []string{ConditionReady, ConditionAccepted, ConditionRunnersAvailable}
}

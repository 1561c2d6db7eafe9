package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

	// Whether connections of scripts are redirected to the proxy that adds the routing key (not a published field).
	// +optional
	Redirection *RunnerRedirection `json:"redirection,omitempty"`

	// Runners.
	// +optional
	Replicas int32 `json:"replicas"`

	// The pods that the operator created for this group and has not seen deleted (not a published
	// field). Only these are runners: labels and owners of a pod prove nothing.
	// +optional
	Runners []RunnerPod `json:"runners,omitempty"`

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

// RunnerPod is a pod that the operator created for a runner group.
type RunnerPod struct {
	// Name of the pod, in the group's namespace.
	Name string `json:"name"`

	// UID of the pod.
	UID types.UID `json:"uid"`

	// The podTemplateHash that it was created from.
	Version string `json:"version"`

	// The operator's signature for this pod of this group. Users who can write the status cannot
	// make one, and without one a pod gets no certificate.
	// +optional
	Proof []byte `json:"proof,omitempty"`
}

// Runner returns the pod of this UID that the operator created for the group; nil if there is none.
func (g *JobRunnerGroup) Runner(uid types.UID) *RunnerPod {
	for i := range g.Status.Runners {
		if g.Status.Runners[i].UID == uid {
			return &g.Status.Runners[i]
		}
	}
	return nil
}

// Labels of a runner pod. The Job controller reads and writes AssignedJobLabel by compare-and-swap on
// the pod's resource version.
const (
	// JobRunnerGroupLabel is the name of the group, made safe with LabelValue.
	JobRunnerGroupLabel = "signadot.com/jobrunnergroup"
	// JobRunnerGroupVersionLabel is the podTemplateHash that the pod was created from.
	JobRunnerGroupVersionLabel = "signadot.com/jobrunnergroup-version"
	// AssignedJobLabel is the UID of the Job that the pod runs; without it the pod has none. The Job
	// controller removes it when the job has ended.
	AssignedJobLabel = "signadot.com/assigned-job"
)

// Annotations of a runner pod, and their values.
const (
	// AnnotationDraining is set on a pod that gets no further job; its value is the reason, in one word.
	// Pods with it are not assignable. The group's controller sets it before it deletes a pod; the Job
	// controller in the write that removes AssignedJobLabel, if the pod is not reused or has to be
	// replaced. It is never removed. A draining pod without AssignedJobLabel is no replica: it is
	// replaced at once, and deleted when its results are not kept.
	AnnotationDraining = "signadot.com/draining"

	// AnnotationJobResults is JobResultsKept while the pod has output, results or artifacts that are to
	// be read and have not been, and JobResultsReleased or absent otherwise. The Job controller writes it.
	// The group's controller writes JobResultsDropped, with the reason in AnnotationJobResultsDropped,
	// before it deletes a pod with kept results.
	AnnotationJobResults = "signadot.com/job-results"

	// AnnotationJobResultsSince is the time from which results are kept, in RFC 3339. The Job controller
	// writes it with JobResultsKept; if it is absent, the group's controller adds it.
	AnnotationJobResultsSince = "signadot.com/job-results-since"

	// AnnotationJobResultsDropped is the reason for which results were dropped, as a sentence.
	AnnotationJobResultsDropped = "signadot.com/job-results-dropped"

	JobResultsKept     = "kept"
	JobResultsReleased = "released"
	JobResultsDropped  = "dropped"
)

// Values of AnnotationDraining.
const (
	// DrainingJobEnded: the pod has run its job, and the group does not reuse pods.
	DrainingJobEnded = "JobEnded"
	// DrainingLeftover: processes of a job could not be ended.
	DrainingLeftover = "Leftover"
	// DrainingScaledDown: the group has more pods than spec.replicas.
	DrainingScaledDown = "ScaledDown"
	// DrainingOutdated: the pod was created from an earlier template.
	DrainingOutdated = "Outdated"
	// DrainingFailed: the pod has failed.
	DrainingFailed = "Failed"
	// DrainingGroupEnds: the group is being deleted, or the operator uninstalled.
	DrainingGroupEnds = "GroupEnds"
)

// ReasonRunnerGroupDeleted is the reason of the conditions of a group that is being deleted, and the
// reason with which the Job controller ends its waiting jobs.
const ReasonRunnerGroupDeleted = "RunnerGroupDeleted"

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

// RunnerRedirection is whether pods redirect connections of scripts, as the first pod of a template has shown.
type RunnerRedirection struct {
	// Whether pods redirect connections. Otherwise only clients that obey http_proxy use the proxy.
	Enabled bool `json:"enabled"`

	// Why they do not.
	// +optional
	Message string `json:"message,omitempty"`

	// Hash of the pod template without redirection of which pods were created; empty: none yet.
	Version string `json:"version"`
}

package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// JobStatus is how far a job is.
type JobStatus struct {
	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// When the state was last observed.
	// +optional
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`

	// The generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Who runs it.
	// +optional
	Runner *JobRunner `json:"runner,omitempty"`

	// How far it is: one of waiting, running and terminated.
	// +optional
	State *JobState `json:"state,omitempty"`
}

// JobRunner is who runs a job.
type JobRunner struct {
	// Version of the runner group that the pod belongs to.
	// +optional
	RunnerGroupVersion string `json:"runnerGroupVersion,omitempty"`

	// The pod.
	RunnerPod NamespacedName `json:"runnerPod"`
}

// JobState is one of three.
type JobState struct {
	// It runs.
	// +optional
	Running *JobRunning `json:"running,omitempty"`

	// It has ended.
	// +optional
	Terminated *JobTerminated `json:"terminated,omitempty"`

	// It waits.
	// +optional
	Waiting *JobWaiting `json:"waiting,omitempty"`
}

// JobRunning describes a job that runs.
type JobRunning struct {
	// Where the executor is asked about it.
	// +optional
	JobExecutionAddr string `json:"jobExecutionAddr,omitempty"`

	// What happens, for people.
	// +optional
	Message string `json:"message,omitempty"`

	// What happens, in one word.
	// +optional
	Phase string `json:"phase,omitempty"`

	// Why, in one word.
	// +optional
	Reason string `json:"reason,omitempty"`

	// When it started.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
}

// JobTerminated describes a job that has ended.
type JobTerminated struct {
	// Whether it was stopped because someone asked for it.
	Canceled bool `json:"canceled"`

	// Exit code of the script or command.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// When it ended.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`

	// What happened, for people.
	// +optional
	Message string `json:"message,omitempty"`

	// Why, in one word.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Whether running it again may help.
	// +optional
	Retryable bool `json:"retryable,omitempty"`

	// When it started.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// Whether it succeeded.
	Success bool `json:"success"`

	// Whether it was stopped because its time was over.
	// +optional
	TimedOut bool `json:"timedOut,omitempty"`
}

// JobWaiting describes a job that waits.
type JobWaiting struct {
	// The reason for waiting, for people.
	// +optional
	Message string `json:"message,omitempty"`

	// Why, in one word.
	// +optional
	Reason string `json:"reason,omitempty"`
}

// Condition types of a Job, beside Accepted. A job is never Ready: it ends.
const (
	// ConditionRunnerAssigned: a runner has the job.
	ConditionRunnerAssigned = "RunnerAssigned"
	// ConditionFinished: the job has ended, however it went.
	ConditionFinished = "Finished"
	// ConditionSucceeded: the job has ended well; Unknown until it ends.
	ConditionSucceeded = "Succeeded"
)

// StatusConditions returns the place of the object's conditions, never nil.
func (j *Job) StatusConditions() *[]StatusCondition { return &j.Status.Conditions }

// ConditionTypes returns the condition types that are always all present, the
// most telling first.
func (*Job) ConditionTypes() []string {
	return []string{ConditionSucceeded, ConditionAccepted, ConditionRunnerAssigned, ConditionFinished}
}

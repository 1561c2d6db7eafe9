package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// JobStatus is how far a job is.
type JobStatus struct {
	// The conditions of the object; each type is always present.
	// +optional
	Conditions []StatusCondition `json:"conditions,omitempty"`

	// Where the present execution runs, and its output. This
	// field is an addition of Switchyard's.
	// +optional
	Execution *JobExecution `json:"execution,omitempty"`

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

// JobExecution is the fence of the present execution of a job, and its results.
type JobExecution struct {
	// Executions so far, with the present one; 1 for the first.
	Count int32 `json:"count"`

	// UID of the pod in which the execution may begin, and no other.
	// +optional
	PodUID string `json:"podUID,omitempty"`

	// ID of the main container when the pod was chosen. Where the container
	// ended, for example without memory, its pod reports why under this ID.
	// +optional
	ContainerID string `json:"containerID,omitempty"`

	// Whether the script may have begun. An execution that has not is given to
	// another pod; one that has never begins again.
	// +optional
	Begun bool `json:"begun,omitempty"`

	// How long the script may run, as it was when the execution was given to its
	// pod.
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// Requests that the job sent through the proxy of its pod.
	// +optional
	Requests *JobRequests `json:"requests,omitempty"`

	// The artifacts that are stored, and why others are not.
	// +optional
	Artifacts []JobArtifactState `json:"artifacts,omitempty"`

	// Where the output and the artifacts are.
	// +optional
	Output *JobOutput `json:"output,omitempty"`
}

// JobRequests counts requests of a job.
type JobRequests struct {
	// Requests with the routing key.
	WithKey int64 `json:"withKey"`

	// Requests without it.
	WithoutKey int64 `json:"withoutKey"`

	// Why requests may have been sent without the key.
	// +optional
	Caveat string `json:"caveat,omitempty"`
}

// JobArtifactState describes one file that is kept.
type JobArtifactState struct {
	// Its path, as the specification has it.
	Path string `json:"path"`

	// Its size in bytes.
	// +optional
	Size int64 `json:"size,omitempty"`

	// Its checksum, in hexadecimal digits.
	// +optional
	SHA256 string `json:"sha256,omitempty"`

	// Its content type.
	// +optional
	ContentType string `json:"contentType,omitempty"`

	// Why it is not stored.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// JobOutput describes the output streams and artifacts of an execution.
type JobOutput struct {
	// Kept: they are in the pod. Released: they were read, and the pod need not
	// keep them. Stored: they are in the bucket of the operator. Lost: they are
	// neither in the pod nor there, and may not have been read.
	// +kubebuilder:validation:Enum=Kept;Released;Stored;Lost
	State string `json:"state"`

	// Why they are lost, or could not be stored in the bucket of the operator,
	// which is tried again.
	// +optional
	Message string `json:"message,omitempty"`

	// When the Job is deleted at the latest, and with it what the bucket of the
	// operator has of it.
	// +optional
	StoredUntil *metav1.Time `json:"storedUntil,omitempty"`

	// Bytes that the script wrote to its standard output.
	// +optional
	Stdout int64 `json:"stdout,omitempty"`

	// Bytes that the script wrote to its standard error.
	// +optional
	Stderr int64 `json:"stderr,omitempty"`
}

// States of JobOutput.
const (
	OutputKept     = "Kept"
	OutputReleased = "Released"
	OutputStored   = "Stored"
	OutputLost     = "Lost"
)

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

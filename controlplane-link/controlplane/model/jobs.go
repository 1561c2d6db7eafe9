package model

import (
	"encoding/json"
	"time"
)

// RunnerGroup is the desired state of a runner group, and the last observed one.
type RunnerGroup struct {
	Org, Name, Cluster, Namespace string
	// Spec is the published specification, in JSON, with its defaults.
	Spec json.RawMessage
	// Generation is that of the last write, as that of a Sandbox. DeletedAt makes the row a tombstone.
	Generation                      int64
	CreatedAt, UpdatedAt, DeletedAt time.Time
	// Author is that of the last write or deletion.
	Author Author
	Status RunnerGroupStatus
}

// RunnerGroupStatus is the observed state of a runner group.
type RunnerGroupStatus struct {
	// Applied is the generation that the object in the cluster had last; 0: none was seen.
	Applied int64 `json:"applied,omitempty"`
	// Attempted is the newest generation that a write to the cluster has had, or was adopted from it. An object with a
	// newer one is of another store.
	Attempted int64 `json:"attempted,omitempty"`
	// Ready, NotReady and Idle count pods. Idle ones are ready.
	Ready    int `json:"ready,omitempty"`
	NotReady int `json:"notReady,omitempty"`
	Idle     int `json:"idle,omitempty"`
	// Message is why pods are not ready, for people.
	Message string `json:"message,omitempty"`
}

// Phase is that of a job.
type Phase string

// Phases of a job. The last three are final.
const (
	PhaseQueued    Phase = "queued"
	PhaseRunning   Phase = "running"
	PhaseFailed    Phase = "failed"
	PhaseSucceeded Phase = "succeeded"
	PhaseCanceled  Phase = "canceled"
)

// Final reports whether a job in this phase has ended.
func (p Phase) Final() bool { return p != PhaseQueued && p != PhaseRunning }

// Causes of the phase canceled.
const (
	CanceledByTimeout  = "timeout"
	CanceledByRequest  = "apiRequest"
	CanceledInternally = "internal"
)

// Job is one run of a script or command, and its state.
type Job struct {
	Org, Name string
	// Group is its runner group, which is in Namespace of Cluster.
	Group, Cluster, Namespace string
	// Sandbox is that of its routing context; empty: none. RoutingKey is that of the sandbox or route group.
	Sandbox, RoutingKey string
	// Spec is the published specification, in JSON.
	Spec json.RawMessage
	// Sequence is its place among the jobs of the group. The store assigns it. Generation is that of the last write.
	Sequence, Generation int64
	CreatedAt            time.Time
	// CanceledAt is when its cancelation was requested, DeletedAt when the job was deleted, and GroupDeletedAt when its
	// runner group was removed from the cluster; zero: not.
	CanceledAt, DeletedAt, GroupDeletedAt time.Time
	// Attempted is when its object was last written to the cluster; zero: never.
	Attempted time.Time
	// Author is the submitter, or the user of its cancelation or deletion.
	Author  Author
	Attempt Attempt
}

// Attempt is the state of the only attempt of a job.
type Attempt struct {
	Phase Phase `json:"phase"`
	// Seen: the object was seen in the cluster.
	Seen bool `json:"seen,omitempty"`
	// Executions counts those that have begun, with the present one.
	Executions int32 `json:"executions,omitempty"`
	// UID is that of the object, PodUID that of the pod of the execution, PodName and PodNamespace its name.
	UID          string `json:"uid,omitempty"`
	PodUID       string `json:"podUID,omitempty"`
	PodName      string `json:"podName,omitempty"`
	PodNamespace string `json:"podNamespace,omitempty"`
	// StartedAt and FinishedAt are those of the script.
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Reason is a word for programs, Message a text for people: why it waits, or how it has ended.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// ExitCode is that of the script; nil: it has none.
	ExitCode *int32 `json:"exitCode,omitempty"`
	// CanceledBy is one of the causes; InCluster: the cluster has canceled it.
	CanceledBy string `json:"canceledBy,omitempty"`
	InCluster  bool   `json:"inCluster,omitempty"`
	// Output is where the output is: crdv1.OutputKept, OutputReleased, OutputLost; empty: there is none.
	Output string `json:"output,omitempty"`
}

// Ended returns the attempt with an end that is not that of a script.
func (a Attempt) Ended(phase Phase, by, reason, message string, at time.Time) Attempt {
	a.Phase, a.CanceledBy, a.Reason, a.Message, a.FinishedAt = phase, by, reason, message, at
	return a
}

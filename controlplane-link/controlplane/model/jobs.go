package model

import (
	"encoding/json"
	"time"

	"switchyard.dev/workflows/jobs/published"
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

// Phase and Attempt are the state of a job, as published.
type (
	Phase   = published.Phase
	Attempt = published.Attempt
)

// Phases of a job.
const (
	PhaseQueued    = published.Queued
	PhaseRunning   = published.Running
	PhaseFailed    = published.Failed
	PhaseSucceeded = published.Succeeded
	PhaseCanceled  = published.Canceled
)

// Causes of the phase canceled.
const (
	CanceledByRequest  = published.CanceledByRequest
	CanceledInternally = published.CanceledInternally
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

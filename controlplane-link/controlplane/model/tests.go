package model

import (
	"time"

	v2 "switchyard.dev/protos/controlplane/v2"
)

// Test is a Smart Test that the control plane keeps.
type Test struct {
	Org, Name string
	Spec      v2.TestSpec
	// Generation is assigned by the store, as that of a Sandbox.
	Generation           int64
	CreatedAt, UpdatedAt time.Time
}

// TestExecution is one run of a Smart Test, on a sandbox or route group and on its baseline, or on the baseline alone.
type TestExecution struct {
	Org, ID, Cluster string
	// Test is the name of the test, and RunID that of the run it is a part of.
	Test, RunID string
	// Sandbox is that of its routing context; empty: none. RoutingKey is that of the sandbox or route group, and Revision the
	// generation of the sandbox when the execution was requested.
	Sandbox, RoutingKey string
	Revision            int64
	// Trigger is the identifier of the trigger that has requested it; empty: a user has.
	Trigger string
	// Script is the one to run, and Timeout that of each side.
	Script  string
	Timeout time.Duration
	// Sequence is its place in lists and in the queue of its cluster. The store assigns it.
	Sequence int64
	// CanceledAt is when its cancelation was requested; zero: not.
	CreatedAt, CanceledAt time.Time
	// Author is the user that needs the rights.
	Author Author
	Spec   v2.TestExecutionSpec
	// Status has its phase; the state of an execution that is being canceled is already in it.
	Status  v2.TestExecutionStatus
	Results *v2.TestExecutionResults
}

// Phases of an execution of a test.
const (
	TestPending    = v2.TestexecutionsPhasePending
	TestInProgress = v2.TestexecutionsPhaseInProgress
	TestSucceeded  = v2.TestexecutionsPhaseSucceeded
	TestFailed     = v2.TestexecutionsPhaseFailed
	TestCanceled   = v2.TestexecutionsPhaseCanceled
)

// Ended reports whether the execution has ended.
func (x TestExecution) Ended() bool {
	return x.Status.Phase != TestPending && x.Status.Phase != TestInProgress
}

// Numbers are those of executions: checks of the sandbox, and compared calls by their colour.
type Numbers struct{ Executions, Passed, Failed, Green, Yellow, Red int }

// Numbers returns those of one execution.
func (x TestExecution) Numbers() Numbers {
	n := Numbers{Executions: 1}
	if x.Results == nil {
		return n
	}
	if x.Results.Checks != nil {
		for _, c := range x.Results.Checks.Sandbox {
			if len(c.Errors) > 0 {
				n.Failed++
			} else {
				n.Passed++
			}
		}
	}
	if d := x.Results.TrafficDiff; d != nil {
		n.Green, n.Yellow, n.Red = d.Green.Captures, d.Yellow.Captures, d.Red.Captures
	}
	return n
}

// Summary has the numbers of executions by their phase.
type Summary map[v2.TestexecutionsPhase]Numbers

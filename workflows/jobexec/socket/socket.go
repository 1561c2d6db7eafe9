package socket

import (
	"time"

	"switchyard.dev/protos/problems"
)

// Paths in the volume that the containers of a runner's pod share.
const (
	Root = "/signadot/job"
	// Program is the executor, which the init container copies.
	Program = Root + "/bin/job-executor"
	// Path is the socket.
	Path = Root + "/run/executor.sock"
	// BegunDir has a file for each execution that has begun, or never will.
	BegunDir = Root + "/begun"
)

const (
	// MaxUnacknowledged is how many bytes of a stream the executor keeps.
	MaxUnacknowledged = 1 << 20
	// MaxChunk is how many bytes of a stream are in one response.
	MaxChunk = 256 << 10
	// MaxRequest is the maximum size of a Request in JSON, in bytes.
	MaxRequest = 8 << 20
	// HeaderOffset is the offset of the first byte of output in a response.
	HeaderOffset = "Job-Output-Offset"
	// HeaderEnd is "true" in the response with the last byte.
	HeaderEnd = "Job-Output-End"
)

// Refusal is the body of an error response.
type Refusal = problems.Problem

// Reasons of refusals.
const (
	// Busy: another execution runs, or was not deleted yet.
	Busy = "Busy"
	// Lost: the execution has begun, and this process does not know its outcome.
	Lost = "Lost"
	// NotBegun: the execution has not begun.
	NotBegun = "NotBegun"
	// Stopping: the pod is being terminated, and nothing begins.
	Stopping = "Stopping"
	// Leftover: a process of an earlier execution cannot be killed, and nothing begins.
	Leftover = "Leftover"
	// Running: the execution has not ended.
	Running = "Running"
	// VolumeFailed: the volume cannot be written. The execution has not begun.
	VolumeFailed = "VolumeFailed"
	// BadRequest: the request is not valid.
	BadRequest = "BadRequest"
	// FileMissing, NotAFile and FileNotReadable: a file does not exist, is a folder, a device or something else, or
	// cannot be read.
	FileMissing     = "FileMissing"
	NotAFile        = "NotAFile"
	FileNotReadable = "FileNotReadable"
)

// Executor is the state of the executor.
type Executor struct {
	// Instance is a random name of this process.
	Instance string `json:"instance"`
	// NoProxy are the values of no_proxy and NO_PROXY in the environment of the container.
	NoProxy []string `json:"noProxy,omitempty"`
	// Problem states why no execution can begin; nil: one can.
	Problem *Refusal `json:"problem,omitempty"`
	// Current is the execution that runs, or was not deleted yet; nil: none.
	Current *Status `json:"current,omitempty"`
}

// Ref names an execution.
type Ref struct {
	// Job is the UID of the Job object.
	Job string `json:"job"`
	// Execution counts from 1.
	Execution uint32 `json:"execution"`
}

// Request describes an execution. Either Script or Command is set.
type Request struct {
	// Script is the text of a script, which begins with "#!".
	Script string `json:"script,omitempty"`
	// Command is a program and its arguments.
	Command []string `json:"command,omitempty"`
	// Env is added to the environment of the container, in this order; the last value of a name counts.
	Env []Variable `json:"env,omitempty"`
	// Timeout is how long the script can run; 0: without limit.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration `json:"grace,omitempty"`
}

// Variable is a variable of the environment.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Phase is the state of an execution.
type Phase string

// The phases.
const (
	PhaseRunning    Phase = "Running"
	PhaseTerminated Phase = "Terminated"
)

// Status is the state of an execution that has begun, or that was stopped before.
type Status struct {
	Ref
	Phase Phase `json:"phase"`
	// Version changes with the fields, except the streams.
	Version uint64 `json:"version"`
	// Stopped reports whether Stop was called before the end.
	Stopped bool `json:"stopped,omitempty"`
	// StartedAt and FinishedAt are when the script started and ended, by the clock of the node. Both are zero if it
	// did not start.
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Ending is set when Phase is PhaseTerminated.
	Ending *Ending `json:"ending,omitempty"`
	// Stdout and Stderr are the sizes so far.
	Stdout Extent `json:"stdout"`
	Stderr Extent `json:"stderr"`
}

// Ending is how an execution ended. It succeeded if Reason is empty.
type Ending struct {
	// ExitCode is that of the script, 128 and the number of the signal that ended it, or 126 or 127 if it did not start.
	ExitCode int `json:"exitCode"`
	// Signal ended the script; 0: it exited, or did not start.
	Signal int `json:"signal,omitempty"`
	// TimedOut and Canceled report whether the timeout or Stop ended the script.
	TimedOut bool `json:"timedOut,omitempty"`
	Canceled bool `json:"canceled,omitempty"`
	// Reason is one of workflows/script, or below.
	Reason string `json:"reason,omitempty"`
	// Message is for users.
	Message string `json:"message,omitempty"`
	// Leftover reports whether there are processes that could not be killed: the pod has to be replaced.
	Leftover bool `json:"leftover,omitempty"`
}

// Reasons of endings, beside those of workflows/script.
const (
	// TimedOut: the timeout passed.
	TimedOut = "TimedOut"
	// Canceled: Stop was called.
	Canceled = "Canceled"
	// PodTerminated: the pod was terminated while the script ran.
	PodTerminated = "PodTerminated"
	// OutOfMemory: the script failed, and the kernel killed a process because the container reached its memory limit.
	OutOfMemory = "OutOfMemory"
)

// Extent is the size of a stream.
type Extent struct {
	// Total is how many bytes were read from the script, Acknowledged how many the client has stored.
	Total        uint64 `json:"total"`
	Acknowledged uint64 `json:"acknowledged"`
	// Ended reports whether Total is final.
	Ended bool `json:"ended,omitempty"`
}

// Stream names an output of a script.
type Stream string

// The streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

package iocontext

import (
	"switchyard.dev/protos/problems"
	"switchyard.dev/workflows/script"
)

// Refusal is the body of an error response, with one of the reasons below. Its message contains no
// value of an input or an output.
type Refusal = problems.Problem

// Reasons of the IO context server for an error response.
const (
	// NotYet: the unit's status does not have the pod yet. Ask again.
	NotYet = "NotYet"
	// TryAgain: data that is needed to answer is unavailable. Ask again.
	TryAgain = "TryAgain"
	// TokenRefused: the token is missing, or not that of a running pod.
	TokenRefused = "TokenRefused"
	// NotYours: the pod is not the one that runs the unit.
	NotYours = "NotYours"
	// UnitChanged: the specification of the unit was changed after the pod had been created.
	UnitChanged = "UnitChanged"
	// OtherContext: an input is to come from another IO context than the unit's.
	OtherContext = "OtherContext"
	// InputMissing: the value of an input is not stored.
	InputMissing = "InputMissing"
	// InputsTooLarge: all inputs together have more bytes than MaxInputs.
	InputsTooLarge = "InputsTooLarge"
	// OutputUnknown: the unit has no such output.
	OutputUnknown = "OutputUnknown"
	// OutputTooLarge: a value has more bytes than MaxValue.
	OutputTooLarge = "OutputTooLarge"
	// BadRequest: the path is not valid.
	BadRequest = "BadRequest"
)

// Reasons for the end of a container of a unit's pod, beside those of the server.
const (
	// ScriptFailed: it ended with another code than 0.
	ScriptFailed = script.Failed
	// ScriptKilled: it was ended by a signal.
	ScriptKilled = script.Killed
	// InterpreterMissing: the image lacks the program that the first line of the script names.
	InterpreterMissing = script.InterpreterMissing
	// ScriptNotRunnable: the first line names no interpreter, or one that is no program.
	ScriptNotRunnable = script.NotRunnable
	// CommandMissing: the image lacks the command of a unit without a script.
	CommandMissing = script.CommandMissing
	// VariableTooLarge, VariableHasNUL, VariableNotUTF8 and VariablesTooLarge: an input does not fit a
	// variable (protos/crd/variable), or all variables together are more than the kernel takes.
	VariableTooLarge  = "VariableTooLarge"
	VariableHasNUL    = "VariableHasNUL"
	VariableNotUTF8   = "VariableNotUTF8"
	VariablesTooLarge = script.VariablesTooLarge
	// OutputMissing and OutputNotAFile: a file that the script should have written is missing or
	// not a file.
	OutputMissing  = "OutputMissing"
	OutputNotAFile = "OutputNotAFile"
	// BegunBefore: the script was begun in this pod already.
	BegunBefore = "BegunBefore"
	// MainKilled: the main container terminated without a result.
	MainKilled = "MainKilled"
	// VolumeFailed: the volume of the pod's containers cannot be read or written.
	VolumeFailed = "VolumeFailed"
	// ServerUnreachable: the IO context server was not reached, or not trusted, before the end.
	ServerUnreachable = "ServerUnreachable"
)

// MaxInputs is the maximum size of all inputs of a unit together, in bytes.
const MaxInputs = 16 * MaxValue

// MaxVariable is the kernel's maximum size of one variable in bytes: its name, "=", the value and
// the final NUL (MAX_ARG_STRLEN).
const MaxVariable = 128 << 10

// ReservedVariables is the prefix of the operator's variables for scripts. Inputs cannot use it.
const ReservedVariables = "SIGNADOT_"

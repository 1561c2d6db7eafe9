package script

import (
	"fmt"
	"syscall"
)

// Ending is how a script ended, or why it did not start. It succeeded if Reason is empty.
type Ending struct {
	// Reason is machine-readable.
	Reason string
	// ExitCode is that of the script, or one as of a shell: 128 and the number of the signal that ended the script, 127 if a
	// program does not exist, 126 if the script did not start for another reason.
	ExitCode int
	// Signal ended the script; 0: none.
	Signal syscall.Signal
	// Message has the problem and the remedy.
	Message string
}

// Reasons of endings.
const (
	// Failed: it ended with another code than 0.
	Failed = "ScriptFailed"
	// Killed: it was ended by a signal.
	Killed = "ScriptKilled"
	// InterpreterMissing: the image lacks the program that the first line of the script names.
	InterpreterMissing = "InterpreterMissing"
	// NotRunnable: the first line names no interpreter, or one that is no program.
	NotRunnable = "ScriptNotRunnable"
	// CommandMissing: the image lacks the program of a command.
	CommandMissing = "CommandMissing"
	// VariablesTooLarge: all variables together are more than the kernel takes.
	VariablesTooLarge = "VariablesTooLarge"
)

// Exit codes, as in shells.
const (
	NotBegun = 126
	notFound = 127
	bySignal = 128
)

// Exited returns the ending of a script with an exit status.
func Exited(status syscall.WaitStatus) Ending {
	switch code := status.ExitStatus(); {
	case status.Signaled():
		return Ending{Reason: Killed, ExitCode: bySignal + int(status.Signal()), Signal: status.Signal(),
			Message: fmt.Sprintf("the script was ended by signal %d (%s)", status.Signal(), status.Signal())}
	case code != 0:
		return Ending{Reason: Failed, ExitCode: code, Message: fmt.Sprintf("the script ended with exit code %d", code)}
	}
	return Ending{}
}

// notStarted returns the ending of a script that did not start.
func notStarted(reason, format string, args ...any) *Ending {
	return &Ending{Reason: reason, ExitCode: NotBegun, Message: fmt.Sprintf(format, args...)}
}

package executor

import (
	"fmt"
	"syscall"
	"time"

	"switchyard.dev/workflows/jobexec/socket"
	"switchyard.dev/workflows/script"
)

// outcome has the known facts about the end of a script.
type outcome struct {
	// cause is the reason for which the executor ended it; "": it ended by itself.
	cause   string
	timeout time.Duration
	// status is its exit status, if ended; else it could not be killed.
	status syscall.WaitStatus
	ended  bool
	// outOfMemory reports whether the kernel killed a process because the container had reached its memory limit.
	outOfMemory bool
	// left is the number of processes that could not be killed. problem states why they cannot be found.
	left    int
	problem error
}

// leftover reports whether there can be processes that were not killed.
func (o outcome) leftover() bool { return o.left > 0 || o.problem != nil || !o.ended }

// ending returns the ending to report.
func (o outcome) ending() socket.Ending {
	var e socket.Ending
	if o.ended {
		own := script.Exited(o.status)
		e = socket.Ending{ExitCode: own.ExitCode, Signal: int(own.Signal), Reason: own.Reason, Message: own.Message}
	}
	switch own := e.Message; {
	case o.cause == socket.TimedOut:
		e.Reason, e.TimedOut = o.cause, true
		e.Message = fmt.Sprintf("the script did not end within its timeout of %s, and was stopped", o.timeout)
	case o.cause == socket.Canceled:
		e.Reason, e.Canceled = o.cause, true
		e.Message = "the job was canceled, and its script stopped"
	case o.cause == socket.PodTerminated:
		e.Reason = o.cause
		e.Message = "the pod was terminated while the script ran"
	case o.outOfMemory && e.Reason != "":
		e.Reason = socket.OutOfMemory
		e.Message = own + ", after the kernel had killed a process because the container reached its memory limit: raise the limit, or use less memory"
	case o.outOfMemory:
		e.Message = "the kernel killed a process because the container reached its memory limit; the script ended with 0"
	}
	if o.leftover() {
		e.Leftover = true
		e.Message = join(e.Message, o.remains())
	}
	return e
}

// remains describes processes that were not killed.
func (o outcome) remains() string {
	switch {
	case o.problem != nil:
		return fmt.Sprintf("its processes cannot be listed: %v", o.problem)
	case o.left == 1:
		return "1 of its processes cannot be killed"
	}
	return fmt.Sprintf("%d of its processes cannot be killed", o.left)
}

// join joins two parts of a message.
func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

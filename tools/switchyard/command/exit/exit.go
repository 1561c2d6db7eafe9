// Package exit has the exit codes of the command line, and the errors that end it with
// one of them.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/archive"
)

// Code is an exit code. The codes are part of the interface: scripts go by them.
type Code int

const (
	// OK: it is so; it was done.
	OK Code = 0
	// No: the answer is no: not routed, not converged, something differs
	// (with --exit-code), tampered with, no version found.
	No Code = 1
	// Usage: the command line or the request makes no sense.
	Usage Code = 2
	// Unavailable: no route server or control plane was reached, or it is not ready, or it cannot
	// read the log.
	Unavailable Code = 3
	// Gone: the requested version is no longer retained, or has not been reached.
	Gone Code = 4
	// Failed: something else went wrong: a file cannot be read, a log is
	// damaged, a command cannot be started.
	Failed Code = 5
	// InTheWay: a dry run found a problem: the API server would reject the object, or the operator
	// would report a condition that needs a fix.
	InTheWay Code = 6
	// Interrupted: it was interrupted before it was done.
	Interrupted Code = 130
)

// Signaled returns the exit code of a program that a signal has ended, as shells have it.
func Signaled(s syscall.Signal) Code { return Code(128 + int(s)) }

// Codes is how they are explained to users.
const Codes = `Exit codes:
  0  yes, or done
  1  no: not routed, not converged, differs (with --exit-code), tampered with, not found
  2  wrong usage
  3  no route server or control plane is reachable, or it is not ready, or it cannot read the log
  4  version no longer kept, or not reached yet
  5  any other error
  6  dry-run: the result would not work
  129, 130, 143  ended by SIGHUP, SIGINT or SIGTERM
run ends with the exit code of its command, or with 128 and the number of the signal that ended it.`

// ErrUsage marks errors about invalid arguments.
var ErrUsage = errors.New("this cannot be asked")

// ended is an error with the exit code of the program. Its error is nil when everything has been
// printed.
type ended struct {
	code Code
	err  error
}

// Error implements error.
func (e *ended) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the error.
func (e *ended) Unwrap() error { return e.err }

// Errorf returns an error that ends the program with the code.
func (c Code) Errorf(format string, args ...any) error {
	return &ended{c, fmt.Errorf(format, args...)}
}

// Silently returns an error that ends the program with the code, after the answer has been
// printed.
func (c Code) Silently() error { return &ended{code: c} }

// Unless returns nil when ok, and otherwise what Silently does.
func (c Code) Unless(ok bool) error {
	if ok {
		return nil
	}
	return c.Silently()
}

// Of returns the exit code of an error.
func Of(err error) Code {
	var e *ended
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, ErrUsage):
		return Usage
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, eventbus.ErrGone):
		return Gone
	}
	s, ok := status.FromError(err)
	if !ok {
		return Failed
	}
	switch s.Code() {
	case codes.InvalidArgument:
		return Usage
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Unimplemented:
		return Unavailable
	case codes.OutOfRange, codes.NotFound:
		return Gone
	case codes.Canceled:
		return Interrupted
	}
	return Failed
}

// Text returns the text of an error for the terminal, which names the program; empty when
// everything has been printed.
func Text(err error, program string) string {
	var e *ended
	if errors.As(err, &e) && e.err == nil {
		return ""
	}
	text := err.Error()
	var line *archive.Error
	switch {
	case errors.As(err, &line) && line.Line == 1:
		return fmt.Sprintf("%s\n%s log export FILE writes an archive of the log", strings.TrimSpace(text), program)
	case line != nil:
		return fmt.Sprintf("%s\nthe file is damaged; %s audit verify shows where its log was changed", strings.TrimSpace(text), program)
	}
	var path *fs.PathError
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unknown && !errors.As(err, &path) {
		text = s.Message()
		if s.Code() == codes.Unimplemented {
			text += "; the route server is of an older version than this client: update the operator"
		}
	}
	return strings.TrimSpace(text)
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/archive"
)

// The exit codes. They are part of the interface: scripts go by them.
const (
	// ExitOK: it is so; it was done.
	ExitOK = 0
	// ExitNo: the answer is no: not routed, not converged, something differs
	// (with --exit-code), tampered with, no version found.
	ExitNo = 1
	// ExitUsage: the command line or the request makes no sense.
	ExitUsage = 2
	// ExitUnavailable: no route server was reached, or it is not ready, or it cannot
	// read the log.
	ExitUnavailable = 3
	// ExitGone: what was asked for is no longer kept, or has not been reached.
	ExitGone = 4
	// ExitFailed: something else went wrong: a file cannot be read, a log is
	// damaged, a command cannot be started.
	ExitFailed = 5
	// ExitInTheWay: a dry run says that it would not work as it is: the API server would
	// refuse it, or the operator would report what somebody has to mend.
	ExitInTheWay = 6
	// ExitInterrupted: it was interrupted before it was done.
	ExitInterrupted = 130
)

// exitCodes is how they are explained to users.
const exitCodes = `Exit codes:
  0  yes, or done
  1  no: not routed, not converged, differs (with --exit-code), tampered with, not found
  2  wrong usage
  3  no route server was reached, or it is not ready, or it cannot read the log
  4  no longer kept, or not reached yet
  5  anything else that went wrong
  6  dry-run: it would not work as it is`

// ErrUsage is what an error of Config.Plan is when what was asked makes no sense.
var ErrUsage = errors.New("this cannot be asked")

// exit is an error with the code that it ends the program with. Its error may be
// nil: then all has been said.
type exit struct {
	code int
	err  error
}

// Error implements error.
func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the error.
func (e *exit) Unwrap() error { return e.err }

// errNo ends the program with ExitNo after the answer has been printed.
var errNo = &exit{code: ExitNo}

// errInTheWay ends the program with ExitInTheWay after the answer has been printed.
var errInTheWay = &exit{code: ExitInTheWay}

// usage is an error in what the user wrote.
func usage(format string, args ...any) error {
	return &exit{ExitUsage, fmt.Errorf(format, args...)}
}

// codeOf returns the exit code of an error.
func codeOf(err error) int {
	var e *exit
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &e):
		return e.code
	case errors.Is(err, ErrUsage):
		return ExitUsage
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, eventbus.ErrGone):
		return ExitGone
	}
	s, ok := status.FromError(err)
	if !ok {
		return ExitFailed
	}
	switch s.Code() {
	case codes.InvalidArgument:
		return ExitUsage
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Unimplemented:
		return ExitUnavailable
	case codes.OutOfRange, codes.NotFound:
		return ExitGone
	case codes.Canceled:
		return ExitInterrupted
	}
	return ExitFailed
}

// tell returns the text of an error for people; empty when all has been said.
func (a *app) tell(err error) string {
	var e *exit
	if errors.As(err, &e) && e.err == nil {
		return ""
	}
	text := err.Error()
	var line *archive.Error
	switch {
	case errors.As(err, &line) && line.Line == 1:
		return fmt.Sprintf("%s\n%s log export FILE writes an archive of the log", strings.TrimSpace(plain(text)), a.Name)
	case line != nil:
		return fmt.Sprintf("%s\nthe file is damaged; %s audit verify says where the log in it was changed", strings.TrimSpace(plain(text)), a.Name)
	}
	var path *fs.PathError
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unknown && !errors.As(err, &path) {
		text = s.Message()
		if s.Code() == codes.Unimplemented {
			text += "; the route server is of an older version than this client: update the operator"
		}
	}
	return strings.TrimSpace(plain(text))
}

// Package failure has the errors of our own API. All are google.rpc.Status with an
// ErrorInfo of the domain switchyard.dev; its reasons are part of the API.
package failure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/history"
)

// Domain is the domain of every ErrorInfo of this API.
const Domain = "switchyard.dev"

// The reasons of errors: ErrorInfo.Reason. They are part of the API.
const (
	// ReasonInvalid (INVALID_ARGUMENT): the request makes no sense; a BadRequest
	// names the field.
	ReasonInvalid = "INVALID_REQUEST"
	// ReasonGone (OUT_OF_RANGE): the position or time is older than the retained log. The metadata
	// of this and the next reason, oldest_epoch and oldest_sequence, contain the oldest retained
	// position, if there is one.
	ReasonGone = "POSITION_GONE"
	// ReasonOtherEpoch (OUT_OF_RANGE): the position is of another epoch than the log, which has
	// begun again.
	ReasonOtherEpoch = "OTHER_EPOCH"
	// ReasonNotReached (NOT_FOUND): the log has not come to the position yet.
	ReasonNotReached = "POSITION_NOT_REACHED"
	// ReasonNotWhole (UNAVAILABLE): there is no whole table yet.
	ReasonNotWhole = "TABLE_NOT_WHOLE"
	// ReasonLog (UNAVAILABLE): the log cannot be read at the moment.
	ReasonLog = "LOG_UNAVAILABLE"
	// ReasonStopping (UNAVAILABLE): this route server is stopping.
	ReasonStopping = "STOPPING"
	// ReasonTooMany (RESOURCE_EXHAUSTED): as many such calls as may be are under
	// way on this route server.
	ReasonTooMany = "TOO_MANY_CALLS"
	// ReasonTimedOut (DEADLINE_EXCEEDED): the awaited condition was not reached in time.
	ReasonTimedOut = "TIMED_OUT"
	// ReasonSlow (DEADLINE_EXCEEDED): the client of a stream has taken nothing
	// for too long.
	ReasonSlow = "SLOW_READER"
)

// New makes an error of the API. The metadata are pairs of name and value.
func New(code codes.Code, reason, message string, metadata ...string) *status.Status {
	info := &errdetails.ErrorInfo{Reason: reason, Domain: Domain, Metadata: map[string]string{}}
	for i := 0; i+1 < len(metadata); i += 2 {
		info.Metadata[metadata[i]] = metadata[i+1]
	}
	return detailed(status.New(code, message), info)
}

// detailed adds a detail to a status. A detail that cannot be written is left
// out: the status itself must reach the client.
func detailed(s *status.Status, detail protoadapt.MessageV1) *status.Status {
	with, err := s.WithDetails(detail)
	if err != nil {
		return s
	}
	return with
}

// Reason returns the API's reason in an error; "" if it has none.
func Reason(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return info.GetReason()
		}
	}
	return ""
}

// Again adds that the same call may be made again after a while.
func Again(s *status.Status, after time.Duration) error {
	return detailed(s, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)}).Err()
}

// Invalid returns an error about one field of a request. The field is written as in the .proto
// file: at.position.
func Invalid(field, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	return detailed(New(codes.InvalidArgument, ReasonInvalid, field+": "+what), &errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: what}},
	}).Err()
}

// NotWhole returns the error of a route server that has no table to answer from.
func NotWhole() error {
	return Again(New(codes.Unavailable, ReasonNotWhole, "the routing table is not whole yet: try again"), time.Second)
}

// Gone returns the error for something that is no longer kept. oldest is the oldest place
// that is; zero when there is none.
func Gone(reason, message string, oldest event.Pos) error {
	if oldest == (event.Pos{}) {
		return New(codes.OutOfRange, reason, message).Err()
	}
	return New(codes.OutOfRange, reason, message,
		"oldest_epoch", oldest.Epoch, "oldest_sequence", strconv.FormatUint(oldest.Seq, 10)).Err()
}

// NotReached returns the error of a position that the log has not come to.
func NotReached(message string) error {
	return New(codes.NotFound, ReasonNotReached, message).Err()
}

// TimedOut returns the error of a wait for something that did not happen in time.
func TimedOut(what string) error {
	return New(codes.DeadlineExceeded, ReasonTimedOut, what+" did not happen in time: ask again, or with a later deadline").Err()
}

// Of returns the status for an error of the log, of History or of a context. A status error is
// returned unchanged.
func Of(ctx context.Context, err error, logger *slog.Logger) error {
	var is interface{ GRPCStatus() *status.Status }
	if err != nil && ctx.Err() != nil && !errors.As(err, &is) {
		err = context.Cause(ctx)
	}
	var past *history.Gone
	switch {
	case err == nil, errors.As(err, &is):
		return err
	case errors.As(err, &past) && past.OtherEpoch:
		return Gone(ReasonOtherEpoch, past.Error()+": positions of different epochs do not compare; ask without a position", past.Oldest)
	case errors.As(err, &past):
		return Gone(ReasonGone, past.Error()+": ask from there on, or without a position", past.Oldest)
	case errors.Is(err, eventbus.ErrGone):
		return Gone(ReasonGone, err.Error(), event.Pos{})
	case errors.Is(err, eventbus.ErrEpochEnded):
		return Gone(ReasonOtherEpoch, err.Error(), event.Pos{})
	case errors.Is(err, history.ErrNotReached):
		return NotReached(err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return TimedOut("the answer")
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the caller has gone")
	case errors.Is(err, eventbus.ErrBusy):
		return Again(New(codes.ResourceExhausted, ReasonTooMany, err.Error()+": try again"), time.Second)
	case errors.Is(err, eventbus.ErrNoLog):
		return Again(New(codes.Unavailable, ReasonLog, "the routing log has not begun: try again"), time.Second)
	}
	logger.Warn("a call of the routing API failed: the log cannot be read", "error", err)
	return Again(New(codes.Unavailable, ReasonLog, fmt.Sprintf("the routing log cannot be read at the moment; see that the event bus is up (requests are routed as before): %v", err)), time.Second)
}

// Stopping is the error of calls in progress when the server stops.
var Stopping = Again(New(codes.Unavailable, ReasonStopping, "this route server is stopping: ask again"), 100*time.Millisecond)

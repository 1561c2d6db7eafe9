package reach

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"switchyard.dev/tools/switchyard/command/exit"
)

// unreachable adds the address, and how it was found, to connection errors. Errors returned by a
// route server are unchanged: they have a reason.
func unreachable(err error, address, how string) error {
	s, ok := status.FromError(err)
	if err == nil || !ok || answered(s) {
		return err
	}
	switch s.Code() {
	case codes.Unavailable:
		return exit.Unavailable.Errorf("no route server answers at %s (from %s): %s\nsee that it is running, and that this is its gRPC port, usually 7777", address, how, s.Message())
	case codes.DeadlineExceeded:
		return exit.Unavailable.Errorf("the route server at %s (from %s) did not answer in time; --request-timeout gives it more", address, how)
	case codes.Unimplemented:
		return exit.Unavailable.Errorf("what answers at %s (from %s) does not know this API: it is no route server, or one of an older version", address, how)
	}
	return err
}

// stream adds the address to the errors of a stream.
type stream struct {
	grpc.ClientStream
	address, how string
}

// RecvMsg implements grpc.ClientStream.
func (s *stream) RecvMsg(m any) error {
	return unreachable(s.ClientStream.RecvMsg(m), s.address, s.how)
}

// answered reports whether a route server has made the status.
func answered(s *status.Status) bool {
	for _, d := range s.Details() {
		if _, ok := d.(*errdetails.ErrorInfo); ok {
			return true
		}
	}
	return false
}

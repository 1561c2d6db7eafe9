package switchyard_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/api/failure"
	"switchyard.dev/tools/switchyard/command/exit"
)

// rounds answers each wait as the next round says, at once: of a real route server each
// round lasts half a minute.
type rounds struct {
	routingv1.UnimplementedRoutingServer
	mu    sync.Mutex
	next  []func() (*routingv1.WaitResponse, error)
	asked []uint64
}

// Wait implements routingv1.RoutingServer.
func (r *rounds) Wait(_ context.Context, req *routingv1.WaitRequest) (*routingv1.WaitResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, req.GetPosition().GetSequence())
	if len(r.next) == 0 {
		return &routingv1.WaitResponse{Converged: true, Sidecars: 1}, nil
	}
	answer := r.next[0]
	r.next = r.next[1:]
	return answer()
}

func fails(code codes.Code, reason string) func() (*routingv1.WaitResponse, error) {
	return func() (*routingv1.WaitResponse, error) {
		s, err := status.New(code, "no").WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: failure.Domain})
		if err != nil {
			return nil, err
		}
		return nil, s.Err()
	}
}

func lags(at uint64, sidecars int32) func() (*routingv1.WaitResponse, error) {
	return func() (*routingv1.WaitResponse, error) {
		return &routingv1.WaitResponse{Sidecars: sidecars, Version: &routingv1.Version{Position: &routingv1.Position{Epoch: epoch, Sequence: at}}}, nil
	}
}

func TestALongWaitGoesOnWhereTheServerEndsIt(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		next  []func() (*routingv1.WaitResponse, error)
		asked []uint64
	}{
		"the position is not reached yet":         {[]string{"--position", "7"}, []func() (*routingv1.WaitResponse, error){fails(codes.DeadlineExceeded, failure.ReasonTimedOut)}, []uint64{7, 7}},
		"the first round's position is to be had": {nil, []func() (*routingv1.WaitResponse, error){lags(5, 2), lags(9, 2)}, []uint64{0, 5, 5}},
		"the key's first rule has no position":    {nil, []func() (*routingv1.WaitResponse, error){lags(5, 0), lags(6, 1)}, []uint64{0, 0, 6}},
		"the log begins again":                    {nil, []func() (*routingv1.WaitResponse, error){lags(5, 1), fails(codes.OutOfRange, failure.ReasonOtherEpoch)}, []uint64{0, 5, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			answers, server := &rounds{next: c.next}, grpc.NewServer()
			routingv1.RegisterRoutingServer(server, answers)
			go func() { _ = server.Serve(l) }()
			t.Cleanup(server.Stop)
			p := client()
			p.env["SWITCHYARD_SERVER"] = l.Addr().String()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got := p.run(ctx, append([]string{"wait", "--timeout", "1m"}, c.args...)...)
			if got.code != exit.OK || !slices.Equal(answers.asked, c.asked) {
				t.Errorf("exit code %d, asked for %v, want %v\n%s%s", got.code, answers.asked, c.asked, got.out, got.err)
			}
		})
	}
}

package api_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"switchyard.dev/eventbus/trust"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tools/wait"
	"switchyard.dev/tunnels/api"
)

// connections returns further ones, and ends them with the test.
func (s *site) connections(n int) (all []*grpc.ClientConn) {
	s.Helper()
	for range n {
		conn, err := trust.Dial(strings.TrimPrefix(s.conn.Target(), "passthrough:///"), api.Name, s.folder.Roots())
		s.Must(err)
		s.Cleanup(func() { _ = conn.Close() })
		all = append(all, conn)
	}
	return all
}

// Streams that take no token are so many, over however many connections they come, and leave calls
// with a token alone.
func TestStreamsWithoutATokenAreBounded(t *testing.T) {
	s := newSite(t, "unnamed")
	ada := s.account("ada")
	var held atomic.Int64
	var all sync.WaitGroup
	ctx, end := context.WithCancel(t.Context())
	for _, conn := range s.connections(40) {
		for range 30 {
			all.Go(func() {
				// It waits for its connection, and for a stream of it, however long that takes.
				stream, err := healthv1.NewHealthClient(conn).Watch(ctx, &healthv1.HealthCheckRequest{}, grpc.WaitForReady(true))
				if err == nil {
					_, err = stream.Recv()
				}
				if err == nil {
					held.Add(1)
					<-ctx.Done()
				} else if status.Code(err) != codes.ResourceExhausted && ctx.Err() == nil {
					t.Errorf("a watch of the health ends with %v", err)
				}
			})
		}
	}
	s.Eventually("many are held", func() error {
		if held.Load() < 200 {
			return errors.New("they are not")
		}
		return nil
	})
	s.Eventually("a call with a token beside them is answered", func() error {
		_, err := s.client.GetResourceOutputs(ada, &tunnelv1.GetResourceOutputsRequest{})
		switch status.Code(err) {
		case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied:
			return nil
		case codes.ResourceExhausted:
			return wait.Final(err)
		}
		return fmt.Errorf("it is answered %w", err)
	})
	end()
	all.Wait()
	if n := held.Load(); n > 256 {
		t.Errorf("%d streams without a token were held", n)
	}
	// Once they have ended, the health can be watched again.
	s.Eventually("there is room again", func() error {
		stream, err := healthv1.NewHealthClient(s.conn).Watch(t.Context(), &healthv1.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		return err
	})
}

// A connection over which no valid token was shown has so few streams that those which no handler
// sees cost little.
func TestAConnectionWithoutATokenHasFewStreams(t *testing.T) {
	s := newSite(t, "few")
	conn := s.connections(1)[0]
	refused := 0
	for range 60 { // a client-streaming view of a unary method: the request never comes
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, tunnelv1.TunnelAPI_GetOperatorInfo_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan error, 1)
		go func() { answered <- stream.RecvMsg(&tunnelv1.GetOperatorInfoResponse{}) }()
		select {
		case err := <-answered:
			if status.Code(err) != codes.ResourceExhausted {
				t.Fatalf("a stream is refused with %v", err)
			}
			refused++
		case <-time.After(100 * time.Millisecond): // held
		}
		if refused > 40 {
			break
		}
	}
	if refused < 40 {
		t.Errorf("of 60 streams without a request only %d are refused", refused)
	}
	if _, err := s.client.GetOperatorInfo(t.Context(), &tunnelv1.GetOperatorInfoRequest{}); err != nil {
		t.Errorf("another connection: %v", err)
	}
}

// All clients of port-forwards have one address: their calls do not use up a rate.
func TestTheAddressOfAPortForwardHasNoRate(t *testing.T) {
	s := newSite(t, "forwarded")
	for n := range 500 {
		if _, err := s.client.GetOperatorInfo(t.Context(), &tunnelv1.GetOperatorInfoRequest{}); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
	}
}

// The API describes itself only where a setting has it do so.
func TestReflectionIsOff(t *testing.T) {
	s := newSite(t, "reflection")
	stream, err := reflectionv1.NewServerReflectionClient(s.conn).ServerReflectionInfo(t.Context())
	if err == nil {
		_ = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}) // Recv returns why it fails
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("reflection answers: %s", fmt.Sprint(err))
	}
}

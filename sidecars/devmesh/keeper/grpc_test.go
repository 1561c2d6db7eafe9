package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
)

// calls is an application with all four kinds of call. It sends headers before and trailers
// after, and echoes those of the client.
type calls struct {
	grpc_testing.UnimplementedTestServiceServer
	side string
	// stall keeps an input stream unread until it is closed.
	stall chan struct{}
}

func payload(text string) *grpc_testing.Payload { return &grpc_testing.Payload{Body: []byte(text)} }

func (c *calls) UnaryCall(ctx context.Context, in *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	if err := grpc.SetHeader(ctx, metadata.Pairs("side", c.side)); err != nil {
		return nil, err
	}
	return &grpc_testing.SimpleResponse{Payload: in.GetPayload()}, grpc.SetTrailer(ctx, metadata.Pairs("side-after", c.side))
}

func (c *calls) StreamingOutputCall(in *grpc_testing.StreamingOutputCallRequest, s grpc.ServerStreamingServer[grpc_testing.StreamingOutputCallResponse]) error {
	s.SetTrailer(metadata.Pairs("side-after", c.side))
	for range in.GetResponseParameters() {
		if err := s.Send(&grpc_testing.StreamingOutputCallResponse{Payload: payload(c.side)}); err != nil {
			return err
		}
	}
	return nil
}

func (c *calls) StreamingInputCall(s grpc.ClientStreamingServer[grpc_testing.StreamingInputCallRequest, grpc_testing.StreamingInputCallResponse]) error {
	if values := metadata.ValueFromIncomingContext(s.Context(), "stall"); len(values) > 0 {
		select {
		case <-c.stall:
		case <-s.Context().Done():
		}
	}
	s.SetTrailer(metadata.Pairs("side-after", c.side))
	size := int32(0)
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.SendAndClose(&grpc_testing.StreamingInputCallResponse{AggregatedPayloadSize: size})
		}
		if err != nil {
			return err
		}
		size += int32(len(in.GetPayload().GetBody()))
	}
}

func (c *calls) FullDuplexCall(s grpc.BidiStreamingServer[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]) error {
	s.SetTrailer(metadata.Pairs("side-after", c.side))
	for {
		in, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(&grpc_testing.StreamingOutputCallResponse{Payload: payload(c.side + string(in.GetPayload().GetBody()))}); err != nil {
			return err
		}
	}
}

// serveCalls starts the application.
func (r *rig) serveCalls(l net.Listener, side string) *calls {
	c := &calls{side: side, stall: make(chan struct{})}
	server := grpc.NewServer()
	grpc_testing.RegisterTestServiceServer(server, c)
	go func() { _ = server.Serve(l) }()
	r.t.Cleanup(server.Stop)
	return c
}

// callers returns a rig with the application on both sides, and a client with one
// connection.
func callers(t *testing.T) (*rig, grpc_testing.TestServiceClient) {
	t.Helper()
	r := newRig(t)
	r.serveCalls(r.app(9000), "baseline")
	r.serveCalls(r.fork("10.96.7.1:80"), "fork")
	r.Board.Declare(sandbox("k1", "10.96.7.1:80", 9000))
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	r.acked()
	conn, err := grpc.NewClient(r.address+":9000", grpc.WithTransportCredentials(insecure.NewCredentials()))
	r.must(err)
	t.Cleanup(func() { _ = conn.Close() })
	return r, grpc_testing.NewTestServiceClient(conn)
}

// keyed is a context for calls with a routing key.
func keyed(t *testing.T, k string) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "baggage", "sd-routing-key="+k)
}

func TestAllFourKindsOfGRPCCall(t *testing.T) {
	_, client := callers(t)
	for side, k := range map[string]string{"fork": "k1", "baseline": "unknown"} {
		kinds := map[string]func(context.Context) (metadata.MD, error){
			"unary": func(ctx context.Context) (metadata.MD, error) {
				var before, after metadata.MD
				out, err := client.UnaryCall(ctx, &grpc_testing.SimpleRequest{Payload: payload("x")}, grpc.Header(&before), grpc.Trailer(&after))
				if err == nil && (string(out.GetPayload().GetBody()) != "x" || fmt.Sprint(before["side"]) != "["+side+"]") {
					err = fmt.Errorf("%v with headers %v", out, before)
				}
				return after, err
			},
			"server stream": func(ctx context.Context) (metadata.MD, error) {
				s, err := client.StreamingOutputCall(ctx, &grpc_testing.StreamingOutputCallRequest{ResponseParameters: make([]*grpc_testing.ResponseParameters, 3)})
				if err != nil {
					return nil, err
				}
				n := 0
				for {
					if _, err := s.Recv(); errors.Is(err, io.EOF) {
						break
					} else if err != nil {
						return nil, err
					}
					n++
				}
				if n != 3 {
					err = fmt.Errorf("%d messages", n)
				}
				return s.Trailer(), err
			},
			"client stream": func(ctx context.Context) (metadata.MD, error) {
				s, err := client.StreamingInputCall(ctx)
				if err != nil {
					return nil, err
				}
				for range 3 {
					if err := s.Send(&grpc_testing.StreamingInputCallRequest{Payload: payload("four")}); err != nil {
						return nil, err
					}
				}
				out, err := s.CloseAndRecv()
				if err == nil && out.GetAggregatedPayloadSize() != 12 {
					err = fmt.Errorf("the server counted %v", out)
				}
				return s.Trailer(), err
			},
			"both": func(ctx context.Context) (metadata.MD, error) {
				s, err := client.FullDuplexCall(ctx)
				if err != nil {
					return nil, err
				}
				for range 3 {
					if err := converse(s, side); err != nil {
						return nil, err
					}
				}
				_ = s.CloseSend()
				if _, err := s.Recv(); !errors.Is(err, io.EOF) {
					return nil, fmt.Errorf("the end is %w", err)
				}
				return s.Trailer(), nil
			},
		}
		for kind, call := range kinds {
			after, err := call(keyed(t, k))
			if err != nil || fmt.Sprint(after["side-after"]) != "["+side+"]" {
				t.Errorf("%s, key %s: %v, trailers %v, want those of %s", kind, k, err, after, side)
			}
		}
	}
}

// converse sends a message and waits for its answer.
func converse(s grpc.BidiStreamingClient[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse], side string) error {
	if err := s.Send(&grpc_testing.StreamingOutputCallRequest{Payload: payload("?")}); err != nil {
		return err
	}
	out, err := s.Recv()
	if err == nil && string(out.GetPayload().GetBody()) != side+"?" {
		err = fmt.Errorf("got %s, want %s", out.GetPayload().GetBody(), side)
	}
	return err
}

// A client may hold many long streams on one connection: its server would let
// it.
func TestManyStreamsLiveOnOneConnection(t *testing.T) {
	_, client := callers(t)
	const many = 500
	for side, k := range map[string]string{"fork": "k1", "baseline": "unknown"} {
		var streams []grpc.BidiStreamingClient[grpc_testing.StreamingOutputCallRequest, grpc_testing.StreamingOutputCallResponse]
		ctx := keyed(t, k)
		for i := range many {
			s, err := client.FullDuplexCall(ctx)
			if err == nil {
				err = converse(s, side)
			}
			if err != nil {
				t.Fatalf("%s: stream %d, the others open: %v", side, i, err)
			}
			streams = append(streams, s)
		}
		for i, s := range streams { // all of them are open, and live
			if err := converse(s, side); err != nil {
				t.Fatalf("%s: stream %d of %d: %v", side, i, many, err)
			}
		}
		for _, s := range streams {
			if err := s.CloseSend(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Streams that their server does not read do not stop the others of their
// connection.
func TestStreamsThatStallDoNotStopTheOthers(t *testing.T) {
	_, client := callers(t)
	stalled, stop := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "baggage", "sd-routing-key=k1", "stall", "yes"))
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	block := make([]byte, 16<<10)
	for range 100 {
		s, err := client.StreamingInputCall(stalled)
		if err != nil {
			t.Fatal(err)
		}
		full := make(chan struct{})
		all.Go(func() {
			for i := range 64 { // 1 MiB
				if i == 4 {
					close(full)
				}
				if err := s.Send(&grpc_testing.StreamingInputCallRequest{Payload: &grpc_testing.Payload{Body: block}}); err != nil {
					return
				}
			}
		})
		<-full
	}
	for i := range 500 { // 8 MiB, while the others fill what windows there are
		if _, err := client.UnaryCall(keyed(t, "k1"), &grpc_testing.SimpleRequest{Payload: payload(string(block))}); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

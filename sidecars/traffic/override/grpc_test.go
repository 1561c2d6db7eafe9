package override_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"switchyard.dev/sidecars/traffic/override"
	"switchyard.dev/sidecars/traffic/override/policy"
)

// calls serves any method: it answers each message with its name and the message, and the method's status.
func calls(name string, header, trailer metadata.MD) *grpc.Server {
	return grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(s)
		if header != nil {
			_ = s.SetHeader(header)
		}
		s.SetTrailer(trailer)
		for {
			in := &wrapperspb.StringValue{}
			if err := s.RecvMsg(in); err != nil {
				break
			}
			if name == "override" && strings.HasPrefix(method, "/unimplemented/") {
				return status.Error(codes.Unimplemented, "not here")
			}
			if err := s.SendMsg(wrapperspb.String(name + ": " + in.GetValue())); err != nil {
				return err
			}
		}
		if name == "override" && strings.HasPrefix(method, "/late/") {
			return status.Error(codes.Unavailable, "later")
		}
		return nil
	}))
}

func grpcWorld(t *testing.T, header, trailer metadata.MD) (*world, *grpc.ClientConn) {
	w := newWorld(t, nil, nil)
	for l, s := range map[net.Listener]*grpc.Server{w.app: calls("app", nil, nil), w.first: calls("override", header, trailer)} {
		again, err := net.Listen("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(again) }()
		t.Cleanup(s.Stop)
	}
	conn, err := grpc.NewClient(w.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return w, conn
}

// unary calls a method, and returns what it answers with the headers.
func unary(t *testing.T, conn *grpc.ClientConn, method string) (string, metadata.MD) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, header := &wrapperspb.StringValue{}, metadata.MD{}
	if err := conn.Invoke(ctx, method, wrapperspb.String("hello"), out, grpc.Header(&header), grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	return out.GetValue(), header
}

func mark(h metadata.MD, name string) string {
	return strings.Join(h.Get(strings.ToLower(name)), ",")
}

func TestUnaryCalls(t *testing.T) {
	marked := metadata.Pairs("sd-override", "true")
	for name, c := range map[string]struct {
		header, trailer metadata.MD
		policy          policy.Policy
		method, by      string
	}{
		"marked at first":             {marked, nil, policy.Policy{}, "/s/m", "override"},
		"marked at its end":           {nil, marked, policy.Policy{}, "/s/m", "override"},
		"not marked":                  {nil, nil, policy.Policy{}, "/s/m", "app"},
		"not implemented, not marked": {nil, nil, policy.Policy{}, "/unimplemented/m", "app"},
		"by status":                   {nil, nil, policy.Policy{ByStatus: true}, "/s/m", "override"},
		"an excluded status":          {nil, nil, policy.Policy{ByStatus: true, Except: []int{12}}, "/unimplemented/m", "app"},
		"an excluded status at last":  {nil, nil, policy.Policy{ByStatus: true, Except: []int{14}}, "/late/m", "app"},
		"another status":              {nil, nil, policy.Policy{ByStatus: true, Except: []int{14}}, "/s/m", "override"},
	} {
		t.Run(name, func(t *testing.T) {
			w, conn := grpcWorld(t, c.header, c.trailer)
			w.settle(func(s *override.Settings) { s.Policy = c.policy })
			got, header := unary(t, conn, c.method)
			if got != c.by+": hello" {
				t.Errorf("%q", got)
			}
			if is := mark(header, policy.Header) == "true"; is != (c.by == "override") || mark(header, policy.AskedHeader) == "true" == is {
				t.Errorf("%v", header)
			}
		})
	}
}

// A call with a stream of messages goes to the application alone.
func TestStreamedCalls(t *testing.T) {
	w, conn := grpcWorld(t, metadata.Pairs("sd-override", "true"), nil)
	w.settle(func(s *override.Settings) { s.Stream = 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/s/m")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a", "b", "c"} {
		out := &wrapperspb.StringValue{}
		if err := s.SendMsg(wrapperspb.String(text)); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(out); err != nil || out.GetValue() != "app: "+text {
			t.Fatal(out, err)
		}
	}
	if h, err := s.Header(); err != nil || mark(h, policy.SkippedHeader) != "stream" {
		t.Error(h, err)
	}
}

package meshes

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/interop/grpc_testing"
	grpcmeta "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"switchyard.dev/tests/strays"
	"switchyard.dev/tests/world"
)

// grpcPort is that of each Service of the shop for calls of gRPC.
const grpcPort = 8082

// link is a server of a chain, for HTTP and for gRPC.
type link struct {
	grpc_testing.UnimplementedTestServiceServer
	name string
	// get and call ask the next one; the last has none.
	get, call strays.Ask
	// serves is called for each HTTP request with its baggage.
	serves func(baggage string)
}

// handler returns what answers on the one port of a link.
func (l *link) handler() http.Handler {
	calls := grpc.NewServer()
	grpc_testing.RegisterTestServiceServer(calls, l)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			calls.ServeHTTP(w, r)
			return
		}
		l.serves(r.Header.Get("Baggage"))
		chain, err := l.chain(r.Context(), l.get, r.Header.Get("Baggage"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, chain) // the caller sees that it is cut off
	})
}

// UnaryCall answers with the chain in place of a server's ID.
func (l *link) UnaryCall(ctx context.Context, _ *grpc_testing.SimpleRequest) (*grpc_testing.SimpleResponse, error) {
	chain, err := l.chain(ctx, l.call, strings.Join(grpcmeta.ValueFromIncomingContext(ctx, "baggage"), ","))
	return &grpc_testing.SimpleResponse{ServerId: chain}, err
}

func (l *link) chain(ctx context.Context, next strays.Ask, baggage string) (string, error) {
	if next == nil {
		return l.name, nil
	}
	rest, err := next(ctx, baggage)
	if err != nil {
		return "", fmt.Errorf("%s: %w", l.name, err)
	}
	return l.name + " > " + rest, nil
}

// serviceHost is what a Service is called in the mesh.
func serviceHost(name string) string { return name + "." + shopName }

// ask returns how the proxy at an IP address is asked for a host, by HTTP at one port and by gRPC
// at another. It waits for a machine that stands still for a while: what is measured is who
// answers, not when.
func (s *shop) ask(ip net.IP, host string, port, grpcPort int) (get, call strays.Ask) {
	s.Helper()
	client := Client(ip)
	client.Timeout = world.Patience
	conn, err := grpc.NewClient("passthrough:///"+net.JoinHostPort(host, strconv.Itoa(grpcPort)), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return client.Transport.(*http.Transport).DialContext(ctx, "tcp", address)
		}))
	s.Must(err)
	s.Cleanup(func() { _ = conn.Close() })
	service := grpc_testing.NewTestServiceClient(conn)
	return strays.Get(client, "http://"+net.JoinHostPort(host, strconv.Itoa(port))), func(ctx context.Context, baggage string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, world.Patience)
		defer cancel()
		if baggage != "" {
			ctx = grpcmeta.AppendToOutgoingContext(ctx, "baggage", baggage)
		}
		answer, err := service.UnaryCall(ctx, &grpc_testing.SimpleRequest{})
		if status.Code(err) == codes.Unavailable {
			err = fmt.Errorf("status 503: %w", err) // as Envoy has it
		}
		return answer.GetServerId(), err
	}
}

package keeper_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
	"switchyard.dev/xds/xdstest"
)

// newestVersion is the version of the customer's routes in a table.
func newestVersion(t table.Table) (string, error) {
	resources, err := translate.Resources(t, customer)
	if err != nil {
		return "", err
	}
	return resources[0].Version, nil
}

// echo is an application's answer to a request: its name, and the request that it received.
type echo struct {
	Side, Proto, Method, Path, Host string
	Header                          http.Header
	Body                            string
}

// answer is what a client got.
type answer struct {
	Status int
	Header http.Header
	Body   string
	// Close: the answer ends its connection.
	Close bool
	echo
}

// serveHTTP answers HTTP/1.1 and HTTP/2 without TLS on a listener.
func (r *rig) serveHTTP(l net.Listener, side string) {
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols:         protocols,
		ReadHeaderTimeout: patience,
		MaxHeaderBytes:    1 << 20,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			body, err := io.ReadAll(q.Body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.Header().Set("Server", "the application")
			_ = json.NewEncoder(w).Encode(echo{
				Side: side, Proto: q.Proto, Method: q.Method, Path: q.URL.RequestURI(), Host: q.Host, Header: q.Header, Body: string(body),
			})
		}),
	}
	go func() { _ = server.Serve(l) }()
	r.t.Cleanup(func() { _ = server.Close() })
}

// serveGRPC answers health checks: its one service is called side.
func (r *rig) serveGRPC(l net.Listener, side string) {
	checks := health.NewServer()
	checks.SetServingStatus(side, healthpb.HealthCheckResponse_SERVING)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, checks)
	go func() { _ = server.Serve(l) }()
	r.t.Cleanup(server.Stop)
}

// get sends a request to a port of the pod with header lines, and returns the
// answer.
func (r *rig) get(port int, lines ...[2]string) (answer, error) {
	return r.over(http.DefaultTransport, port, lines...)
}

// http2Only speaks HTTP/2 without TLS, as one who knows.
func http2Only() *http.Transport {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: protocols}
}

// over is get by some transport.
func (r *rig) over(transport http.RoundTripper, port int, lines ...[2]string) (answer, error) {
	request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("http://%s:%d/some//path/../x?q=%%2F", r.address, port), http.NoBody)
	if err != nil {
		return answer{}, err
	}
	for _, line := range lines {
		request.Header.Add(line[0], line[1])
	}
	return do(transport, request)
}

func do(transport http.RoundTripper, request *http.Request) (answer, error) {
	response, err := (&http.Client{Transport: transport, Timeout: patience}).Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	got := answer{Status: response.StatusCode, Header: response.Header, Body: string(body), Close: response.Close}
	if strings.HasPrefix(got.Body, "{") {
		if err := json.Unmarshal(body, &got.echo); err != nil {
			return answer{}, err
		}
	}
	return got, nil
}

// key is a header line with a routing key.
func key(k string) [2]string { return [2]string{"baggage", "user=alice,sd-routing-key=" + k} }

// expect sends a request and fails unless side answers.
func (r *rig) expect(side string, port int, lines ...[2]string) answer {
	r.t.Helper()
	got, err := r.get(port, lines...)
	if err != nil {
		r.t.Fatal(err)
	}
	if got.Status != http.StatusOK || got.Side != side {
		r.t.Fatalf("%v: served by %q with %d, want %s; %s", lines, got.Side, got.Status, side, got.Body)
	}
	return got
}

// sandbox is a fork of the customer for a key, at an address.
func sandbox(k, address string, port uint32) xdstest.Fork {
	return xdstest.Fork{
		Baseline: customer, Key: k, Sandbox: "sb-" + strings.ToLower(k), Port: port, Destination: netip.MustParseAddrPort(address),
	}
}

// check asks a gRPC application through the pod whether it is the side, once,
// and then for the first message of a stream.
func (r *rig) check(port int, side, k string) error {
	conn, err := grpc.NewClient(fmt.Sprintf("%s:%d", r.address, port), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if k != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "baggage", "sd-routing-key="+k)
	}
	client, request := healthpb.NewHealthClient(conn), &healthpb.HealthCheckRequest{Service: side}
	if _, err := client.Check(ctx, request); err != nil {
		return err
	}
	stream, err := client.Watch(ctx, request)
	if err != nil {
		return err
	}
	first, err := stream.Recv()
	if err == nil && first.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		err = fmt.Errorf("the stream says %v", first.GetStatus())
	}
	return err
}

// deadline bounds reads and writes on a plain connection.
func deadline(c net.Conn) net.Conn {
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

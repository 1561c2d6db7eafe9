package main

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"switchyard.dev/routeserver/table"
	"switchyard.dev/routeserver/view"
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/xds/delta"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/translate"
)

// switchyard is the xDS server of the route server, as it is, except for authentication: a token
// is its own identity.
type switchyard struct {
	server  *serve.Server
	receipt *receipt
	secure  credentials.TransportCredentials // nil: plain
}

func newOurs(v *view.View, r *receipt, secure credentials.TransportCredentials) (*switchyard, error) {
	sessions, err := serve.FromView(serve.ViewConfig{View: v, Identify: identify})
	if err != nil {
		return nil, err
	}
	server, err := serve.New(serve.Config{Sessions: receipted{sessions, r}})
	return &switchyard{server, r, secure}, err
}

func identify(_ context.Context, token string) (serve.Peer, error) {
	pod, i, err := identified(token)
	if err != nil {
		return serve.Peer{}, status.Error(codes.Unauthenticated, err.Error())
	}
	name, w := strconv.Itoa(pod), frame.Shop(0).Workload(i)
	return serve.Peer{Workload: w, Namespace: w.Namespace, Pod: "pod-" + name, UID: "uid-" + name}, nil
}

func (s *switchyard) serve(l net.Listener) error {
	g := grpc.NewServer(append(serve.ServerOptions(), grpc.Creds(s.secure), grpc.StreamInterceptor(s.receipt.overhear))...)
	s.server.Register(g)
	return g.Serve(l)
}

func (s *switchyard) due(_ context.Context, t table.Table) (map[string]string, error) {
	due := map[string]string{}
	for i := range s.receipt.load.Workloads {
		routes, err := translate.Translate(t, s.receipt.load.shop().Workload(i))
		if err != nil {
			return nil, err
		}
		whole, err := routes.Whole()
		if err != nil {
			return nil, err
		}
		for _, r := range append(routes.Parts(), routes.Head(), whole) {
			due[r.Name] = r.Version
		}
	}
	return due, nil
}

// receipted notes when the server has read an acknowledgement, and reads the server's own
// convergence receipt.
type receipted struct {
	serve.Sessions
	receipt *receipt
}

// Open is serve.Sessions'.
func (o receipted) Open(ctx context.Context, token string) (serve.Session, error) {
	session, err := o.Sessions.Open(ctx, token)
	if err != nil {
		return session, err
	}
	if one, ok := ctx.Value(overheardKey{}).(*overheard); ok {
		one.session = session
		one.pod, _, err = identified(token)
	}
	return session, err
}

// overheard is a stream of which the measurement sees each message go by.
type overheard struct {
	grpc.ServerStream
	ctx     context.Context
	receipt *receipt
	session serve.Session
	pod     int

	mu sync.Mutex
	// nonce is that of the last response, and version the one of the whole that it
	// brings.
	nonce, version string
}

type overheardKey struct{}

// overhear is a grpc.StreamServerInterceptor.
func (r *receipt) overhear(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	one := &overheard{ServerStream: stream, receipt: r}
	one.ctx = context.WithValue(stream.Context(), overheardKey{}, one)
	return handle(server, one)
}

// Context is grpc.ServerStream's.
func (o *overheard) Context() context.Context { return o.ctx }

// SendMsg is grpc.ServerStream's.
func (o *overheard) SendMsg(m any) error {
	nonce, version := sentIn(m)
	o.mu.Lock()
	o.nonce = nonce
	if version != "" {
		o.version = version
	}
	o.mu.Unlock()
	return o.ServerStream.SendMsg(m)
}

// RecvMsg is grpc.ServerStream's.
func (o *overheard) RecvMsg(m any) error {
	if err := o.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	request := m.(*discoveryv3.DeltaDiscoveryRequest)
	o.mu.Lock()
	acknowledged := request.GetResponseNonce() != "" && request.GetResponseNonce() == o.nonce && request.GetErrorDetail() == nil
	version := o.version
	o.mu.Unlock()
	if acknowledged {
		if _, pos := o.session.Reached(version); pos.Seq > 0 {
			o.receipt.acknowledged(o.pod, pos.Seq)
		}
	}
	return nil
}

// sentIn returns the nonce of a response, and the version of all routes that it
// brings: that of the head, or of the whole.
func sentIn(m any) (nonce, version string) {
	switch r := m.(type) {
	case *delta.Response:
		for _, one := range r.Resources {
			if one.Type == translate.RouteType || strings.HasSuffix(one.Name, "/head") {
				version = one.Version
			}
		}
		return r.Nonce, version
	case *discoveryv3.DeltaDiscoveryResponse:
		for _, one := range r.GetResources() {
			version = one.GetVersion()
		}
		return r.GetNonce(), version
	}
	return "", ""
}

package manager_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	routesserver "switchyard.dev/routeserver/server"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/conformance/served"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tests/world"
	"switchyard.dev/xds/serve"
	"switchyard.dev/xds/xdstest"
)

// routeServer is one that follows the log of a cluster, with xDS. Its proxies show
// tokens of the form namespace/pod@Deployment, which real ones have from the API
// server.
type routeServer struct {
	t       *testing.T
	address string
	xds     *grpc.ClientConn
	stop    func()
}

func identify(_ context.Context, token string) (serve.Peer, error) {
	pod, deployment, ok := strings.Cut(token, "@")
	namespace, name, also := strings.Cut(pod, "/")
	if !ok || !also {
		return serve.Peer{}, status.Error(codes.Unauthenticated, "unknown token")
	}
	w := table.Workload{Kind: "Deployment", Namespace: namespace, Name: deployment}
	return serve.Peer{Workload: w, Namespace: namespace, Pod: name, UID: "uid-" + name}, nil
}

// routes runs a route server until the test ends or it is stopped.
func (c *cluster) routes(t *testing.T) *routeServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var there sidecar.Connected
	main, stop := served.Run(t, routesserver.Config{
		Log: c.log, Sidecars: &there, Logger: world.Quiet, Parts: []routesserver.Part{there.Serve(listener, identify)},
	})
	return &routeServer{t: t, address: main.GRPCAddress(), xds: xdstest.Dial(t, "passthrough:///"+listener.Addr().String()), stop: stop}
}

// proxy connects the sidecar of a pod of a Deployment.
func (r *routeServer) proxy(namespace, pod, deployment string) *sidecar.Client {
	r.t.Helper()
	w := table.Workload{Kind: "Deployment", Namespace: namespace, Name: deployment}
	c, err := sidecar.Open(r.t.Context(), r.xds, namespace+"/"+pod+"@"+deployment, w)
	if err != nil {
		r.t.Fatal(err)
	}
	go func() { _ = c.Run() }() // until the stream ends
	return c
}

package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"switchyard.dev/controlplane-link/registry"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
)

// Agent is the session with a cluster's agent.
type Agent struct {
	// Cluster, Epoch and Instance are as in the registry; Hello is the agent's, without its token.
	Cluster  registry.Cluster
	Epoch    uint64
	Instance string
	Hello    *linkv1.Hello
	// Since is when the session began.
	Since time.Time

	token   string // its ID
	session *carrier.Session
	taken   sync.Once // superseded was called
}

// Done is closed once the session has ended.
func (a *Agent) Done() <-chan struct{} { return a.session.Done() }

// Service opens a connection to a Service, a workload or a pod of the cluster, by name, for a
// caller. A refusal is a *carrier.RefusedError. ctx bounds the request, not the connection.
func (a *Agent) Service(ctx context.Context, caller *linkv1.Caller, host string, port uint16) (net.Conn, error) {
	return a.session.Open(ctx, &linkv1.Open{Caller: caller, To: &linkv1.Open_Service{Service: &tunnelv1.Address{Host: host, Port: uint32(port)}}})
}

// KubernetesAPI opens a connection to the cluster's API for a caller, which takes HTTP/1.1 without
// TLS.
func (a *Agent) KubernetesAPI(ctx context.Context, caller *linkv1.Caller) (net.Conn, error) {
	return a.session.Open(ctx, &linkv1.Open{Caller: caller, To: &linkv1.Open_KubernetesApi{KubernetesApi: &linkv1.KubernetesAPI{}}})
}

// Transport returns a transport for requests of a caller to the cluster's API, http://kubernetes.
// Each caller needs one of its own: the agent identifies the caller of a connection, not of a
// request.
func (a *Agent) Transport(caller *linkv1.Caller) *http.Transport {
	return &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return a.KubernetesAPI(ctx, caller) },
		MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, DisableCompression: true,
	}
}

// end ends the session for a reason; comeBack: the agent should try again.
func (a *Agent) end(reason tunnelv1.Reason, message string, comeBack bool) {
	a.session.Close(&tunnelv1.Leave{Why: &tunnelv1.Refused{Reason: reason, Message: message}, ComeBack: comeBack})
}

// revoked ends the session because its token was revoked.
func (a *Agent) revoked() {
	a.end(tunnelv1.Reason_REASON_UNAUTHENTICATED, "The cluster token was revoked. Create a new one and set controlPlane.clusterToken.", true)
}

// refuse refuses all connections that the agent requests, until the session or ctx ends: the protocol
// has none.
func (a *Agent) refuse(ctx context.Context) {
	for {
		in, err := a.session.Accept(ctx)
		if err != nil {
			return
		}
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "The control plane takes no connections from agents."})
	}
}

// ErrNoAgent is the error of a cluster without a session.
var ErrNoAgent = errors.New("the cluster's agent is not connected to the control plane: check Deployment agent of the cluster")

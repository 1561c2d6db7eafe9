package server

import (
	"errors"
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

// end ends the session for a reason; comeBack: the agent should try again.
func (a *Agent) end(reason tunnelv1.Reason, message string, comeBack bool) {
	a.session.Close(&tunnelv1.Leave{Why: &tunnelv1.Refused{Reason: reason, Message: message}, ComeBack: comeBack})
}

// revoked ends the session because its token was revoked.
func (a *Agent) revoked() {
	a.end(tunnelv1.Reason_REASON_UNAUTHENTICATED, "The cluster token was revoked. Create a new one and set controlPlane.clusterToken.", true)
}

// ErrNoAgent is the error of a cluster without a session.
var ErrNoAgent = errors.New("the cluster's agent is not connected to the control plane: check Deployment agent of the cluster")

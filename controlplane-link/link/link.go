// Package link is the session between the agent of a cluster and its control plane
// (protos/link/v1/link.proto), on tunnels/carrier: its parameters, and the agent's side, which
// keeps one session. controlplane-link/server is the other side.
//
// The agent sends nothing, above all no token, before the server has negotiated Protocol and has
// shown a certificate of the configured authority for the name that the agent dialled.
//
// The server numbers the sessions of a cluster (controlplane-link/admission), so one agent has
// the session at a time: one that lost it to a newer agent is refused while that has it.
package link

import (
	"cmp"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tunnels/attempts"
	"switchyard.dev/tunnels/carrier"
)

// Protocol is the name of the protocol that both ends negotiate within TLS (ALPN).
const Protocol = "switchyard-link/1"

// Settings returns the parameters of the session, of either end.
func Settings() carrier.Settings {
	return carrier.Settings{
		Protocol: Protocol,
		Limits:   carrier.Limits{Streams: 4096, Pending: 1024},
		Open:     func() proto.Message { return &linkv1.Open{} },
	}
}

// Policy returns the pauses of an agent: at most 1 s in the first ten minutes of an outage, then
// at most 30 s, each at random from 0.
func Policy() attempts.Policy {
	return attempts.Policy{
		Shortest: 100 * time.Millisecond, Longest: 30 * time.Second, Brisk: time.Second, Fresh: 10 * time.Minute,
		Patience: attempts.Endless, MaxGap: 10 * time.Second, FullJitter: true,
	}
}

// RefusedError is the server's refusal of a session.
type RefusedError struct {
	Refused *linkv1.Refused
}

// Error implements error.
func (e *RefusedError) Error() string {
	return cmp.Or(e.Refused.GetMessage(), "refused: "+e.Refused.GetReason().String())
}

var (
	// ErrNoToken is the error of an attempt without a cluster token.
	ErrNoToken = errors.New("there is no cluster token: set controlPlane.clusterToken to connect this cluster to a control plane")
	// ErrNoAuthority is part of the error of an attempt for which no server is trusted.
	ErrNoAuthority = errors.New("no authority is configured, so no server is trusted: set controlPlane.tunnelAddr and controlPlane.ca to those of the control plane")
	// ErrProtocol is the error of a server that does not negotiate Protocol.
	ErrProtocol = errors.New("the server does not speak the protocol of this operator (" + Protocol + "), so nothing was sent to it")
)

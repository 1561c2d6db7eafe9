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
	"fmt"
	"strings"
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

// Kind is the kind of a State.
type Kind int

// The kinds.
const (
	// Down: there is no session, and an attempt is under way or due.
	Down Kind = iota
	// Up: there is a session.
	Up
	// Idle: there is no token.
	Idle
	// Superseded: a newer agent of this cluster has the session.
	Superseded
	// Foreign: the address is the published one, and the server there is of another product, or no
	// server is trusted.
	Foreign
)

// String names the kind as the metric does.
func (k Kind) String() string {
	return [...]string{"down", "up", "idle", "superseded", "foreign"}[k]
}

// Kinds are all kinds.
var Kinds = []Kind{Down, Up, Idle, Superseded, Foreign}

// State is the state of an agent's session.
type State struct {
	Kind Kind
	// Since is when the kind last changed, or the agent started.
	Since time.Time
	// Known: the agent was in another state than Down. One that was not is not ready, so that a
	// Deployment keeps the former agent until this one is connected.
	Known bool
	// Err is why there is no session; nil while none was attempted.
	Err error
	// Welcome is that of the session.
	Welcome *linkv1.Welcome
}

const (
	// downReady is how long an agent that has lost its session is ready.
	downReady = 30 * time.Second
	// attemptWithin bounds an attempt.
	attemptWithin = 15 * time.Second
	// foreignAfter is the pause between attempts at the published address.
	foreignAfter = 10 * time.Minute
	// tokenAfter is the pause between two reads of a token that is missing.
	tokenAfter = 5 * time.Second
)

// Ready reports whether the agent is ready, and why or why not, as a sentence.
func (s State) Ready(now time.Time) (bool, string) {
	switch s.Kind {
	case Up:
		return true, fmt.Sprintf("Connected to the control plane as cluster %q, session %d.", s.Welcome.GetCluster(), s.Welcome.GetEpoch())
	case Down:
		why := "no attempt has ended yet"
		if s.Err != nil {
			why = s.Err.Error()
		}
		return s.Known && now.Sub(s.Since) < downReady, fmt.Sprintf("Not connected to the control plane: %s.", strings.TrimRight(why, "."))
	}
	return true, fmt.Sprintf("Not connected to a control plane: %s.", strings.TrimRight(s.Err.Error(), "."))
}

// after returns the state after a failed attempt, and how long to wait at least before the next; 0:
// as the policy decides. published: the address is the published default, which belongs to
// another product.
func after(s State, now time.Time, err error, published bool) (State, time.Duration) {
	kind, wait := Down, time.Duration(0)
	var refused *RefusedError
	switch {
	case errors.Is(err, ErrNoToken):
		kind, wait = Idle, tokenAfter
	case errors.As(err, &refused):
		if refused.Refused.GetReason() == linkv1.Reason_REASON_SUPERSEDED {
			kind = Superseded
		}
		wait = min(max(refused.Refused.GetRetryAfter().AsDuration(), 0), foreignAfter)
	case published && (errors.Is(err, ErrProtocol) || errors.Is(err, ErrNoAuthority)):
		kind, wait = Foreign, foreignAfter
	}
	if kind != s.Kind {
		s.Since = now
	}
	return State{Kind: kind, Since: s.Since, Err: err, Known: s.Known || kind != Down}, wait
}

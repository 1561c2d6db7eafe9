// Package admission decides which agent has the session of a cluster. It is pure: it takes the
// cluster's entry in the registry and a Hello, and returns the entry that replaces it, or why
// there is no session. Callers write the entry by compare-and-swap, and decide again where another
// replica was faster.
package admission

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	linkv1 "switchyard.dev/protos/gen/link/v1"
)

// Version is the version of the protocol, for Hello.
const Version = 1

// Entry is the registry's entry of one cluster.
type Entry struct {
	// Epoch is the number of the newest session. It only grows.
	Epoch uint64
	// Instance is the agent that has the session, and Replica the server's replica where it ends.
	Instance, Replica string
	// Until is when the session is considered lost, unless its replica renews it, or has ended.
	Until time.Time
	// Superseded are the agents that lost the session to Instance or to one before it, the last
	// one last.
	Superseded []string
}

const (
	// maxSuperseded bounds Entry.Superseded: an upgrade has one, a Deployment in a crash loop more.
	maxSuperseded = 16
	// supersededAfter is when a superseded agent may ask again.
	supersededAfter = 30 * time.Second
)

// Live reports whether the entry has a session.
func (e Entry) Live(now time.Time) bool { return now.Before(e.Until) }

// Admit returns the entry with a new session for an agent, which ends at replica and lasts for
// lease, or the refusal of an agent that lost the session to a newer one while another has it. A registry
// that was restarted has forgotten that: the agent states it.
func (e Entry) Admit(h *linkv1.Hello, replica string, now time.Time, lease time.Duration) (Entry, *linkv1.Refused) {
	instance := h.GetInstance()
	if e.Live(now) && e.Instance != instance && (h.GetSuperseded() || slices.Contains(e.Superseded, instance)) {
		return e, Refuse(linkv1.Reason_REASON_SUPERSEDED, supersededAfter,
			"Another agent of this cluster has the session, epoch %d, and is newer. This one gets it when that has ended; if both should not run, scale Deployment agent to one replica.", e.Epoch)
	}
	next := Entry{Epoch: e.Epoch + 1, Instance: instance, Replica: replica, Until: now.Add(lease)}
	next.Superseded = slices.DeleteFunc(slices.Clone(e.Superseded), func(s string) bool { return s == instance })
	if e.Instance != "" && e.Instance != instance {
		next.Superseded = append(next.Superseded, e.Instance)
	}
	next.Superseded = next.Superseded[max(0, len(next.Superseded)-maxSuperseded):]
	return next, nil
}

// Renew returns the entry with a later end of the session of an epoch; false: another session has
// replaced it.
func (e Entry) Renew(epoch uint64, until time.Time) (Entry, bool) {
	if e.Epoch != epoch {
		return e, false
	}
	e.Until = until
	return e, true
}

// Equal reports whether two entries are the same.
func (e Entry) Equal(f Entry) bool {
	return e.Epoch == f.Epoch && e.Instance == f.Instance && e.Replica == f.Replica && e.Until.Equal(f.Until) && slices.Equal(e.Superseded, f.Superseded)
}

// Invalid returns the refusal of a Hello that is not valid; nil: it is.
func Invalid(h *linkv1.Hello) *linkv1.Refused {
	const most = 256
	switch {
	case h.GetVersion() != Version:
		return Refuse(linkv1.Reason_REASON_INVALID, 0, "This control plane speaks version %d of the protocol, the agent %d. Install an operator of the control plane's release.", Version, h.GetVersion())
	case h.GetToken() == "":
		return Refuse(linkv1.Reason_REASON_UNAUTHENTICATED, 0, "The agent has no cluster token. Set controlPlane.clusterToken.")
	case len(h.GetToken()) > most || len(h.GetOperatorVersion()) > most:
		return Refuse(linkv1.Reason_REASON_INVALID, 0, "The token or the version has more than %d bytes.", most)
	case h.GetClusterUid() == "" || len(h.GetClusterUid()) > most:
		return Refuse(linkv1.Reason_REASON_INVALID, 0, "The agent did not send the UID of namespace kube-system, or more than %d bytes.", most)
	case h.GetInstance() == "" || len(h.GetInstance()) > most:
		return Refuse(linkv1.Reason_REASON_INVALID, 0, "The agent's instance has no name, or one of more than %d bytes.", most)
	}
	return nil
}

// otherClusterAfter is when an agent with the token of another cluster may ask again: its token
// has to be replaced first.
const otherClusterAfter = time.Minute

// Bound returns the refusal of a cluster that shows the token of another one; nil: it is bound to
// this one. cluster is the name that the token is for.
func Bound(cluster, to, uid string) *linkv1.Refused {
	if to == uid {
		return nil
	}
	return Refuse(linkv1.Reason_REASON_OTHER_CLUSTER, otherClusterAfter,
		"The token of cluster %q is bound to the cluster with namespace kube-system of UID %s; this cluster has UID %s. Create a token for this cluster.", cluster, to, uid)
}

// unknownAfter is when an agent with an unknown token may ask again, unless its token changes.
const unknownAfter = 30 * time.Second

// Unknown returns the refusal of a token that is not known.
func Unknown() *linkv1.Refused {
	return Refuse(linkv1.Reason_REASON_UNAUTHENTICATED, unknownAfter, "The cluster token is not known or was revoked. Create a new one and set controlPlane.clusterToken.")
}

// Refuse returns a refusal. after is when to ask again; 0: as the agent decides.
func Refuse(reason linkv1.Reason, after time.Duration, format string, values ...any) *linkv1.Refused {
	r := &linkv1.Refused{Reason: reason, Message: fmt.Sprintf(format, values...)}
	if after > 0 {
		r.RetryAfter = durationpb.New(after)
	}
	return r
}

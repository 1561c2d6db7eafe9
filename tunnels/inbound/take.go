package inbound

import (
	"strings"
	"time"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/cluster"
)

// Hold routes connections on exactly these ports of an external workload to the workstation. It
// moves the tunnel from a session of the same user that began earlier (Owner.Began; a session that
// took the tunnel counts from then). A tunnel of another user, or of a later session of the same
// user, is refused with REASON_TAKEN while that session is connected, here or at another proxy, and
// for Config.Free after it is lost. A reconnection changes nothing about this: the session keeps its
// Began.
func (h *Holder) Hold(w cluster.Workload, ports []int32) *tunnelv1.Refused {
	return h.hold(w, ports, false)
}

// Take is Hold that moves the tunnel from any session. Call it only on the explicit request of the
// workstation's user.
func (h *Holder) Take(w cluster.Workload, ports []int32) *tunnelv1.Refused {
	return h.hold(w, ports, true)
}

// HeldBy returns the user that keeps this workstation from holding a tunnel, by another session, with
// its host if that is known; empty: there is none.
func (h *Holder) HeldBy(w cluster.Workload) string {
	h.table.mu.Lock()
	defer h.table.mu.Unlock()
	return h.table.occupant(w, h.owner)
}

// Elsewhere replaces the tunnels that live sessions hold at other proxies.
func (t *Table) Elsewhere(held []*tunnelv1.Held) {
	all := make(map[Key]*tunnelv1.Held, len(held))
	for _, one := range held {
		all[Key{one.GetNamespace(), one.GetName()}] = one
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.elsewhere = all
}

// occupant returns the user that keeps the tunnel of a workload from a session, by another session;
// empty: none. t.mu is held.
func (t *Table) occupant(w cluster.Workload, from Owner) string {
	key := Key{w.Namespace, w.Name}
	if have := t.tunnels[key]; have != nil && have.uid == w.UID && !t.free(have) && !from.succeeds(have.owner.User, have.owner.Session, have.order) {
		return have.owner.String()
	}
	if other := t.elsewhere[key]; other != nil && other.GetUid() == w.UID && !from.succeeds(other.GetUser(), other.GetSession(), other.GetOrder().AsTime()) {
		return other.GetBy()
	}
	return ""
}

// succeeds reports whether a tunnel of a session moves to this one unasked: it is the same session,
// or a later one of the same user.
func (o Owner) succeeds(user, session string, order time.Time) bool {
	return o.User == user && (o.Session == session || o.Began.After(order))
}

// free reports whether any user can have a tunnel. t.mu is held.
func (t *Table) free(have *tunnel) bool {
	return have.holder == nil && time.Since(have.lost) >= t.cfg.Free
}

// String returns the user, with the host of the workstation if it is known.
func (o Owner) String() string {
	if host := o.Labels["host"]; host != "" {
		return o.User + " at " + host
	}
	return o.User
}

// Described describes the holder of a tunnel to a user: as another session, if it is one of that user.
func Described(by, user string) string {
	if rest, own := strings.CutPrefix(by, user); own && (rest == "" || strings.HasPrefix(rest, " at ") || strings.HasPrefix(rest, ", ")) {
		return "another session of yours" + rest
	}
	return by
}

// occupied is the refusal of a tunnel that another session holds.
func occupied(key Key, by string) *tunnelv1.Refused {
	return refusal(tunnelv1.Reason_REASON_TAKEN,
		"SignadotExternalWorkload %s is held by %.253s. Wait until that session ends, or take the tunnel with switchyard connect --take SANDBOX.", key, by)
}

package holders

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
)

// Workload names an external workload, and which one of that name.
type Workload struct{ Namespace, Name, UID string }

// Proxy is the state of a tunnel proxy. Tunnels is shared and must not be modified.
type Proxy struct {
	// Pod is the name of its pod, and IP that pod's address, both as the cluster has them.
	Pod, IP string
	Life    Life
	// Tunnels are those of its last report.
	Tunnels []*tunnelv1.Tunnel
}

// Holder is the holder of a tunnel.
type Holder struct {
	// Pod and IP are those of the proxy.
	Pod, IP string
	// Gone: the proxy does not answer.
	Gone bool
	// free: it has not answered for so long that any user can have its tunnel.
	free bool
	// Tunnel is the tunnel in the proxy's last report.
	Tunnel *tunnelv1.Tunnel
}

// Connected reports whether the workstation can be reached.
func (h Holder) Connected() bool { return !h.Gone && h.Tunnel.GetConnected() }

// Elsewhere returns the report about the holder to other proxies; nil: any user can have the tunnel.
func (h Holder) Elsewhere() *tunnelv1.Held {
	if h.free || h.Tunnel.GetFree() {
		return nil
	}
	t := h.Tunnel
	return &tunnelv1.Held{Namespace: t.GetNamespace(), Name: t.GetName(), Uid: t.GetUid(), User: t.GetUser(), By: h.By(), Session: t.GetSession(), Order: timestamppb.New(order(t))}
}

// By returns the holder's user, the host of the workstation and the proxy, for messages.
func (h Holder) By() string {
	who := h.Tunnel.GetUser()
	if host := h.Tunnel.GetLabels()["host"]; host != "" {
		who += " at " + host
	}
	return strings.TrimSpace(who + ", through pod " + h.Pod)
}

// Same reports whether two holders are equal in all fields that are reported to others.
func (h Holder) Same(o Holder) bool {
	return h.Pod == o.Pod && h.IP == o.IP && h.Gone == o.Gone && SameTunnel(h.Tunnel, o.Tunnel)
}

// SameTunnel reports whether two reports of a tunnel are equal, except for the time of the
// workstation's last message.
func SameTunnel(a, b *tunnelv1.Tunnel) bool {
	return workloadOf(a) == workloadOf(b) && a.GetSession() == b.GetSession() && a.GetEpoch() == b.GetEpoch() &&
		a.GetSince().AsTime().Equal(b.GetSince().AsTime()) && a.GetUser() == b.GetUser() && a.GetConnected() == b.GetConnected() && a.GetTake() == b.GetTake() && a.GetFree() == b.GetFree() && order(a).Equal(order(b)) &&
		slices.EqualFunc(a.GetPorts(), b.GetPorts(), samePort) && maps.Equal(a.GetLabels(), b.GetLabels())
}

func samePort(a, b *tunnelv1.ProxyPort) bool {
	return a.GetBaseline() == b.GetBaseline() && a.GetProxy() == b.GetProxy()
}

// Judgement is the result of Judge.
type Judgement struct {
	// Held is the holder of the tunnel of each external workload.
	Held map[Workload]Holder
	// Taken has, by pod, the notifications for each proxy: the tunnels that it reports and does not
	// hold.
	Taken map[string][]*tunnelv1.Taken
	// Turns is the next time at which a proxy counts as lost, or its tunnels as free, without a report.
	// Zero: none.
	Turns time.Time
}

// candidate is a reported tunnel and its proxy.
type candidate struct {
	proxy  *Proxy
	tunnel *tunnelv1.Tunnel
}

// is reports whether two are the same connection of the same session.
func (c candidate) is(o candidate) bool {
	return c.proxy == o.proxy && c.tunnel.GetSession() == o.tunnel.GetSession() && c.tunnel.GetEpoch() == o.tunnel.GetEpoch()
}

// Judge decides which session holds each tunnel. A tunnel stays with the user that held it before and
// follows that user's sessions, until another user's session takes it or it is free. Without an earlier
// judgement, the user of the first session that had it holds it.
func Judge(proxies []Proxy, before Judgement, now time.Time) Judgement {
	j := Judgement{Held: map[Workload]Holder{}, Taken: map[string][]*tunnelv1.Taken{}}
	claims := map[Workload][]candidate{}
	for i := range proxies {
		p := &proxies[i]
		for _, turn := range []time.Time{p.Life.End(), p.Life.Free()} {
			if now.Before(turn) && (j.Turns.IsZero() || turn.Before(j.Turns)) {
				j.Turns = turn
			}
		}
		for _, t := range p.Tunnels {
			if w := workloadOf(t); w.Namespace != "" && w.Name != "" && w.UID != "" {
				claims[w] = append(claims[w], candidate{p, t})
			}
		}
	}
	for w, all := range claims {
		first := holding(all, before.Held[w], now)
		j.Held[w] = Holder{Pod: first.proxy.Pod, IP: first.proxy.IP, Gone: first.proxy.Life.Gone(now), free: first.free(now), Tunnel: first.tunnel}
		for _, c := range all {
			if !c.is(first) {
				j.Taken[c.proxy.Pod] = append(j.Taken[c.proxy.Pod], taken(c.tunnel, j.Held[w]))
			}
		}
	}
	for _, all := range j.Taken {
		slices.SortFunc(all, func(a, b *tunnelv1.Taken) int {
			return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()),
				strings.Compare(a.GetSession(), b.GetSession()), cmp.Compare(a.GetEpoch(), b.GetEpoch()))
		})
	}
	return j
}

// session identifies the session of a candidate: the names of two users' sessions may be equal.
type session struct{ user, name string }

// holding returns the candidate that holds a tunnel. There is at least one.
func holding(all []candidate, before Holder, now time.Time) candidate {
	sessions := bySession(all)
	holder, known := sessions[session{before.Tunnel.GetUser(), before.Tunnel.GetSession()}]
	for _, c := range slices.SortedFunc(maps.Values(sessions), later) {
		if !known || c.displaces(holder, now) {
			holder, known = c, true
		}
	}
	return holder
}

// bySession returns the connection of each session with the greatest epoch.
func bySession(all []candidate) map[session]candidate {
	sessions := map[session]candidate{}
	for _, c := range all {
		of := session{c.tunnel.GetUser(), c.tunnel.GetSession()}
		have, ok := sessions[of]
		if !ok || cmp.Or(cmp.Compare(c.tunnel.GetEpoch(), have.tunnel.GetEpoch()), later(c, have)) > 0 {
			sessions[of] = c
		}
	}
	return sessions
}

// displaces reports whether a session has a tunnel instead of its holder: because the holder is
// free and the session is not; because it is of the same user, and began or took it later; or
// because it is of another user, has it since a later time, and took it.
func (c candidate) displaces(holder candidate, now time.Time) bool {
	if holder.free(now) != c.free(now) {
		return holder.free(now)
	}
	if c.tunnel.GetUser() == holder.tunnel.GetUser() {
		if c.tunnel.GetOrder() == nil || holder.tunnel.GetOrder() == nil { // an earlier version of the proxy: compare what both have
			return later(c, holder) > 0
		}
		return cmp.Or(order(c.tunnel).Compare(order(holder.tunnel)), later(c, holder)) > 0
	}
	return later(c, holder) > 0 && (c.tunnel.GetTake() || c.free(now))
}

// order returns the order of a tunnel's claim among those of its user.
func order(t *tunnelv1.Tunnel) time.Time {
	if t.GetOrder() == nil { // an earlier version of the proxy
		return t.GetSince().AsTime()
	}
	return t.GetOrder().AsTime()
}

// free reports whether any user can have the tunnel.
func (c candidate) free(now time.Time) bool {
	return c.tunnel.GetFree() || !now.Before(c.proxy.Life.Free())
}

// later compares when two began; where that is the same, the order is any, and always the
// same one.
func later(a, b candidate) int {
	return cmp.Or(a.tunnel.GetSince().AsTime().Compare(b.tunnel.GetSince().AsTime()),
		strings.Compare(a.tunnel.GetSession(), b.tunnel.GetSession()), strings.Compare(a.proxy.Pod, b.proxy.Pod))
}

// taken reports the holder of a tunnel to one that does not hold it any more.
func taken(lost *tunnelv1.Tunnel, by Holder) *tunnelv1.Taken {
	return &tunnelv1.Taken{
		SameSession: lost.GetSession() == by.Tunnel.GetSession() && lost.GetUser() == by.Tunnel.GetUser(),
		Namespace:   lost.GetNamespace(), Name: lost.GetName(), Session: lost.GetSession(), Epoch: lost.GetEpoch(), By: by.By(),
	}
}

func workloadOf(t *tunnelv1.Tunnel) Workload {
	return Workload{t.GetNamespace(), t.GetName(), t.GetUid()}
}

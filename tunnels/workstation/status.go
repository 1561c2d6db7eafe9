package workstation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	crdv1 "switchyard.dev/protos/crd/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/workstation/consent"
	"switchyard.dev/tunnels/workstation/reconnect"
)

// Status is the status of a Workstation.
type Status struct {
	// Session and Epoch name the connection.
	Session string `json:"session"`
	Epoch   uint64 `json:"epoch"`
	// Connected reports whether there is a session, and Since since when that is so.
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	// User, Proxy and Operator are reported by the proxy: the user, the proxy's pod, its version.
	User     string `json:"user,omitempty"`
	Proxy    string `json:"proxy,omitempty"`
	Operator string `json:"operator,omitempty"`
	// Trouble is why there is no session; Unsure, why the list of workloads is unknown. Asks
	// reports whether the list was requested and has not arrived yet.
	Trouble string `json:"trouble,omitempty"`
	Unsure  string `json:"unsure,omitempty"`
	Asks    bool   `json:"asks,omitempty"`
	// Login reports whether there is no session because the cluster rejects the user's token.
	Login bool `json:"login,omitempty"`
	// Workloads are those of the user at this workstation.
	Workloads []WorkloadStatus `json:"workloads"`
	// Ways are listeners for connections into the cluster.
	Ways []Way `json:"ways,omitempty"`
	// Inside is the status of privileged access to the cluster; nil: there is none.
	Inside *Inside `json:"privileged,omitempty"`
	// Inbound and Outbound are the connections, without those of the Workstation to tunnel-api.
	Inbound  Connections `json:"inbound"`
	Outbound Connections `json:"outbound"`
}

// WorkloadStatus is the status of an external workload.
type WorkloadStatus struct {
	// Sandbox and Name are its names in the sandbox; Namespace and Object, the object.
	Sandbox   string `json:"sandbox"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Object    string `json:"object"`
	// Baseline is kind/namespace/name.
	Baseline   string `json:"baseline,omitempty"`
	RoutingKey string `json:"routingKey,omitempty"`
	// Open reports whether the proxy forwards requests here, and Message why not.
	Open    bool   `json:"open"`
	Message string `json:"message,omitempty"`
	// Settling reports whether it has been open for so short a time that the operator's Message
	// may be about the previous connection.
	Settling bool `json:"settling,omitempty"`
	// Allowed reports whether the user allows at least one of its addresses, and Holder is the
	// user that has its tunnel in another session.
	Allowed bool   `json:"allowed"`
	Holder  string `json:"holder,omitempty"`
	// Ports are the local addresses of ports of the baseline.
	Ports []PortStatus `json:"ports,omitempty"`
}

// PortStatus is the local address of a port of a baseline.
type PortStatus struct {
	Baseline int32  `json:"baseline"`
	Local    string `json:"local"`
	// Refused is why the address is not opened to the cluster; empty: it is.
	Refused string `json:"refused,omitempty"`
	// Trouble is why it took no connection when the last one came.
	Trouble string `json:"trouble,omitempty"`
}

// Way is a listener of this machine for connections into the cluster.
type Way struct {
	// Kind is socks5, http-proxy, or the scheme of a mapping; To its destination.
	Kind    string `json:"kind"`
	Address string `json:"address"`
	To      string `json:"to,omitempty"`
}

// Inside is the status of privileged access to names and addresses of a cluster.
type Inside struct {
	// Leads reports whether it is active; it waits for the first state of the cluster.
	Leads bool `json:"leads"`
	// UID is a user of this machine; all programs of that user have that access.
	UID uint32 `json:"uid"`
	// Redirect and DNS are the ports of this machine to which connections and queries are
	// redirected.
	Redirect string `json:"redirect"`
	DNS      string `json:"dns"`
	// Services is how many have names; Addresses how many single addresses are redirected, beside
	// Ranges.
	Services  int      `json:"services"`
	Addresses int      `json:"addresses"`
	Ranges    []string `json:"ranges,omitempty"`
	// PublicNamespaces have the names of public top-level domains: NAME.NAMESPACE of their
	// Services is resolved by the resolvers.
	PublicNamespaces []string `json:"publicNamespaces,omitempty"`
	// Resolvers resolve other names.
	Resolvers []string `json:"resolvers,omitempty"`
	// Trouble is the problem, if there is one.
	Trouble string `json:"trouble,omitempty"`
}

// Connections counts those of one direction.
type Connections struct {
	Active int64 `json:"active"`
	Total  int64 `json:"total"`
	Failed int64 `json:"failed"`
}

func (c *counts) read() Connections {
	return Connections{c.active.Load(), c.total.Load(), c.failed.Load()}
}

// Leads notes listeners for connections into the cluster, for Status.
func (w *Workstation) Leads(ways ...Way) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listens = append(w.listens, ways...)
}

// Reaches sets the status of privileged access.
func (w *Workstation) Reaches(now Inside) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inside = &now
	w.changed.Send()
}

// Status returns the status, and a channel that is closed at the next change.
func (w *Workstation) Status() (Status, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := Status{
		Session: w.cfg.Session, Epoch: w.machine.Epoch(), Connected: w.current != nil, Since: w.since,
		User: w.welcome.GetUser(), Proxy: w.welcome.GetProxy(), Operator: w.welcome.GetOperatorVersion(),
		Workloads: []WorkloadStatus{}, Ways: slices.Clone(w.listens), Inside: w.inside, Asks: w.asks,
		Inbound: w.inbound.read(), Outbound: w.outbound.read(),
	}
	if w.trouble != nil {
		s.Trouble, s.Login = w.trouble.Error(), isStranger(w.trouble)
	}
	if w.unsure != nil {
		s.Unsure = w.unsure.Error()
	}
	for _, one := range w.wanted {
		s.Workloads = append(s.Workloads, w.statusOf(one))
	}
	slices.SortFunc(s.Workloads, func(a, b WorkloadStatus) int {
		return cmp.Or(cmp.Compare(a.Sandbox, b.Sandbox), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Object, b.Object))
	})
	return s, w.changed.Next()
}

// settles is how long a tunnel has to be open before the operator's message about it counts.
const settles = 10 * time.Second

// unconfirmed returns the message of the operator about a workload that is open here. A message
// that no workstation is connected is outdated, and so is any message while the tunnel settles.
func unconfirmed(message string, settling bool) string {
	if settling || strings.HasPrefix(message, crdv1.NoWorkstation) {
		return "the operator has not confirmed the connection yet"
	}
	return message
}

// statusOf returns the status of a workload: as the proxy reports it, or else as the cluster
// does.
func (w *Workstation) statusOf(one Workload) WorkloadStatus {
	out := WorkloadStatus{
		Sandbox: one.Sandbox, Name: one.Name, Namespace: one.Namespace, Object: one.Tunnel.Name,
		Baseline: one.Baseline, RoutingKey: one.RoutingKey,
	}
	var refused []string
	for _, port := range slices.Sorted(maps.Keys(one.Locals)) {
		d := w.decide(one, one.Locals[port])
		out.Ports = append(out.Ports, PortStatus{Baseline: port, Local: one.Locals[port], Refused: d.Why, Trouble: w.down[one.Locals[port]]})
		out.Allowed = out.Allowed || d.Verdict == consent.Allowed
		if d.Why != "" && !slices.Contains(refused, d.Why) {
			refused = append(refused, d.Why)
		}
	}
	if !out.Allowed {
		out.Message = cmp.Or(strings.Join(refused, "; "), "the specification of the sandbox names no local address for it")
		return out
	}
	answer := w.machine.Answer(one.Tunnel)
	switch {
	case len(w.wanted) > reconnect.MaxTunnels && !w.machine.Wants(one.Tunnel):
		out.Message = fmt.Sprintf("it is one of more than %d external workloads, as many as a tunnel proxy takes of a workstation: connect with --sandbox or --machine", reconnect.MaxTunnels)
	case answer == nil:
		out.Message = "waiting for the tunnel proxy"
	case !answer.GetOpen():
		out.Message = cmp.Or(answer.GetRefused().GetMessage(), "the tunnel proxy has not opened it yet")
		if answer.GetRefused().GetReason() == tunnelv1.Reason_REASON_TAKEN {
			out.Holder = cmp.Or(answer.GetHolder(), "another session")
		}
	default:
		out.Open = true
		if !one.Connected {
			out.Settling = time.Since(w.openedAt[one.Tunnel]) < settles
			out.Message = unconfirmed(one.Message, out.Settling)
		}
	}
	return out
}

package workstation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"switchyard.dev/eventbus/wake"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/relay"
	"switchyard.dev/tunnels/workstation/consent"
	"switchyard.dev/tunnels/workstation/reconnect"
)

// Workload is an external workload that the user has at this workstation.
type Workload struct {
	// UID is that of the sandbox, and Own reports whether the user is its last author.
	UID string
	Own bool
	// Tunnel names the SignadotExternalWorkload.
	reconnect.Tunnel
	// Name is that of the member, Sandbox the sandbox, RoutingKey its key.
	Name, Sandbox, RoutingKey string
	// Baseline is kind/namespace/name.
	Baseline string
	// Locals maps ports of the baseline to addresses of this workstation, host:port.
	Locals map[int32]string
	// Take: the user asked to take its tunnel from another user.
	Take bool
	// Connected reports whether the cluster routes requests here, and Message why not.
	Connected bool
	Message   string
}

// Wanted watches the external workloads of the user.
type Wanted interface {
	// Watch calls tell with all of them, at first and after each change, until ctx ends or the
	// connection is lost, which is an error.
	Watch(ctx context.Context, tell func([]Workload)) error
}

// Follow serves the workloads that wanted returns, as they change, until ctx ends. While the list
// is unavailable, the last one is used.
func (w *Workstation) Follow(ctx context.Context, wanted Wanted) {
	const first, most = 200 * time.Millisecond, 5 * time.Second
	w.mu.Lock()
	w.asks = true
	w.mu.Unlock()
	for pause := first; ctx.Err() == nil; pause = min(2*pause, most) {
		told := false
		err := wanted.Watch(ctx, func(list []Workload) {
			pause, told = first, true
			w.want(ctx, list)
		})
		if ctx.Err() != nil {
			return
		}
		// After a list was received the first failure is not reported: the watch ends with its
		// session.
		if !told {
			w.mu.Lock()
			w.unsure = err
			w.changed.Send()
			w.mu.Unlock()
		}
		wake.Sleep(ctx, pause)
	}
}

// want replaces the list of workloads.
func (w *Workstation) want(ctx context.Context, list []Workload) {
	all := map[reconnect.Tunnel]Workload{}
	for _, one := range list {
		all[one.Tunnel] = one
	}
	w.mu.Lock()
	w.wanted, w.unsure, w.asks = all, nil, false
	open, take := w.opened()
	maps.DeleteFunc(w.down, func(address, _ string) bool {
		return !slices.ContainsFunc(list, func(one Workload) bool { return slices.Contains(slices.Collect(maps.Values(one.Locals)), address) })
	})
	w.mu.Unlock()
	w.declares(ctx, open, take)
}

// Reconsider asks Config.Consent again about all addresses.
func (w *Workstation) Reconsider(ctx context.Context) {
	w.mu.Lock()
	open, take := w.opened()
	w.mu.Unlock()
	w.declares(ctx, open, take)
}

// opened returns the tunnels of which at least one address is allowed, and those that are taken.
// The caller holds mu.
func (w *Workstation) opened() (open, take []reconnect.Tunnel) {
	for t, one := range w.wanted {
		for _, address := range one.Locals {
			if w.decide(one, address).Verdict != consent.Allowed {
				continue
			}
			if open = append(open, t); one.Take {
				take = append(take, t)
			}
			break
		}
	}
	return open, take
}

// declares passes the tunnels to the reconnect machine.
func (w *Workstation) declares(ctx context.Context, open, take []reconnect.Tunnel) {
	select {
	case w.events <- func(time.Time) reconnect.Step { return w.machine.Want(open, take...) }:
	case <-ctx.Done():
	}
}

// decide returns whether an address of a workload is opened.
func (w *Workstation) decide(one Workload, address string) consent.Decision {
	return w.cfg.Consent(consent.Request{UID: one.UID, Sandbox: one.Sandbox, Workload: one.Name, Address: address, Own: one.Own})
}

// used reports whether the cluster routes requests of a tunnel to a workstation, or may do so
// while that is unknown. The caller holds mu.
func (w *Workstation) used(t reconnect.Tunnel) bool { return w.unsure != nil || w.wanted[t].Connected }

// accept accepts the connections of a session.
func (l *loop) accept(s *carrier.Session) {
	for in := range s.Requests(l.Context) {
		go l.bring(in)
	}
}

// dialLocal is how long a local process may take to accept a connection.
const dialLocal = 5 * time.Second

// bring forwards a connection to its local process.
func (w *Workstation) bring(in *carrier.Incoming) {
	w.inbound.total.Add(1)
	w.inbound.active.Add(1)
	defer w.inbound.active.Add(-1)
	to, explicit, refused := w.local(in.Open)
	if address := to.Address; refused == nil {
		there, err := dialChecked(address, explicit)
		if err == nil {
			w.note(address, "")
			w.cfg.Log.Info("a connection from the cluster", "sandbox", to.Sandbox, "workload", to.Workload, "address", address, "from", to.From, "user", to.User)
			w.cfg.Opened(to)
			c, err := in.Accept()
			if err != nil {
				relay.Cut(there)
				return
			}
			relay.Pipe(relay.Of(c), relay.Of(there))
			return
		}
		refused = down(address, in.Open.GetInbound(), err)
		w.note(address, reason(err))
	}
	w.inbound.failed.Add(1)
	in.Refuse(refused)
}

// note records why a local address took no connection; empty: it took one.
func (w *Workstation) note(address, trouble string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down[address] == trouble {
		return
	}
	if w.down[address] = trouble; trouble == "" {
		delete(w.down, address)
	}
	w.changed.Send()
}

// local returns the local address of a connection, which the sandbox names and the user allows,
// and whether a flag names it.
func (w *Workstation) local(open *tunnelv1.Open) (to Opening, explicit bool, refused *tunnelv1.Refused) {
	in := open.GetInbound()
	if in == nil {
		return to, false, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "A workstation takes connections to its external workloads only."}
	}
	w.mu.Lock()
	workload, ok := w.wanted[reconnect.Tunnel{Namespace: in.GetNamespace(), Name: in.GetName()}]
	w.mu.Unlock()
	if !ok {
		return to, false, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_NOT_FOUND,
			Message: fmt.Sprintf("External workload %s/%s is not at this workstation.", in.GetNamespace(), in.GetName())}
	}
	address, ok := workload.Locals[in.GetBaselinePort()]
	if !ok {
		return to, false, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_NOT_FOUND,
			Message: fmt.Sprintf("External workload %s/%s does not forward port %d to the workstation.", in.GetNamespace(), in.GetName(), in.GetBaselinePort())}
	}
	d := w.decide(workload, address)
	if d.Verdict != consent.Allowed {
		w.cfg.Log.Warn("a connection from the cluster is refused", "sandbox", workload.Sandbox, "workload", workload.Name, "address", address, "from", in.GetFrom(), "user", in.GetUser(), "because", d.Why)
		return to, false, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_FORBIDDEN, Message: fmt.Sprintf(
			"The user of the workstation has not opened port %d of external workload %s/%s.", in.GetBaselinePort(), in.GetNamespace(), in.GetName())}
	}
	return Opening{Sandbox: workload.Sandbox, Workload: workload.Name, Address: address, From: in.GetFrom(), User: in.GetUser()}, d.Explicit, nil
}

// Opening is a connection of the cluster to a local address.
type Opening struct {
	Sandbox, Workload, Address string
	// From is the address of the pod that connects, as address:port, and User the user if the
	// connection came through the proxy; both as the proxy reports them.
	From, User string
}

// dialChecked connects to a local address, but only if the resolved address is permitted.
func dialChecked(address string, explicit bool) (net.Conn, error) {
	d := net.Dialer{Timeout: dialLocal, Control: func(_, to string, _ syscall.RawConn) error {
		resolved, err := netip.ParseAddrPort(to)
		if err != nil {
			return err
		}
		if problem := consent.Connectable(resolved.Addr(), explicit); problem != "" {
			return fmt.Errorf("%s %s", resolved.Addr(), problem)
		}
		return nil
	}}
	return d.Dial("tcp", address)
}

// down returns the refusal for a local process that does not answer.
func down(address string, in *tunnelv1.Inbound, err error) *tunnelv1.Refused {
	return &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNREACHABLE, Message: fmt.Sprintf(
		"Nothing accepts connections on %s of the workstation, the target of port %d of external workload %s/%s (%s). Start the local process, or change the mapping of the sandbox.",
		address, in.GetBaselinePort(), in.GetNamespace(), in.GetName(), reason(err))}
}

// reason describes why a local address took no connection.
func reason(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		return "no answer within " + dialLocal.String()
	}
	return strings.TrimPrefix(err.Error(), "dial tcp ")
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

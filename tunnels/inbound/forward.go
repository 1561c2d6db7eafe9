package inbound

import (
	"context"
	"fmt"
	"net"

	"switchyard.dev/eventbus/callers"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/relay"
)

// accept forwards the connections to one port until the port is closed.
func (t *Table) accept(of *tunnel, port int32, l net.Listener) {
	callers.Accept(t.ctx, l, t.cfg.Logger.With("workload", of.key.String()), &t.ended, func(conn net.Conn) { t.forward(of, port, conn) })
}

// forward passes one connection to the workstation, if there is one.
func (t *Table) forward(of *tunnel, port int32, conn net.Conn) {
	stream := relay.Of(conn)
	stop := context.AfterFunc(t.ctx, func() { relay.Cut(stream) })
	defer stop()
	holder, record := t.holderOf(of, port, conn)
	if holder == nil {
		relay.Cut(stream) // at once, and as an error
		return
	}
	defer t.sources.enter(of.key, record.Via, conn)()
	leave, err := t.pool.Enter(callers.Caller{Kind: callers.Pod, Name: of.key.String()})
	if err != nil {
		t.cfg.Logger.Warn("a connection to a workload was refused", "workload", of.key.String(), "from", record.From, "error", err)
		relay.Cut(stream)
		return
	}
	defer leave()
	ctx, cancel := context.WithTimeout(t.ctx, recordWithin)
	opened, err := t.cfg.Audit.Begin(ctx, record)
	cancel()
	if err != nil {
		t.cfg.Logger.Warn("a connection to a workload was refused, since it could not be recorded", "workload", of.key.String(), "from", record.From, "error", err)
		relay.Cut(stream)
		return
	}
	defer t.cfg.Counts.Begun(audit.Inbound)()
	ctx, cancel = context.WithTimeout(t.ctx, openWithin)
	far, err := holder.to.Connect(ctx, &tunnelv1.Inbound{Namespace: of.key.Namespace, Name: of.key.Name, BaselinePort: port, From: record.From, User: t.cfg.User(record.From)})
	cancel()
	if err != nil {
		relay.Cut(stream)
		opened.End(0, 0, fmt.Sprintf("the workstation did not take it: %v", err))
		return
	}
	r := relay.Pipe(stream, far)
	how := audit.Closed
	if r.Err != nil {
		how = r.Err.Error()
	}
	opened.End(r.Sent, r.Received, how)
}

// holderOf returns the holder of a tunnel, and the audit record of a connection to it.
func (t *Table) holderOf(of *tunnel, port int32, conn net.Conn) (*Holder, audit.Connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return of.holder, audit.Connection{
		Direction: audit.Inbound, Via: of.owner.Via, User: of.owner.User, Session: of.owner.Session,
		From: conn.RemoteAddr().String(), To: fmt.Sprintf("%s:%d", of.key, port), Sandbox: of.sandbox, Workload: of.key.String(),
	}
}

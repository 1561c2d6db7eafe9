package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
	"switchyard.dev/eventbus/wake"
	"switchyard.dev/tunnels/credential"
	"switchyard.dev/tunnels/inbound"
	"switchyard.dev/tunnels/outbound"
	"switchyard.dev/tunnels/socks"
	"switchyard.dev/tunnels/sshd"
)

// Main is a tunnel proxy.
type Main struct {
	cfg       Config
	listeners listeners
	counts    *counts
	gate      *outbound.Gate
	table     *inbound.Table
	sessions  *sessions
	socks     *socks.Server
	ssh       *sshd.Server
	// handshakes bounds clients that have not authenticated, perUser the sessions of each user.
	handshakes, perUser *callers.Pool
	ready, draining     atomic.Bool
	// drained is closed when the proxy begins to drain.
	drained chan struct{}
}

// listeners are the listeners of the proxy; nil: disabled.
type listeners struct{ socks, ssh, carrier, control, metrics *callers.Listener }

// all returns the listeners by name.
func (l *listeners) all() map[string]**callers.Listener {
	return map[string]**callers.Listener{"socks5": &l.socks, "ssh": &l.ssh, "carrier": &l.carrier, "control": &l.control, "metrics": &l.metrics}
}

// New opens the listeners. The caller calls Run or Close.
func New(cfg Config) (*Main, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Main{cfg: cfg.withDefaults(), drained: make(chan struct{}),
		handshakes: callers.NewPool("handshakes", callers.Bounds{Each: 128, Strangers: callers.AnyNumber, Rate: 100, Burst: 512}),
		perUser:    callers.NewPool("sessions", callers.Bounds{Each: 64, Pods: 4096}),
	}
	if err := m.wire(); err != nil {
		return nil, fmt.Errorf("tunnel proxy: %w", err)
	}
	if err := m.listen(); err != nil {
		return nil, errors.Join(fmt.Errorf("tunnel proxy: %w", err), m.Close())
	}
	return m, nil
}

// wire creates the parts.
func (m *Main) wire() (err error) {
	c := m.cfg
	if m.counts, err = newCounts(c.Metrics); err != nil {
		return err
	}
	m.sessions = newSessions(c.Grace)
	if m.gate, err = outbound.New(outbound.Config{Cluster: c.Cluster, Audit: c.Audit, Counts: m.counts, Resolver: c.Resolver, Logger: c.Logger}); err != nil {
		return err
	}
	if m.table, err = inbound.New(inbound.Config{Audit: c.Audit, Counts: m.counts, Host: c.WorkloadHost, Grace: c.Grace, Ports: c.Ports, User: m.gate.User, Logger: c.Logger}); err != nil {
		return err
	}
	check := func(user, password string) error { return credential.Check(c.Keys.SOCKS, user, password, time.Now()) }
	if m.socks, err = socks.New(socks.Config{Gate: m.gate, Check: check, Open: c.OpenSOCKS, OpenLoopback: c.OpenLoopback, Logger: c.Logger}); err != nil {
		return err
	}
	m.ssh, err = sshd.New(sshd.Config{Gate: m.gate, Table: m.table, Cluster: c.Cluster, Access: c.Access,
		Host: c.Keys.SSHHost, Authority: c.Keys.Authority, Recheck: c.Recheck, Clock: c.Clock, Logger: c.Logger})
	return err
}

// listen opens the listeners.
func (m *Main) listen() error {
	addresses := map[string]string{"socks5": m.cfg.SOCKSAddress, "ssh": m.cfg.SSHAddress, "carrier": m.cfg.CarrierAddress,
		"control": m.cfg.ControlAddress, "metrics": m.cfg.MetricsAddress}
	if m.cfg.DisableSSH {
		delete(addresses, "ssh")
	}
	if m.cfg.DisableCarrier {
		delete(addresses, "carrier")
	}
	all, err := callers.Listeners(addresses, m.cfg.MaxConnections, m.cfg.Metrics, "switchyard_tunnel_connections_closed_total", m.cfg.Logger)
	for name, place := range m.listeners.all() {
		*place = all[name]
	}
	return err
}

// Addresses returns the addresses of the listeners, as host:port, by name: socks5, ssh, carrier,
// control and metrics.
func (m *Main) Addresses() map[string]string {
	out := map[string]string{}
	for name, l := range m.listeners.all() {
		if *l != nil {
			out[name] = (*l).Addr().String()
		}
	}
	return out
}

// Close closes the listeners of a Main that is not run.
func (m *Main) Close() error {
	l := m.listeners
	return callers.Close(l.socks, l.ssh, l.carrier, l.control, l.metrics)
}

// Run serves until ctx ends and returns nil then, or until a part fails. Call it once.
func (m *Main) Run(ctx context.Context) error {
	// Open connections may continue for a moment after ctx has ended.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	all, failed := errgroup.WithContext(serving)
	all.Go(func() error { return m.cfg.TLS.Run(failed) })
	all.Go(func() error { return m.cfg.Cluster.Run(failed) })
	all.Go(func() error { return m.serveProbes(failed) })
	all.Go(func() error { return newControl(m).serve(failed) })
	var sessions sync.WaitGroup
	all.Go(func() error {
		if err := m.cfg.Cluster.Synced(failed); err != nil {
			if failed.Err() != nil {
				return nil
			}
			return err
		}
		m.serveAll(failed, &sessions)
		m.ready.Store(true)
		m.forget(failed)
		return nil
	})
	all.Go(func() error {
		defer stop()
		select {
		case <-ctx.Done():
		case <-failed.Done():
		}
		m.drain(failed)
		return nil
	})
	err := all.Wait()
	sessions.Wait()
	m.table.Close()
	_ = m.Close() // some are closed already
	return err
}

// forget removes tunnels without a workstation when their workloads are deleted, until ctx ends.
func (m *Main) forget(ctx context.Context) {
	for {
		changed := m.cfg.Cluster.Changed()
		m.table.Prune(func(key inbound.Key, uid string) bool {
			w, found := m.cfg.Cluster.Workload(key.Namespace, key.Name)
			return found && w.UID == uid
		})
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// serve serves a connection, which it closes, and calls known with the user once that is known;
// it is empty for a client without a user.
type serve func(ctx context.Context, conn net.Conn, known func(user string))

// serveAll begins to serve workstations, once the caches of cluster objects have synced.
func (m *Main) serveAll(ctx context.Context, all *sync.WaitGroup) {
	for _, one := range []struct {
		listener *callers.Listener
		serve    serve
	}{{m.listeners.socks, m.socks.Serve}, {m.listeners.ssh, m.ssh.Serve}, {m.listeners.carrier, m.serveCarrier}} {
		if one.listener != nil {
			all.Go(func() {
				callers.Accept(ctx, one.listener, m.cfg.Logger, all, func(conn net.Conn) {
					one.serve(ctx, conn, func(user string) { one.listener.IdentifyAs(conn.RemoteAddr().String(), user) })
				})
			})
		}
	}
}

// drain stops accepting workstations, asks the connected ones to move, and gives connections
// Config.Moment.
func (m *Main) drain(ctx context.Context) {
	m.draining.Store(true)
	m.sessions.drain()
	m.table.KeepMoved()
	close(m.drained)
	_ = callers.Close(m.listeners.socks, m.listeners.ssh, m.listeners.carrier) // no further client is accepted
	m.cfg.Logger.Info("the proxy is draining", "sessions", m.sessions.open(), "connections", m.counts.now.Load(), "moment", m.cfg.Moment)
	for end := time.Now().Add(m.cfg.Moment); (m.counts.now.Load() > 0 || m.sessions.open() > 0) && time.Now().Before(end); {
		if !wake.Sleep(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// serveProbes serves metrics and health.
func (m *Main) serveProbes(ctx context.Context) error {
	return callers.ServeProbes(ctx, m.listeners.metrics, scrapes.Mux(m.cfg.Metrics, func() string {
		switch {
		case m.draining.Load():
			return "the proxy is draining"
		case !m.ready.Load():
			return "the caches of cluster objects have not synced yet"
		}
		return ""
	}))
}

package inbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/wake"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/relay"
)

// Counts counts connections.
type Counts interface {
	// Begun counts a connection as open until ended is called.
	Begun(audit.Direction) (ended func())
}

// Config configures a Table.
type Config struct {
	// Audit and Counts are required.
	Audit  *audit.Log
	Counts Counts
	// Host is where ports are opened. Default: every address of the pod.
	Host string
	// Grace is for how long ports stay open without a workstation, and for how long the number of
	// a closed port is reserved. Default: 10 minutes.
	Grace time.Duration
	// Free is how long after its workstation is lost a tunnel stays reserved for its user.
	// Default: 5 seconds.
	Free time.Duration
	// Ports is a file with the numbers of the ports, for the next process at the same address.
	// Default: none.
	Ports string
	// User returns the user that connects from an address through this proxy; empty: unknown. It
	// only informs the workstation. Default: unknown.
	User func(from string) string
	// Logger logs changes of tunnels. Default: none.
	Logger *slog.Logger
}

const (
	// maxTunnels and maxPorts are limits of one proxy.
	maxTunnels, maxPorts = 4096, 8192
	// each is how many connections to one workload are open at once, most how many to all.
	each, most = 1024, 32768
	// openWithin is how long a workstation has to answer, recordWithin how long the audit has.
	openWithin, recordWithin = 15 * time.Second, 10 * time.Second
)

// Key names an external workload.
type Key struct{ Namespace, Name string }

// String returns the name with its namespace.
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Owner is the session that holds a tunnel.
type Owner struct {
	// User, Session and Epoch identify the session.
	User, Session string
	Epoch         uint64
	// Began is when the session began, and not its present connection. Default: when it joined.
	Began time.Time
	// Via is how the workstation is connected, as in audit.Connection.
	Via string
	// Labels describe the workstation to people.
	Labels map[string]string
}

// Workstation is a connection of a workstation.
type Workstation interface {
	// Connect requests a connection at the workstation.
	Connect(ctx context.Context, to *tunnelv1.Inbound) (relay.Stream, error)
	// Heard returns when the workstation was last heard.
	Heard() time.Time
	// NotifyLost reports that another session took a tunnel over; by describes that session. It does
	// not block.
	NotifyLost(key Key, by string)
}

// Table is the tunnels of a proxy. It is safe for concurrent use.
type Table struct {
	cfg     Config
	pool    *callers.Pool
	sources *sources
	// ended waits for the goroutines that accept and forward connections, which end with ctx.
	ended sync.WaitGroup
	ctx   context.Context
	stop  context.CancelFunc

	mu      sync.Mutex
	tunnels map[Key]*tunnel
	// elsewhere are tunnels that live sessions hold at other proxies.
	elsewhere map[Key]*tunnelv1.Held
	numbers   *numbers
	ports     int
	closed    bool
	lingers   bool // KeepMoved was called
	changed   wake.Signal
}

// tunnel is one external workload. The table's lock guards it.
type tunnel struct {
	key          Key
	uid, sandbox string
	ports        map[int32]net.Listener
	owner        Owner
	holder       *Holder // nil: the workstation is disconnected
	since, heard time.Time
	// moved is since when the holder's session has it at another proxy; zero: it does not.
	moved  time.Time
	forget *time.Timer
	// order is when the owner's session began, or took the tunnel: a later session of its user has a
	// greater one.
	order time.Time
	// take reports whether the owner took it from another user, and lost is when the
	// workstation was lost; freed notifies when the tunnel becomes free.
	take  bool
	lost  time.Time
	freed *time.Timer
}

// Holder is a workstation's connection, with the tunnels that it holds.
type Holder struct {
	table *Table
	owner Owner
	to    Workstation
	gone  bool // the table's lock guards it
}

// New returns a Table without tunnels.
func New(cfg Config) (*Table, error) {
	if cfg.Audit == nil || cfg.Counts == nil {
		return nil, errors.New("inbound: Audit and Counts are both needed")
	}
	cfg.Grace = cmp.Or(cfg.Grace, 10*time.Minute)
	if cfg.User == nil {
		cfg.User = func(string) string { return "" }
	}
	cfg.Free = cmp.Or(cfg.Free, 5*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	numbers, err := newNumbers(cfg.Ports, cfg.Grace, cfg.Logger)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Table{cfg: cfg, ctx: ctx, stop: stop, tunnels: map[Key]*tunnel{}, numbers: numbers, sources: newSources(),
		pool: callers.NewPool("connections", callers.Bounds{Each: each, Pods: most})}, nil
}

// Join returns a Holder for a workstation. The caller calls Disconnect once. A session that
// reconnects joins again, with the Began of its first connection.
func (t *Table) Join(owner Owner, to Workstation) *Holder {
	if owner.Began.IsZero() {
		owner.Began = time.Now()
	}
	return &Holder{table: t, owner: owner, to: to}
}

// hold implements Hold and Take.
func (h *Holder) hold(w cluster.Workload, ports []int32, take bool) *tunnelv1.Refused {
	t, key := h.table, Key{w.Namespace, w.Name}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return refusal(tunnelv1.Reason_REASON_DRAINING, "The proxy is draining: connect to another one.")
	}
	if h.gone { // while the API server was asked
		return refusal(tunnelv1.Reason_REASON_UNAVAILABLE, "The workstation's connection is over.")
	}
	if by := t.occupant(w, h.owner); by != "" && !take {
		return occupied(key, Described(by, h.owner.User))
	}
	have := t.tunnels[key]
	if have != nil && have.uid != w.UID {
		t.remove(have)
		have = nil
	}
	if have == nil {
		if len(t.tunnels) >= maxTunnels {
			return refusal(tunnelv1.Reason_REASON_EXHAUSTED, "The proxy has %d tunnels, the maximum: close some, or run another replica.", maxTunnels)
		}
		have = &tunnel{key: key, uid: w.UID, ports: map[int32]net.Listener{}}
		t.tunnels[key] = have
	}
	have.sandbox = w.Sandbox
	if have.holder != h {
		t.give(have, h, take)
	}
	if refused := t.open(have, ports); refused != nil {
		t.remove(have)
		t.changed.Send()
		return refused
	}
	return nil
}

// give makes h the holder of a tunnel. t.mu is held.
func (t *Table) give(to *tunnel, h *Holder, take bool) {
	to.stopTimers()
	to.take = take || to.take && to.owner.User == h.owner.User
	if other := to.holder; other != nil && (other.owner.User != h.owner.User || other.owner.Session != h.owner.Session) {
		t.cfg.Logger.Info("a tunnel is taken over", "workload", to.key.String(), "by", h.owner.User, "from", other.owner.User)
		other.to.NotifyLost(to.key, h.owner.String())
	}
	if to.owner.User != h.owner.User || to.owner.Session != h.owner.Session || to.since.IsZero() {
		to.since, to.order = time.Now(), h.owner.Began
	}
	if other := t.elsewhere[to.key]; other.GetUid() == to.uid && other.GetUser() == h.owner.User && other.GetSession() == h.owner.Session && other.GetOrder().AsTime().After(to.order) {
		to.order = other.GetOrder().AsTime() // the session took it there
	}
	if take {
		to.order = time.Now()
	}
	to.holder, to.owner, to.heard, to.moved = h, h.owner, time.Now(), time.Time{}
	t.cfg.Logger.Info("a tunnel is held", "workload", to.key.String(), "sandbox", to.sandbox, "user", h.owner.User, "session", h.owner.Session, "epoch", h.owner.Epoch, "via", h.owner.Via)
	t.changed.Send()
}

// open opens the ports of a tunnel, and closes others. t.mu is held.
func (t *Table) open(of *tunnel, ports []int32) *tunnelv1.Refused {
	changed := false
	for p, l := range of.ports {
		if !slices.Contains(ports, p) {
			_ = l.Close() // no connection is accepted there any more
			t.numbers.closed(number{of.uid, p})
			delete(of.ports, p)
			t.ports--
			changed = true
		}
	}
	for _, p := range ports {
		if of.ports[p] != nil {
			continue
		}
		if t.ports >= maxPorts {
			return refusal(tunnelv1.Reason_REASON_EXHAUSTED, "The proxy has %d ports, the maximum: close tunnels, or run another replica.", maxPorts)
		}
		l, err := t.numbers.listen(t.cfg.Host, number{of.uid, p})
		if err != nil {
			t.cfg.Logger.Error("no port can be opened", "workload", of.key.String(), "error", err)
			return refusal(tunnelv1.Reason_REASON_EXHAUSTED, "The proxy cannot open a port for it: see the proxy's log.")
		}
		of.ports[p] = l
		t.ports++
		changed = true
		t.ended.Go(func() { t.accept(of, p, l) })
	}
	if changed {
		t.changed.Send()
	}
	return nil
}

// Release releases a tunnel: its ports are closed.
func (h *Holder) Release(key Key) {
	t := h.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.tunnels[key]; have != nil && have.holder == h {
		t.cfg.Logger.Info("a tunnel is given up", "workload", key.String(), "user", h.owner.User, "session", h.owner.Session)
		t.remove(have)
		t.changed.Send()
	}
}

// Holds reports whether the workstation holds a tunnel; with the zero Key, any.
func (h *Holder) Holds(key Key) bool {
	t := h.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if key != (Key{}) {
		have := t.tunnels[key]
		return have != nil && have.holder == h
	}
	for _, have := range t.tunnels {
		if have.holder == h {
			return true
		}
	}
	return false
}

// Disconnect reports that the workstation's connection ended. Its tunnels are kept for its return, and
// it can hold no others.
func (h *Holder) Disconnect() {
	t := h.table
	t.mu.Lock()
	defer t.mu.Unlock()
	h.gone = true
	for _, have := range t.tunnels {
		if have.holder != h {
			continue
		}
		if !have.moved.IsZero() {
			t.remove(have)
			continue
		}
		have.holder, have.heard, have.lost = nil, h.to.Heard(), time.Now()
		t.cfg.Logger.Info("a tunnel has lost its workstation", "workload", have.key.String(), "user", h.owner.User, "session", h.owner.Session)
		have.forget = time.AfterFunc(t.cfg.Grace, func() { t.expire(have) })
		have.freed = time.AfterFunc(t.cfg.Free, t.changed.Send)
	}
	t.changed.Send()
}

// expire removes a tunnel after its workstation has not come back.
func (t *Table) expire(have *tunnel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tunnels[have.key] == have && have.holder == nil {
		t.cfg.Logger.Info("a tunnel is forgotten", "workload", have.key.String(), "user", have.owner.User, "session", have.owner.Session)
		t.remove(have)
		t.changed.Send()
	}
}

// Prune removes tunnels that wait for their workstations, when there reports that their
// workloads were deleted. A tunnel that has a holder is left for its holder to release.
func (t *Table) Prune(there func(key Key, uid string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, have := range t.tunnels {
		if have.holder == nil && !there(have.key, have.uid) {
			t.cfg.Logger.Info("a tunnel is forgotten with its workload", "workload", have.key.String(), "user", have.owner.User, "session", have.owner.Session)
			t.remove(have)
			t.changed.Send()
		}
	}
}

// KeepMoved keeps serving tunnels that their session moved to another proxy until the old connection
// closes, so that clients with a stale address still reach the workstation.
func (t *Table) KeepMoved() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lingers = true
}

// Moved reports whether the session holds all tunnels of the holder at another proxy, and since
// when: the zero time if it has none.
func (h *Holder) Moved() (since time.Time, all bool) {
	t := h.table
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, have := range t.tunnels {
		if have.holder != h {
			continue
		}
		if have.moved.IsZero() {
			return time.Time{}, false
		}
		if have.moved.After(since) {
			since = have.moved
		}
	}
	return since, true
}

// RecordTaken records a tunnel that a newer session holds at another proxy.
func (t *Table) RecordTaken(by *tunnelv1.Taken) {
	t.mu.Lock()
	defer t.mu.Unlock()
	have := t.tunnels[Key{by.Namespace, by.Name}]
	if have == nil || have.owner.Session != by.Session || have.owner.Epoch > by.Epoch {
		return
	}
	if by.SameSession && t.lingers && have.holder != nil {
		if have.moved.IsZero() {
			t.cfg.Logger.Info("a tunnel has moved to another proxy", "workload", have.key.String(), "by", by.By)
			have.moved = time.Now()
		}
		return
	}
	t.cfg.Logger.Info("a tunnel is held at another proxy", "workload", have.key.String(), "by", by.By, "from", have.owner.User)
	if have.holder != nil {
		have.holder.to.NotifyLost(have.key, by.By)
	}
	t.remove(have)
	t.changed.Send()
}

// remove closes the ports of a tunnel and removes it. t.mu is held.
func (t *Table) remove(have *tunnel) {
	for p, l := range have.ports {
		_ = l.Close() // no connection is accepted there any more
		t.numbers.closed(number{have.uid, p})
	}
	t.ports -= len(have.ports)
	have.stopTimers()
	have.holder = nil
	delete(t.tunnels, have.key)
}

// stopTimers stops the timers of Disconnect. The table's mu is held.
func (have *tunnel) stopTimers() {
	for _, timer := range []**time.Timer{&have.forget, &have.freed} {
		if *timer != nil {
			(*timer).Stop()
			*timer = nil
		}
	}
}

// Tunnels returns every tunnel, and a channel that is closed at the next change.
func (t *Table) Tunnels() ([]*tunnelv1.Tunnel, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed := t.changed.Next() // before free is read: the timer sends without the lock
	all := make([]*tunnelv1.Tunnel, 0, len(t.tunnels))
	for _, have := range t.tunnels {
		heard := have.heard
		if have.holder != nil {
			heard = have.holder.to.Heard()
		}
		one := &tunnelv1.Tunnel{Namespace: have.key.Namespace, Name: have.key.Name, Uid: have.uid,
			Session: have.owner.Session, Epoch: have.owner.Epoch, Since: timestamppb.New(have.since), User: have.owner.User,
			Connected: have.holder != nil, Heard: timestamppb.New(heard), Labels: have.owner.Labels,
			Take: have.take, Free: t.free(have), Order: timestamppb.New(have.order)}
		for p, l := range have.ports {
			one.Ports = append(one.Ports, &tunnelv1.ProxyPort{Baseline: p, Proxy: int32(l.Addr().(*net.TCPAddr).Port)})
		}
		slices.SortFunc(one.Ports, func(a, b *tunnelv1.ProxyPort) int { return cmp.Compare(a.Baseline, b.Baseline) })
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b *tunnelv1.Tunnel) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, changed
}

// Close closes all ports and cuts the connections.
func (t *Table) Close() {
	t.mu.Lock()
	t.closed = true
	for _, have := range t.tunnels {
		t.remove(have)
	}
	t.mu.Unlock()
	t.stop()
	t.ended.Wait()
}

func refusal(reason tunnelv1.Reason, format string, args ...any) *tunnelv1.Refused {
	return &tunnelv1.Refused{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

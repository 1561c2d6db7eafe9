package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/wake"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/identity"
	"switchyard.dev/tunnels/inbound"
	"switchyard.dev/tunnels/outbound"
	"switchyard.dev/tunnels/relay"
)

const (
	// tlsWithin bounds the TLS handshake.
	tlsWithin = 10 * time.Second
	// unsaid is how often a question without an answer is asked again.
	unsaid = 2 * time.Second
)

// workstation is one connection of a session.
type workstation struct {
	main    *Main
	session *carrier.Session
	from    string
	owner   inbound.Owner
	holder  *inbound.Holder
	// poke triggers another evaluation of the declaration.
	poke chan struct{}

	mu sync.Mutex
	// token is the newest that the workstation has shown, and user its user at its last review.
	token    string
	user     identity.User
	declared *tunnelv1.Declare
	taken    map[inbound.Key]string
}

// serveCarrier serves one connection to the port for sessions, and closes it.
func (m *Main) serveCarrier(ctx context.Context, conn net.Conn, known func(user string)) {
	from := conn.RemoteAddr().String()
	// Closing twice is harmless, and an early failure closes nothing.
	defer conn.Close()
	leave, err := m.handshakes.Enter(callers.Behind(from, nil))
	if err != nil {
		return
	}
	left := sync.OnceFunc(leave)
	defer left()
	if conn.SetDeadline(time.Now().Add(tlsWithin)) != nil {
		return
	}
	secure := tls.Server(conn, callers.BegunTLS(carrier.Secure(m.cfg.TLS.Server()), carrier.Protocol))
	if err := secure.HandshakeContext(ctx); err != nil {
		m.cfg.Logger.Debug("a TLS handshake failed", "from", from, "error", err)
		return
	}
	if conn.SetDeadline(time.Time{}) != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &workstation{main: m, from: from, poke: make(chan struct{}, 1), taken: map[inbound.Key]string{}}
	over := func() {}
	defer func() { over() }()
	w.session, _, err = carrier.Serve(ctx, secure, func(ctx context.Context, hello *tunnelv1.Hello) (*tunnelv1.Welcome, *tunnelv1.Refused) {
		welcome, end, refused := w.greet(ctx, hello, cancel)
		if refused == nil {
			over = end
		}
		return welcome, refused
	})
	left()
	if err != nil {
		level := slog.LevelDebug // unauthenticated clients may send anything
		if refused := (*carrier.RefusedError)(nil); errors.As(err, &refused) {
			level = slog.LevelInfo
		}
		m.cfg.Logger.Log(ctx, level, "a workstation was refused", "from", from, "user", w.user.Name, "error", err)
		return
	}
	known(w.owner.User)
	w.run(ctx)
}

// greet answers Hello. The caller calls over when the connection ends.
func (w *workstation) greet(ctx context.Context, hello *tunnelv1.Hello, fence func()) (welcome *tunnelv1.Welcome, over func(), refused *tunnelv1.Refused) {
	m := w.main
	if m.draining.Load() {
		return nil, nil, draining()
	}
	w.token = hello.Token
	if w.user, refused = m.cfg.Access.Identify(ctx, hello.Token, w.from); refused != nil {
		return nil, nil, refused
	}
	leave, err := m.perUser.Enter(callers.Caller{Kind: callers.Pod, Name: w.user.Name})
	if err != nil {
		return nil, nil, &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_EXHAUSTED, Message: err.Error() + "."}
	}
	end, refused := m.sessions.begin(sessionKey{w.user.Name, hello.Session}, hello.Epoch, fence)
	if refused != nil {
		leave()
		return nil, nil, refused
	}
	w.owner = inbound.Owner{User: w.user.Name, Session: hello.Session, Epoch: hello.Epoch, Via: "carrier", Labels: hello.Labels,
		Began: time.Now().Add(-max(0, hello.GetAge().AsDuration()))}
	return &tunnelv1.Welcome{User: w.user.Name, Proxy: m.cfg.Pod, OperatorVersion: m.cfg.Version, Renews: true}, func() { end(); leave() }, nil
}

// run serves the session until it ends or ctx does, which a newer connection causes.
func (w *workstation) run(ctx context.Context) {
	log := w.main.cfg.Logger.With("user", w.owner.User, "session", w.owner.Session, "epoch", w.owner.Epoch)
	log.Info("a workstation connected", "from", w.from)
	w.holder = w.main.table.Join(w.owner, w)
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { w.keep(ctx) })
	all.Go(func() { w.receive(ctx) })
	all.Go(func() { w.renewals(ctx) })
	all.Go(func() { w.accept(ctx) })
	all.Go(func() { w.depart(ctx) })
	select {
	case <-ctx.Done():
	case <-w.session.Done():
	}
	cancel()
	w.holder.Disconnect() // new connections are refused at once
	w.session.Close(w.farewell())
	all.Wait()
	log.Info("a workstation disconnected", "from", w.from, "because", fmt.Sprint(w.session.Err()))
}

// settle is how long a session continues at a draining proxy once its tunnels are held elsewhere:
// sidecars learn the new address one after the other.
const settle = 2 * time.Second

// depart asks the workstation to connect to another proxy as soon as this one drains, and ends
// the session once nothing needs it any more.
func (w *workstation) depart(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-w.main.drained:
	}
	begun := time.Now()
	if w.session.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Leave{Leave: &tunnelv1.Leave{
		Why: draining(), ComeBack: true, Linger: durationpb.New(w.main.cfg.Moment)}}}) != nil {
		return
	}
	for wake.Sleep(ctx, 100*time.Millisecond) {
		since, moved := w.holder.Moved()
		if since.Before(begun) {
			since = begun
		}
		if moved && time.Since(since) >= settle && w.session.Connections() == 0 {
			w.session.Close(w.farewell())
			return
		}
	}
}

// farewell returns the reason that the workstation receives when the proxy ends its session.
func (w *workstation) farewell() *tunnelv1.Leave {
	if w.main.draining.Load() {
		return &tunnelv1.Leave{Why: draining(), ComeBack: true}
	}
	return &tunnelv1.Leave{Why: &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_TAKEN, Message: "A newer connection of the session has its tunnels."}}
}

// receive handles the declarations of the workstation.
func (w *workstation) receive(ctx context.Context) {
	for {
		m, err := w.session.Receive(ctx)
		if err != nil {
			return
		}
		declare := m.GetDeclare()
		if problem := senseless(declare); problem != "" {
			w.session.Close(&tunnelv1.Leave{Why: &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: problem}})
			return
		}
		w.mu.Lock()
		w.declared = declare
		w.mu.Unlock()
		w.trigger()
	}
}

// maxTunnels is how many tunnels a workstation may declare.
const maxTunnels = 256

// senseless returns the problem of an invalid declaration; empty: it is valid.
func senseless(d *tunnelv1.Declare) string {
	if d == nil {
		return "Only Declare is sent to a proxy."
	}
	if len(d.Tunnels) > maxTunnels {
		return fmt.Sprintf("The declaration has %d tunnels, and at most %d are accepted.", len(d.Tunnels), maxTunnels)
	}
	seen := map[inbound.Key]bool{}
	for _, t := range d.Tunnels {
		key := inbound.Key{Namespace: t.GetNamespace(), Name: t.GetName()}
		if seen[key] {
			return fmt.Sprintf("The declaration names %.253q twice.", key)
		}
		seen[key] = true
	}
	return ""
}

func (w *workstation) trigger() {
	wake.Notify(w.poke)
}

// keep sends the workstation the outcome of its declaration, whenever that changes.
func (w *workstation) keep(ctx context.Context) {
	ticker := time.NewTicker(w.main.cfg.Recheck)
	defer ticker.Stop()
	again := time.NewTicker(unsaid)
	defer again.Stop()
	r := &review{w: w, seen: map[inbound.Key]verdict{}, took: map[inbound.Key]uint64{}}
	var told *tunnelv1.Declared
	for {
		changed := w.main.cfg.Cluster.Changed()
		if now := r.evaluate(ctx); now != nil && !proto.Equal(now, told) {
			if w.session.Send(&tunnelv1.Control{Is: &tunnelv1.Control_Declared{Declared: now}}) != nil {
				return
			}
			told = now
		}
		select {
		case <-ctx.Done():
			return
		case <-w.poke:
		case <-changed:
		case <-again.C: // answered questions are not asked again
		case <-ticker.C:
			r.seen = map[inbound.Key]verdict{}
			if w.expired(ctx) {
				return
			}
		}
	}
}

// expired ends the session when its token does not count any more, or is another user's. While
// the API server is unavailable the session continues. The user's groups are updated.
func (w *workstation) expired(ctx context.Context) bool {
	w.mu.Lock()
	token := w.token
	w.mu.Unlock()
	user, refused := w.main.cfg.Access.Reidentify(ctx, token, w.from, w.who())
	switch {
	case refused == nil && user.Name == w.owner.User:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.user = user
		return false
	case refused == nil:
		refused = &tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_UNAUTHENTICATED, Message: "The token is another user's now: connect again."}
	case refused.GetReason() != tunnelv1.Reason_REASON_UNAUTHENTICATED || ctx.Err() != nil:
		return false
	}
	w.session.Close(&tunnelv1.Leave{Why: refused, ComeBack: true})
	return true
}

// renewals handles the newer tokens of the workstation.
func (w *workstation) renewals(ctx context.Context) {
	for {
		select {
		case newer := <-w.session.Renewals():
			w.renew(ctx, newer.GetToken())
		case <-ctx.Done():
			return
		}
	}
}

// renew replaces the token by a newer one of the same user. Another one is ignored: the session ends
// with the former token.
func (w *workstation) renew(ctx context.Context, token string) {
	user, refused := w.main.cfg.Access.Reidentify(ctx, token, w.from, w.who())
	if refused != nil || user.Name != w.owner.User {
		w.main.cfg.Logger.Debug("a newer token of a workstation does not count", "user", w.owner.User, "session", w.owner.Session, "tokenUser", user.Name, "message", refused.GetMessage())
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.token, w.user = token, user
}

// who returns the user.
func (w *workstation) who() identity.User {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.user
}

// NotifyLost implements inbound.Workstation.
func (w *workstation) NotifyLost(key inbound.Key, by string) {
	w.mu.Lock()
	w.taken[key] = by
	w.mu.Unlock()
	w.trigger()
}

// Heard implements inbound.Workstation.
func (w *workstation) Heard() time.Time { return w.session.Heard() }

// Connect implements inbound.Workstation.
func (w *workstation) Connect(ctx context.Context, to *tunnelv1.Inbound) (relay.Stream, error) {
	conn, err := w.session.Open(ctx, &tunnelv1.Open{To: &tunnelv1.Open_Inbound{Inbound: to}})
	if err != nil {
		return nil, err
	}
	return relay.Of(conn), nil
}

// accept forwards the connections that the workstation opens into the cluster.
func (w *workstation) accept(ctx context.Context) {
	for in := range w.session.Requests(ctx) {
		go w.forward(ctx, in)
	}
}

// forward passes one connection into the cluster. It ends with the session.
func (w *workstation) forward(ctx context.Context, in *carrier.Incoming) {
	to := in.Open.GetAddress()
	if to == nil {
		in.Refuse(&tunnelv1.Refused{Reason: tunnelv1.Reason_REASON_INVALID, Message: "A workstation opens connections to addresses."})
		return
	}
	if refused := w.main.cfg.Access.MayUse(ctx, w.who()); refused != nil && !w.holder.Holds(inbound.Key{}) {
		in.Refuse(refused)
		return
	}
	w.main.gate.Forward(ctx, outbound.Who{Via: "carrier", User: w.owner.User, Session: w.owner.Session, From: w.from}, in, to.Host, to.Port)
}

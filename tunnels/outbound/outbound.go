// Package outbound forwards connections of workstations into the cluster, for every protocol of
// the proxy: it resolves the name, checks the address against the policy, dials that same
// address, and records the connection, in this order.
package outbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"switchyard.dev/eventbus/callers"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/carrier"
	"switchyard.dev/tunnels/policy"
	"switchyard.dev/tunnels/relay"
)

// Knows is the state of the cluster that a Gate needs.
type Knows interface {
	// Rules returns the policy.
	Rules() policy.Config
	// Namespace returns that of the Service that has an address or, if there is none, of the
	// Service that a host names; empty: none.
	Namespace(address netip.Addr, host string) string
	// Service reports whether a host names a Service that DNS answers with addresses of the cluster.
	Service(host string) bool
	// Kind returns the kind of an address.
	Kind(address netip.Addr) policy.Kind
}

// Counts counts connections.
type Counts interface {
	// Begun counts a connection as open until ended is called.
	Begun(audit.Direction) (ended func())
}

// Resolver looks up names.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config configures a Gate.
type Config struct {
	// Cluster, Audit and Counts are required.
	Cluster Knows
	Audit   *audit.Log
	Counts  Counts
	// Resolver looks up names. Default: the system's.
	Resolver Resolver
	// Logger logs refusals. Default: none.
	Logger *slog.Logger
}

// Gate opens connections into the cluster. It is safe for concurrent use.
type Gate struct {
	cfg Config
	// pool bounds the connections of each user, and lookups the rate of each user's lookups of
	// names that are not of a Service: the cluster's DNS could be used to send data out of the
	// cluster.
	pool, lookups *callers.Pool
	dialer        net.Dialer
	// users are those of open connections, by the connection's own address.
	users sync.Map
}

// Bounds of connections.
const (
	resolveWithin = 5 * time.Second
	dialWithin    = 10 * time.Second
	// dialAll bounds dialling all addresses of a name together.
	dialAll      = 20 * time.Second
	recordWithin = 10 * time.Second
	// maxAddresses is how many addresses of a name are tried.
	maxAddresses = 8
	maxHost      = 253
	// each is the maximum of connections of one user, or of one address without a user.
	each, most = 4096, 32768
)

// New returns a Gate.
func New(cfg Config) (*Gate, error) {
	if cfg.Cluster == nil || cfg.Audit == nil || cfg.Counts == nil {
		return nil, errors.New("outbound: Cluster, Audit and Counts are all needed")
	}
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Gate{cfg: cfg, dialer: net.Dialer{Timeout: dialWithin},
		pool:    callers.NewPool("connections", callers.Bounds{Each: each, Strangers: most, Pods: most}),
		lookups: callers.NewPool("look-ups of names outside of the cluster", callers.Bounds{Strangers: most, Pods: most, Rate: 10, Burst: 200})}, nil
}

// Who is the client of a connection.
type Who struct {
	// Via, User, Session and From are as in audit.Connection.
	Via, User, Session, From string
}

func (w Who) caller() callers.Caller {
	if w.User == "" {
		return callers.Behind(w.From, nil)
	}
	return callers.Caller{Kind: callers.Pod, Name: w.User}
}

// resolver returns the caller that lookups are counted for: without a user it is the address,
// which many clients may share.
func (w Who) resolver() callers.Caller {
	c := w.caller()
	c.Shared = false
	return c
}

// Conn is a connection into the cluster, with its first record written.
type Conn struct {
	tcp    *net.TCPConn
	opened *audit.Opened
	ended  func()
}

// Address is the remote address of the connection.
func (c *Conn) Address() net.Addr { return c.tcp.RemoteAddr() }

// LocalAddress is its own.
func (c *Conn) LocalAddress() net.Addr { return c.tcp.LocalAddr() }

// Join copies between the workstation and the cluster until both have closed, and writes the
// last record.
func (c *Conn) Join(workstation relay.Stream) {
	r := relay.Pipe(workstation, c.tcp)
	c.end(r.Sent, r.Received, how(r.Err))
}

// Abandon closes a connection that was not reported to the workstation.
func (c *Conn) Abandon(err error) {
	_ = c.tcp.Close() // no byte has passed
	c.end(0, 0, how(err))
}

func (c *Conn) end(sent, received int64, how string) {
	c.opened.End(sent, received, how)
	c.ended()
}

func how(err error) string {
	if err == nil {
		return audit.Closed
	}
	return err.Error()
}

// Forward connects what the other end of a session requests to a host and port, until both have closed, or refuses it.
func (g *Gate) Forward(ctx context.Context, who Who, in *carrier.Incoming, host string, port uint32) {
	out, refused := g.Open(ctx, who, host, port)
	if refused != nil {
		in.Refuse(refused)
		return
	}
	conn, err := in.Accept()
	if err != nil {
		out.Abandon(err)
		return
	}
	out.Join(relay.Of(conn))
}

// Open connects to a host and port, or returns the refusal.
func (g *Gate) Open(ctx context.Context, who Who, host string, port uint32) (*Conn, *tunnelv1.Refused) {
	conn, refused := g.open(ctx, who, host, port)
	if refused != nil {
		g.cfg.Logger.Info("a connection into the cluster was refused", "user", who.User, "session", who.Session, "from", who.From, "via", who.Via,
			"host", fmt.Sprintf("%.253q", host), "port", port, "reason", refused.Reason.String(), "message", refused.Message)
	}
	return conn, refused
}

func (g *Gate) open(ctx context.Context, who Who, host string, port uint32) (*Conn, *tunnelv1.Refused) {
	if port == 0 || port > 65535 {
		return nil, refusal(tunnelv1.Reason_REASON_INVALID, "Port %d is none: give a port between 1 and 65535.", port)
	}
	leave, err := g.pool.Enter(who.caller())
	if err != nil {
		return nil, refusal(tunnelv1.Reason_REASON_EXHAUSTED, "%v.", err)
	}
	conn, asked, refused := g.reach(ctx, who, host, uint16(port))
	if refused != nil {
		leave()
		g.RecordRefused(who, host, port, refused)
		return nil, refused
	}
	opened, refused := g.record(ctx, who, conn, asked)
	if refused != nil {
		_ = conn.Close() // no byte has passed
		leave()
		return nil, refused
	}
	uncount := g.cfg.Counts.Begun(audit.Outbound)
	own := conn.LocalAddr().String()
	g.users.Store(own, who.User)
	return &Conn{conn, opened, func() { g.users.Delete(own); uncount(); leave() }}, nil
}

// User returns the user of an open connection with this local address; empty: unknown.
func (g *Gate) User(own string) string {
	user, _ := g.users.Load(own)
	name, _ := user.(string)
	return name
}

// RecordRefused records an attempt that opened no connection, for a caller that refused it before Open. In
// Open the name may have been resolved before, and addresses dialled.
func (g *Gate) RecordRefused(who Who, host string, port uint32, why *tunnelv1.Refused) {
	asked := net.JoinHostPort(strings.ToValidUTF8(host[:min(len(host), maxHost)], ""), fmt.Sprint(port))
	err := g.cfg.Audit.Refuse(audit.Connection{Direction: audit.Outbound, Via: who.Via, User: who.User, Session: who.Session, From: who.From, Asked: asked}, why.Message)
	if err != nil {
		g.cfg.Logger.Warn("cannot record a connection that was refused", "user", who.User, "asked", asked, "error", err)
	}
}

// record writes the first record of a connection.
func (g *Gate) record(ctx context.Context, who Who, conn net.Conn, asked string) (*audit.Opened, *tunnelv1.Refused) {
	c := audit.Connection{Direction: audit.Outbound, Via: who.Via, User: who.User, Session: who.Session, From: who.From, To: conn.RemoteAddr().String()}
	if asked != c.To {
		c.Asked = asked
	}
	ctx, cancel := context.WithTimeout(ctx, recordWithin)
	defer cancel()
	opened, err := g.cfg.Audit.Begin(ctx, c)
	switch {
	case errors.Is(err, audit.ErrFull):
		return nil, refusal(tunnelv1.Reason_REASON_EXHAUSTED, "The proxy has the maximum number of connections: close some.")
	case errors.Is(err, audit.ErrClosed):
		return nil, refusal(tunnelv1.Reason_REASON_DRAINING, "The proxy is draining: connect to another one.")
	case err != nil:
		return nil, refusal(tunnelv1.Reason_REASON_UNAVAILABLE, "The connection could not be recorded, and no other passes: see the log of the tunnel proxy.")
	}
	return opened, nil
}

// reach resolves the host, checks the policy, and dials.
func (g *Gate) reach(ctx context.Context, who Who, host string, port uint16) (conn *net.TCPConn, asked string, refused *tunnelv1.Refused) {
	addresses, refused := g.resolve(ctx, who, host)
	if refused != nil {
		return nil, "", refused
	}
	ctx, cancel := context.WithTimeout(ctx, dialAll)
	defer cancel()
	rules := g.cfg.Cluster.Rules()
	for _, a := range addresses[:min(len(addresses), maxAddresses)] {
		to, denied := rules.Judge(policy.Destination{Host: host, Address: netip.AddrPortFrom(a, port), Namespace: g.cfg.Cluster.Namespace(a, host), Kind: g.cfg.Cluster.Kind(a)})
		if denied != nil {
			// Why an address may not be reached is more useful than that another did not answer.
			refused = denied
			continue
		}
		dialled, err := g.dialer.DialContext(ctx, "tcp", to.String())
		if err == nil {
			return dialled.(*net.TCPConn), net.JoinHostPort(strings.Trim(host, "[]"), fmt.Sprint(port)), nil
		}
		refused = cmp.Or(refused, refusal(tunnelv1.Reason_REASON_UNREACHABLE, "%s port %d did not answer: %v.", host, port, bare(err)))
	}
	return nil, "", refused
}

// resolve returns the addresses of a host.
func (g *Gate) resolve(ctx context.Context, who Who, host string) ([]netip.Addr, *tunnelv1.Refused) {
	if a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err == nil {
		return []netip.Addr{a}, nil
	}
	if !isName(host) {
		return nil, refusal(tunnelv1.Reason_REASON_INVALID, "%.80q is neither a name nor an address.", host)
	}
	if !strings.Contains(host, ".") { // The resolver would look in the proxy's own namespace.
		return nil, refusal(tunnelv1.Reason_REASON_NOT_FOUND, "The cluster knows no name %s: write it as %s.NAMESPACE, with the namespace of the Service.", host, host)
	}
	if !g.cfg.Cluster.Service(host) {
		leave, err := g.lookups.Enter(who.resolver())
		if err != nil {
			return nil, refusal(tunnelv1.Reason_REASON_EXHAUSTED, "%v.", err)
		}
		defer leave()
	}
	ctx, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	found, err := g.cfg.Resolver.LookupNetIP(ctx, "ip", host)
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound, err == nil && len(found) == 0:
		return nil, refusal(tunnelv1.Reason_REASON_NOT_FOUND, "The cluster knows no name %s: write the name of a Service as NAME.NAMESPACE.", host)
	case err != nil:
		return nil, refusal(tunnelv1.Reason_REASON_UNREACHABLE, "The cluster's DNS did not resolve %s: try again.", host)
	}
	return found, nil
}

// isName reports whether a text can be a host name.
func isName(text string) bool {
	return text != "" && len(text) <= maxHost && strings.Trim(text, ".-_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" &&
		strings.Trim(text, "0123456789.") != "" // a text of digits and dots is a form of an address
}

// bare returns an error's cause without the addresses, which the message has already.
func bare(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

func refusal(reason tunnelv1.Reason, format string, args ...any) *tunnelv1.Refused {
	return &tunnelv1.Refused{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Package peers finds the other route servers and queries the sidecars connected to them: a sidecar
// is connected to one route server only, so the acknowledgements of all sidecars are spread over
// all of them.
//
// The others are the addresses of a headless Service except the server's own, resolved for each
// query. One that does not respond in time is reported as silent, and so is the Service when it
// cannot be resolved: callers must be able to distinguish an incomplete result from a complete one.
package peers

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

	"google.golang.org/grpc"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/trust"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/routeserver/door"
)

// Config is what Peers need.
type Config struct {
	// Service is the headless Service of the route servers, with the port of the
	// routing API, as host:port. Required.
	Service string
	// Own are the IP addresses of this route server, which is not asked.
	Own []string
	// TokenFile holds the token by which the others know this route server as one of the
	// operator's own (package door). Default: none, it asks as a stranger.
	TokenFile string
	// Roots, if not nil, are the authorities that verify the peers' certificates, for the
	// Service's name. nil: connect plain.
	Roots *trust.Roots
	// Within is how long each may take to answer. Default: 2 s.
	Within time.Duration
	// Lookup returns the addresses of a host name. Default: the system's resolver.
	Lookup func(ctx context.Context, host string) ([]string, error)
	// Logger records route servers that do not respond. Default: no logging.
	Logger *slog.Logger
}

// Validate returns an error that describes the first invalid field of a Config, or nil.
func (c Config) Validate() error {
	if _, _, err := net.SplitHostPort(c.Service); err != nil {
		return fmt.Errorf("peers: Config.Service must be the host:port of a headless Service: %w", err)
	}
	if c.Within < 0 {
		return errors.New("peers: Config.Within must not be negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Within = cmp.Or(c.Within, 2*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Lookup == nil {
		c.Lookup = net.DefaultResolver.LookupHost
	}
	return c
}

// Peers are the other route servers. Safe for concurrent use.
type Peers struct {
	cfg        Config
	host, port string

	mu          sync.Mutex
	connections map[string]*grpc.ClientConn // by address
}

// New returns the Peers behind a Service. The error is Validate's.
func New(cfg Config) (*Peers, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Peers{cfg: cfg.withDefaults(), connections: map[string]*grpc.ClientConn{}}
	var err error
	p.host, p.port, err = net.SplitHostPort(cfg.Service)
	return p, err
}

// Sidecars queries every other route server for the sidecars that are connected to it, and returns
// them in no particular order, with the sorted addresses of route servers that did not respond in
// time.
func (p *Peers) Sidecars(ctx context.Context, filter *routingv1.Filter) ([]*routingv1.Sidecar, []string) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Within)
	defer cancel()
	addresses, err := p.addresses(ctx)
	if err != nil {
		p.cfg.Logger.Warn("the other route servers cannot be found", "service", p.cfg.Service, "error", err)
		return nil, []string{p.cfg.Service}
	}
	type answer struct {
		from     string
		sidecars []*routingv1.Sidecar
		err      error
	}
	answers := make(chan answer, len(addresses))
	for _, address := range addresses {
		go func() {
			sidecars, err := p.ask(ctx, address, filter)
			answers <- answer{address, sidecars, err}
		}()
	}
	var sidecars []*routingv1.Sidecar
	var silent []string
	for range addresses {
		a := <-answers
		if a.err != nil {
			p.cfg.Logger.Warn("route server does not report its sidecars", "address", a.from, "error", a.err)
			silent = append(silent, a.from)
		}
		sidecars = append(sidecars, a.sidecars...)
	}
	slices.Sort(silent)
	return sidecars, silent
}

// addresses returns host:port of each other route server, and closes the connections to those that
// no longer exist.
func (p *Peers) addresses(ctx context.Context) ([]string, error) {
	found, err := p.cfg.Lookup(ctx, p.host)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, ip := range found {
		if !slices.ContainsFunc(p.cfg.Own, func(own string) bool { return sameIP(own, ip) }) {
			out = append(out, net.JoinHostPort(ip, p.port))
		}
	}
	out = lists.Unique(out)
	p.mu.Lock()
	defer p.mu.Unlock()
	for address, conn := range p.connections {
		if !slices.Contains(out, address) {
			delete(p.connections, address)
			_ = conn.Close() // its route server no longer exists
		}
	}
	return out, nil
}

func sameIP(a, b string) bool {
	if a == b {
		return true
	}
	ip := net.ParseIP(a)
	return ip != nil && ip.Equal(net.ParseIP(b))
}

func (p *Peers) ask(ctx context.Context, address string, filter *routingv1.Filter) ([]*routingv1.Sidecar, error) {
	conn, err := p.connection(address)
	if err != nil {
		return nil, err
	}
	// One that has just come up is worth the wait.
	answer, err := routingv1.NewRoutingClient(conn).Sidecars(ctx, &routingv1.SidecarsRequest{Filter: filter, Local: true}, grpc.WaitForReady(true))
	return answer.GetSidecars(), err
}

// maxAnswer limits the response of one route server: some 100,000 sidecars.
const maxAnswer = 64 << 20

func (p *Peers) connection(address string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if conn, ok := p.connections[address]; ok {
		return conn, nil
	}
	conn, err := trust.Dial(address, p.host, p.cfg.Roots,
		door.Show(p.cfg.TokenFile), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, err
	}
	p.connections[address] = conn
	return conn, nil
}

// Close closes all connections.
func (p *Peers) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for address, conn := range p.connections {
		delete(p.connections, address)
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

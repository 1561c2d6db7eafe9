package clusteraccess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	"switchyard.dev/eventbus/lists"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/loopback"
	"switchyard.dev/tunnels/workstation/names"
	"switchyard.dev/tunnels/workstation/redirect"
	"switchyard.dev/tunnels/workstation/redirector"
)

// table is the name of the rules. There is one at a time on a machine, because names are those of
// one cluster.
const table = "switchyard_workstation"

// maxLearned bounds the addresses that were learned from queries; the oldest are dropped first.
const maxLearned = 4096

// shared is another range of private networks, which netip does not include.
var shared = netip.MustParsePrefix("100.64.0.0/10")

// Config configures an Access.
type Config struct {
	// Open opens a connection into the cluster. Required.
	Open loopback.Opener
	// UID is a user of this machine: the connections and queries of that user are redirected.
	UID uint32
	// Ranges are redirected beside those of tunnel-api; Except are never redirected.
	Ranges, Except []netip.Prefix
	// ResolverFile has the resolvers of the machine. Default: names.SystemFile.
	ResolverFile string
	// Tell is called with the status after each change. May be nil.
	Tell func(workstation.Inside)
	// Log logs problems. Default: none.
	Log *slog.Logger
}

// Access is a machine that reaches a cluster as if it were in it. Make one with Begin, and Run it.
type Access struct {
	cfg    Config
	names  *names.Table
	system *names.System
	server *names.Server
	tcp    *ports // for connections
	dns    *ports // for queries

	mu      sync.Mutex
	held    *redirector.Table
	begun   bool // redirection is active
	ranges  []*tunnelv1.CIDR
	learned map[netip.Addr]bool
	oldest  []netip.Addr // the learned ones, the oldest first
	unsure  error        // why the addresses of the cluster are unknown
	wrong   string       // which range cannot be redirected
}

// Begin takes the ports and the rules; nothing is redirected before Run knows the addresses of
// the cluster. The error names the remedy.
func Begin(cfg Config) (*Access, error) {
	if cfg.Open == nil {
		return nil, errors.New("clusteraccess: Open is required")
	}
	for _, p := range slices.Concat(cfg.Ranges, cfg.Except) {
		if err := redirect.Range(p); err != nil {
			return nil, err
		}
	}
	cfg.ResolverFile = cmp.Or(cfg.ResolverFile, names.SystemFile)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Tell == nil {
		cfg.Tell = func(workstation.Inside) {}
	}
	begun := &Access{cfg: cfg, names: names.NewTable("cluster.local"), learned: map[netip.Addr]bool{}}
	if err := begun.take(); err != nil {
		begun.Close()
		return nil, err
	}
	return begun, nil
}

// take opens the ports and the table.
func (i *Access) take() (err error) {
	if i.held, err = redirector.Open(table); err != nil {
		return err
	}
	if i.system, err = names.NewSystem(i.cfg.ResolverFile, redirector.Pass); err != nil {
		return err
	}
	if i.server, err = names.New(names.Config{Table: i.names, System: i.system, Open: i.cfg.Open, Learned: i.learn, NoSix: !redirector.RedirectsIPv6, Log: i.cfg.Log}); err != nil {
		return err
	}
	if i.tcp, err = listen(false); err != nil {
		return err
	}
	i.dns, err = listen(true)
	return err
}

// Close releases the ports and the table. Run calls it too.
func (i *Access) Close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.held != nil {
		_ = i.held.Close()
	}
	i.tcp.close()
	i.dns.close()
}

// Run forwards connections and answers queries until ctx ends. client asks tunnel-api. The error
// is the part that failed on this machine: then nothing is redirected any more, so that no query
// is lost.
func (i *Access) Run(ctx context.Context, client tunnelv1.TunnelAPIClient) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var parts sync.WaitGroup
	for _, l := range i.tcp.tcp {
		parts.Go(func() {
			end(broken("connections are not redirected", loopback.ServeRedirected(ctx, l, original, i.cfg.Open)))
		})
	}
	for n, l := range i.dns.tcp {
		parts.Go(func() { end(broken("DNS queries are not answered", i.server.Serve(ctx, i.dns.udp[n], l))) })
	}
	parts.Go(func() { i.system.Follow(ctx, i.apply) })
	parts.Go(func() { i.follow(ctx, client) })
	<-ctx.Done()
	i.Close() // Remove the rules before the listeners that they redirect to.
	parts.Wait()
	var broke *brokenError
	if errors.As(context.Cause(ctx), &broke) {
		return broke
	}
	return nil
}

// brokenError is the error of a part that failed while Run runs.
type brokenError struct {
	what string
	err  error
}

// Error implements error.
func (e *brokenError) Error() string {
	return fmt.Sprintf("%s on this machine any more (%v): connect again", e.what, e.err)
}

// broken converts the error of a server; nil for nil.
func broken(what string, err error) error {
	if err == nil {
		return nil
	}
	return &brokenError{what, err}
}

// original asks the kernel for the original destination of a connection.
func original(c net.Conn) (netip.AddrPort, error) {
	asked, ok := c.(syscall.Conn)
	local, is := c.LocalAddr().(*net.TCPAddr)
	if !ok || !is {
		return netip.AddrPort{}, errors.New("not a connection of TCP")
	}
	return redirector.Original(asked, local.AddrPort())
}

// apply updates the kernel's rules, and reports the status.
func (i *Access) apply() {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := workstation.Inside{UID: i.cfg.UID, Redirect: i.tcp.String(), DNS: i.dns.String(), Services: i.names.Len(), PublicNamespaces: i.names.Public()}
	var problems []string
	if i.unsure != nil {
		problems = append(problems, "the addresses of the cluster are unknown: "+i.unsure.Error())
	}
	rules := i.rules()
	if i.begun {
		if err := i.held.Set(rules); err != nil {
			problems = append(problems, err.Error())
			i.cfg.Log.Warn("the redirection rules cannot be loaded", "error", err)
		}
		now.Leads, now.Addresses = true, len(rules.Addresses)
	}
	now.Ranges = append(now.Ranges, lists.Map(rules.Ranges, netip.Prefix.String)...)
	now.Resolvers = append(now.Resolvers, lists.Map(rules.Resolvers, netip.Addr.String)...)
	if i.wrong != "" {
		problems = append(problems, i.wrong)
	}
	now.Trouble = strings.Join(problems, "; ")
	i.cfg.Tell(now)
}

// rules returns the rules to apply.
func (i *Access) rules() redirect.Rules {
	r := redirect.Rules{Name: table, Port: i.tcp.number, DNS: i.dns.number, UID: i.cfg.UID, Mark: redirector.Mark, Resolvers: i.system.Resolvers(),
		Ranges: slices.Clone(i.cfg.Ranges), Except: slices.Clone(i.cfg.Except)}
	i.wrong = ""
	for _, c := range i.ranges {
		p, err := netip.ParsePrefix(c.GetCidr())
		if err == nil {
			err = redirect.Range(p)
		}
		switch {
		case err != nil && !c.GetExclude():
			i.wrong = fmt.Sprintf("the range %s of the operator is not redirected, because it contains this machine: name narrower ranges with --range", c.GetCidr())
		case err != nil:
		case c.GetExclude():
			r.Except = append(r.Except, p)
		default:
			r.Ranges = append(r.Ranges, p)
		}
	}
	r.Addresses = append(r.Addresses, lists.Filter(i.names.Addresses(), redirect.Single)...)
	r.Addresses = slices.AppendSeq(r.Addresses, maps.Keys(i.learned))
	slices.SortFunc(r.Addresses, netip.Addr.Compare)
	r.Addresses = slices.Compact(r.Addresses)
	return r
}

// learn redirects addresses that the cluster's DNS has returned. Only those of private networks
// are, and none of a network that this machine is in: a user who can create a Service could name
// any.
func (i *Access) learn(all []netip.Addr) {
	own := networks()
	further := false
	i.mu.Lock()
	for _, a := range all {
		near := slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(a) })
		if near || !redirect.Single(a) || !a.IsPrivate() && !shared.Contains(a) || i.learned[a] {
			continue
		}
		if len(i.oldest) >= maxLearned {
			delete(i.learned, i.oldest[0])
			i.oldest = i.oldest[1:]
		}
		i.learned[a], further = true, true
		i.oldest = append(i.oldest, a)
	}
	i.mu.Unlock()
	if further {
		i.apply()
	}
}

// networks returns the networks that this machine is in.
func networks() (out []netip.Prefix) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

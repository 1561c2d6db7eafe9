package names

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

	"github.com/miekg/dns"
	"golang.org/x/net/netutil"
)

const (
	// within bounds a query.
	within = 10 * time.Second
	// idle bounds an idle connection.
	idle = 10 * time.Second
	// maxQueries bounds those that are being answered; further ones are answered with an error.
	maxQueries = 512
	// maxConns bounds connections of each listener; further ones wait.
	maxConns = 128
	// lives is the TTL of an answer in seconds, as in the cluster's own DNS.
	lives = 5
)

// Config configures a Server.
type Config struct {
	// Table decides which names are the cluster's. Required.
	Table *Table
	// System resolves other names. Required.
	System *System
	// Open opens a connection into the cluster. Required.
	Open func(ctx context.Context, host string, port uint16) (net.Conn, error)
	// Learned is called with addresses that the cluster's DNS has returned, before they are sent
	// to the client. May be nil.
	Learned func([]netip.Addr)
	// NoSix omits IPv6 addresses of names of the cluster, because IPv6 is not redirected.
	NoSix bool
	// Log logs problems. Default: none.
	Log *slog.Logger
}

// Server answers queries.
type Server struct {
	cfg  Config
	room chan struct{}
}

// New returns a Server.
func New(cfg Config) (*Server, error) {
	if cfg.Table == nil || cfg.System == nil || cfg.Open == nil {
		return nil, errors.New("names: Table, System and Open are all required")
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Learned == nil {
		cfg.Learned = func([]netip.Addr) {}
	}
	return &Server{cfg: cfg, room: make(chan struct{}, maxQueries)}, nil
}

// Serve serves a port, over UDP and TCP, until ctx ends.
func (s *Server) Serve(ctx context.Context, udp net.PacketConn, tcp net.Listener) error {
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { s.serve(ctx, w, q) })
	servers := []*dns.Server{
		{PacketConn: udp, Handler: handler, UDPSize: dns.MaxMsgSize},
		{Listener: netutil.LimitListener(tcp, maxConns), Handler: handler, ReadTimeout: idle, WriteTimeout: idle, IdleTimeout: func() time.Duration { return idle }},
	}
	var all sync.WaitGroup
	ended := make(chan error, len(servers))
	for _, one := range servers {
		all.Go(func() { ended <- one.ActivateAndServe() })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	_, _ = udp.Close(), tcp.Close() // Shutdown does not end a server that has not begun yet.
	all.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// serve answers a query.
func (s *Server) serve(ctx context.Context, w dns.ResponseWriter, q *dns.Msg) {
	network := w.LocalAddr().Network()
	answer := new(dns.Msg)
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		var err error
		if answer, err = s.Answer(ctx, network, q); err != nil {
			s.cfg.Log.Info("a name was not resolved", "name", fmt.Sprintf("%.253q", q.Question[0].Name), "error", err)
			answer = new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
		}
	default:
		answer.SetRcode(q, dns.RcodeServerFailure)
	}
	if network == "udp" {
		size := dns.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = max(size, int(o.UDPSize()))
		}
		answer.Truncate(size)
	}
	_ = w.WriteMsg(answer) // An error means that the client has closed.
}

// Answer returns the answer to a query that came over udp or tcp.
func (s *Server) Answer(ctx context.Context, network string, q *dns.Msg) (*dns.Msg, error) {
	if len(q.Question) != 1 {
		return new(dns.Msg).SetRcode(q, dns.RcodeFormatError), nil
	}
	asked := q.Question[0]
	v := s.cfg.Table.Judge(asked.Name)
	switch {
	case !v.InCluster || asked.Qclass != dns.ClassINET:
		return s.cfg.System.Ask(ctx, network, q)
	case s.cfg.NoSix && asked.Qtype == dns.TypeAAAA:
		v.Addresses = nil
	case len(v.Addresses) == 0 || asked.Qtype == dns.TypeSRV:
		return s.cluster(ctx, q, v.Ask)
	}
	answer := new(dns.Msg).SetReply(q)
	answer.Authoritative, answer.RecursionAvailable = true, true
	for _, a := range v.Addresses {
		head := dns.RR_Header{Name: asked.Name, Class: dns.ClassINET, Ttl: lives}
		switch {
		case a.Is4() && asked.Qtype == dns.TypeA:
			head.Rrtype = dns.TypeA
			answer.Answer = append(answer.Answer, &dns.A{Hdr: head, A: a.AsSlice()})
		case a.Is6() && asked.Qtype == dns.TypeAAAA:
			head.Rrtype = dns.TypeAAAA
			answer.Answer = append(answer.Answer, &dns.AAAA{Hdr: head, AAAA: a.AsSlice()})
		}
	}
	if len(answer.Answer) == 0 { // the TTL of the negative answer
		answer.Ns = append(answer.Ns, &dns.SOA{Hdr: dns.RR_Header{Name: asked.Name, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: lives},
			Ns: "ns." + dns.Fqdn(v.Ask), Mbox: "none." + dns.Fqdn(v.Ask), Serial: 1, Refresh: lives, Retry: lives, Expire: lives, Minttl: lives})
	}
	return answer, nil
}

// cluster asks the cluster's DNS, through the tunnel, for the name that it knows.
func (s *Server) cluster(ctx context.Context, q *dns.Msg, name string) (*dns.Msg, error) {
	conn, err := s.cfg.Open(ctx, s.cfg.Table.DNS(), 53)
	if err != nil {
		return nil, fmt.Errorf("ask the cluster's DNS: %w", err)
	}
	defer conn.Close()
	ask := new(dns.Msg).SetQuestion(dns.Fqdn(name), q.Question[0].Qtype)
	answer, _, err := (&dns.Client{Net: "tcp", Timeout: within}).ExchangeWithConnContext(ctx, ask, &dns.Conn{Conn: conn})
	if err != nil {
		return nil, fmt.Errorf("ask the cluster's DNS: %w", err)
	}
	s.cfg.Learned(s.addresses(answer.Answer))
	answer.Id, answer.Question = q.Id, q.Question
	for _, list := range [][]dns.RR{answer.Answer, answer.Extra} {
		for _, one := range list {
			if strings.EqualFold(one.Header().Name, dns.Fqdn(name)) {
				one.Header().Name = q.Question[0].Name
			}
		}
	}
	return answer, nil
}

// addresses returns those of names of the cluster: a name outside of it, to which a Service may
// refer, is reached directly.
func (s *Server) addresses(list []dns.RR) (out []netip.Addr) {
	for _, one := range list {
		if !s.cfg.Table.Judge(one.Header().Name).InCluster {
			continue
		}
		var raw net.IP
		switch one := one.(type) {
		case *dns.A:
			raw = one.A
		case *dns.AAAA:
			raw = one.AAAA
		}
		if a, ok := netip.AddrFromSlice(raw); ok {
			out = append(out, a.Unmap())
		}
	}
	return out
}

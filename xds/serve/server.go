package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"switchyard.dev/xds/delta"
	"switchyard.dev/xds/translate"
)

// Server answers delta xDS streams. Make one with New.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	Config
	peers   *peers
	metrics *metrics
	// writers are the turns of those who write.
	writers chan struct{}
	// logged limits the log entries for refused clients, and unlogged counts refusals since the
	// last entry. The metric counts all.
	logged   *rate.Limiter
	unlogged atomic.Int64
}

// New returns a server. The error is Validate's, or that of a metric that could
// not be registered.
func New(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(c.Metrics)
	if err != nil {
		return nil, err
	}
	c = c.withDefaults()
	return &Server{Config: c, peers: newPeers(c), metrics: m, writers: make(chan struct{}, c.Writers),
		logged: rate.NewLimiter(rate.Every(time.Second), refusalsLogged)}, nil
}

// Register puts the server behind a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(r, s)
}

// refusalsLogged is how many refused clients are logged in a row; after that one a second, since
// a refused client can retry at once.
const refusalsLogged = 20

// maxRequest is how many bytes a request may have.
const maxRequest = 512 << 10

// ServerOptions returns the limits of connections: dead peers are detected within 15 s,
// connections are renewed after half an hour, and the memory that a client can use is bounded.
// gRPC adds or subtracts up to a tenth of the half hour for each connection, so connections
// that all began at one moment, because this server started, are renewed over six minutes: of
// 5,000 that is 14 a second, and resources that a client has are not sent again.
//
// Requests are small and rare, so little memory waits for them.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.ConnectionTimeout(5 * time.Second),
		grpc.ReadBufferSize(4 << 10),
		// Of a change to many, as many write at once.
		grpc.WriteBufferSize(8 << 10),
		grpc.SharedWriteBuffer(true),
		grpc.MaxConcurrentStreams(16),
		grpc.MaxHeaderListSize(32 << 10),
		grpc.MaxRecvMsgSize(maxRequest),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 10 * time.Second, Timeout: 5 * time.Second,
			MaxConnectionIdle: 5 * time.Second, // without a stream, however lively; gone 5 s later
			MaxConnectionAge:  30 * time.Minute, MaxConnectionAgeGrace: 10 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 5 * time.Second, PermitWithoutStream: true,
		}),
	}
}

// DeltaAggregatedResources serves one stream until it ends. The other form of
// discovery, which repeats the state of the world, is answered with UNIMPLEMENTED.
func (s *Server) DeltaAggregatedResources(rpc discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	token, err := bearer(rpc.Context())
	if err != nil {
		return s.refuse(err)
	}
	session, err := s.Sessions.Open(rpc.Context(), token)
	if err != nil {
		return s.refuse(err)
	}
	if session.Close != nil {
		defer session.Close()
	}
	entry, err := s.peers.join(session)
	if err != nil {
		return s.refuse(err)
	}
	defer s.peers.leave(entry)
	s.metrics.streams.Inc()
	defer s.metrics.streams.Dec()
	return newStream(s, rpc, session, entry).run()
}

func (s *Server) refuse(err error) error {
	s.metrics.refused.WithLabelValues(status.Code(err).String()).Inc()
	if !s.logged.Allow() {
		s.unlogged.Add(1)
		return err
	}
	s.Logger.Warn("xDS client refused", "error", err, "suppressed", s.unlogged.Swap(0))
	return err
}

// bearer returns the token of a call's metadata; "" when the call has none. It does not verify
// the token.
func bearer(ctx context.Context) (string, error) {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		if scheme, token, _ := strings.Cut(values[0], " "); strings.EqualFold(scheme, "bearer") {
			return strings.TrimSpace(token), nil
		}
	}
	return "", status.Error(codes.Unauthenticated, "show one bearer token in the call's authorization")
}

// Run serves on a listener until ctx ends, and then ends all streams and returns
// nil; any other end is an error. Options, such as credentials, come after ServerOptions.
func (s *Server) Run(ctx context.Context, l net.Listener, options ...grpc.ServerOption) error {
	g := grpc.NewServer(append(ServerOptions(), options...)...)
	s.Register(g)
	defer context.AfterFunc(ctx, g.Stop)()
	if err := g.Serve(l); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// Config is what a Server needs.
type Config struct {
	// Sessions lets peers in. Required.
	Sessions Sessions
	// Trust is the trust bundle for clients that ask for one. Default: none is sent.
	Trust Bundles
	// Types are the type URLs that are served, in the order in which they are
	// sent. Default: translate.RouteType and translate.PartType.
	Types []string
	// StreamsPerPeer is how many streams one identity may have. Default 4.
	StreamsPerPeer int
	// OpensPerPeer is how many streams one identity can open in a row; after that one every
	// OpenEvery. It bounds the cost of a client that keeps reconnecting to receive routes that
	// it refuses. Defaults 20 and 2 s.
	OpensPerPeer int
	OpenEvery    time.Duration
	// NamesPerPeer and BytesPerPeer bound what all streams of one identity make the
	// server hold. Defaults 20,000 names and 8 MiB.
	NamesPerPeer, BytesPerPeer int
	// Pace is the least time between two responses to changes on one stream: changes within it
	// are sent together. The first change is sent at once. Default 20 ms.
	Pace time.Duration
	// Writers is how many responses are made and written at one time; the streams
	// take turns. Default: 4 for each CPU.
	Writers int
	// FirstRequest is how long a client may take to send its first request.
	// Default 5 s.
	FirstRequest time.Duration
	// Write is how long a response may take to be written. Default 10 s.
	Write time.Duration
	// Logger logs refused clients and refused resources. Default: none.
	Logger *slog.Logger
	// Metrics gets the collectors of the server. Default: none.
	Metrics prometheus.Registerer
}

// Validate returns an error if the Config is not valid.
func (c Config) Validate() error {
	switch {
	case c.Sessions == nil:
		return errors.New("xds: Config.Sessions is missing; it authorizes the clients")
	case min(c.StreamsPerPeer, c.OpensPerPeer, c.NamesPerPeer, c.BytesPerPeer, c.Writers) < 0,
		min(c.OpenEvery, c.Pace, c.FirstRequest, c.Write) < 0:
		return errors.New("xds: limits must not be negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if len(c.Types) == 0 {
		c.Types = []string{translate.RouteType, translate.PartType}
	}
	c.StreamsPerPeer = cmp.Or(c.StreamsPerPeer, 4)
	c.OpensPerPeer = cmp.Or(c.OpensPerPeer, 20)
	c.OpenEvery = cmp.Or(c.OpenEvery, 2*time.Second)
	c.NamesPerPeer = cmp.Or(c.NamesPerPeer, 2*delta.MaxNames)
	c.BytesPerPeer = cmp.Or(c.BytesPerPeer, 8<<20)
	c.Pace = cmp.Or(c.Pace, 20*time.Millisecond)
	c.Writers = cmp.Or(c.Writers, 4*runtime.GOMAXPROCS(0))
	c.FirstRequest = cmp.Or(c.FirstRequest, 5*time.Second)
	c.Write = cmp.Or(c.Write, 10*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// metrics are what a server counts.
type metrics struct {
	streams, refusing                prometheus.Gauge
	acks, nacks, slow, bytes         prometheus.Counter
	pushes, refused                  *prometheus.CounterVec
	untilSent, untilAcked, untilTurn prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	named := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "switchyard", Subsystem: "xds", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(named(name, help)))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts(named(name, help)))
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(named(name, help)), []string{label})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "switchyard", Subsystem: "xds", Name: name, Help: help,
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		})
	}
	m := &metrics{
		streams:    gauge("streams", "xDS streams that are open."),
		refusing:   gauge("refusing_streams", "xDS streams whose client has refused routes and accepted none since."),
		pushes:     vector("pushes_total", "xDS responses sent, by type of resource.", "type"),
		bytes:      counter("sent_bytes_total", "Bytes of the xDS responses sent."),
		acks:       counter("acks_total", "xDS responses that a client accepted."),
		nacks:      counter("nacks_total", "xDS responses that a client refused; what it refused is not sent to it again."),
		slow:       counter("slow_clients_total", "xDS streams ended because the client did not read."),
		refused:    vector("refused_total", "xDS streams refused or ended for breaking a rule, by gRPC code.", "code"),
		untilSent:  histogram("change_sent_seconds", "Time from a change of a workload's routes until they were sent to one client."),
		untilAcked: histogram("change_acked_seconds", "Time from a change of a workload's routes until one client had accepted or refused them."),
		untilTurn:  histogram("turn_seconds", "Time that a stream waited for its turn to write."),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.streams, m.refusing, m.pushes, m.bytes, m.acks, m.nacks, m.slow, m.refused, m.untilSent, m.untilAcked, m.untilTurn,
	} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("xds: register a metric: %w", err)
		}
	}
	return m, nil
}

// pushed counts a response that was sent.
func (m *metrics) pushed(r *delta.Response) {
	m.pushes.WithLabelValues(r.Type[strings.LastIndexByte(r.Type, '.')+1:]).Inc()
	size := 0
	for _, one := range r.Resources {
		size += len(one.Any.GetValue()) + len(one.Name) + len(one.Version)
	}
	for _, name := range r.Removed {
		size += len(name)
	}
	m.bytes.Add(float64(size))
}

// since observes the time since a moment, unless that is not known.
func since(h prometheus.Histogram, at time.Time) {
	if !at.IsZero() {
		h.Observe(time.Since(at).Seconds())
	}
}

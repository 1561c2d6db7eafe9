package serve

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
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
		scheme, token, _ := strings.Cut(values[0], " ")
		if strings.EqualFold(scheme, "bearer") {
			return strings.TrimSpace(token), nil
		}
	}
	return "", status.Error(codes.Unauthenticated, "show one bearer token in the call's authorization")
}

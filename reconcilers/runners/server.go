package runners

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/streams"
	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/trust"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/tunnels/identity"
	"switchyard.dev/workflows/jobexec/results"
)

// Service is the name of the Service of the listener, and Port its port.
const (
	Service = "signadot-controller-manager"
	Port    = 9444
)

const (
	maxConnections = 1024
	maxRequest     = 16 << 10
	answerWithin   = 15 * time.Second
	stopWithin     = 3 * time.Second
	// storedWithin bounds a stream from the bucket.
	storedWithin = time.Hour
	// manifestWithin bounds the question whether the bucket has a job: after that a ticket for the pod is issued.
	manifestWithin = 5 * time.Second
)

// Users identifies users by their tokens, as tunnels/access does.
type Users interface {
	// Identify returns the user of a token, which a client at an address has shown.
	Identify(ctx context.Context, token, from string) (identity.User, *tunnelv1.Refused)
}

// Config configures a Main. All fields but Results and the last six are required.
type Config struct {
	// Certificate is that of the listener.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Keys are those of runners; the caller runs it.
	Keys *Keeper
	// Live reads from the API server, without a cache.
	Live client.Reader
	// Tokens verifies tokens of audience layout.Audience.
	Tokens *tokens.Verifier
	// Users identifies users, and Rights reviews their rights.
	Users  Users
	Rights *access.Reviews
	// Accounts are the names of users that get a ticket for any job, and for any capture.
	Accounts []string
	// Results are in the bucket of the operator; nil: it has none.
	Results *results.Kept
	// Metrics registers the metrics.
	Metrics prometheus.Registerer
	// TrafficManager is the name in the certificates of traffic-manager, and Authority returns those that verify them, in
	// PEM. Default: no ticket for a capture is issued.
	TrafficManager string
	Authority      func() string
	// Address is host:port of the listener. Default: Port at all addresses.
	Address string
	// Clock returns the time of certificates. Default: time.Now.
	Clock func() time.Time
	// Logger logs certificates, tickets and refusals. Default: none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Address, c.Logger = cmp.Or(c.Address, fmt.Sprintf(":%d", Port)), cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return c
}

// Validate returns an error if a required field is missing.
func (c Config) Validate() error {
	if c.Certificate == nil || c.Keys == nil || c.Live == nil || c.Tokens == nil || c.Users == nil || c.Rights == nil || c.Metrics == nil {
		return errors.New("runners: a required field of the Config is missing")
	}
	return nil
}

// server implements the service.
type server struct {
	jobexecv1.UnimplementedRunnersServer
	cfg Config
	// checks bounds the reviews of runners' tokens, and requests the calls of each pod and user.
	checks, requests *callers.Pool
	calls            *prometheus.CounterVec
	known            func(remote, user string)
}

// Main is the listener. It is a controller-runtime Runnable that needs no leader election.
type Main struct {
	server *server
	grpc   *grpc.Server
	on     *callers.Listener
}

// New opens the listener. The caller calls Start.
func New(cfg Config) (*Main, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &server{
		cfg:      cfg,
		checks:   callers.NewPool("checks of tokens", callers.Bounds{Each: 4, Strangers: 16, Pods: 256, Rate: 5, Burst: 32}),
		requests: callers.NewPool("calls", callers.Bounds{Each: 8, Pods: 256, Rate: 10, Burst: 50}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "switchyard_runners_calls_total", Help: "Calls of runners and users, by method and status code.",
		}, []string{"method", "code"}),
	}
	if err := cfg.Metrics.Register(s.calls); err != nil {
		return nil, fmt.Errorf("runners: %w", err)
	}
	l, err := callers.Listen(cfg.Address, "runners", maxConnections, callers.WriteWithin, cfg.Logger)
	if err != nil {
		return nil, fmt.Errorf("runners: %w", err)
	}
	l.AwaitHandshakes()
	s.known = l.IdentifyAs
	config := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: cfg.Certificate, SessionTicketsDisabled: true}
	m := &Main{server: s, on: l, grpc: grpc.NewServer(streams.Server{
		Credentials: trust.ServerCredentials(config, false), MaxRequest: maxRequest, MaxHeaders: 64 << 10,
		Idle: 5 * time.Minute, Within: answerWithin, Calls: s.calls,
	}.Options()...)}
	jobexecv1.RegisterRunnersServer(m.grpc, s)
	if cfg.TrafficManager != "" && cfg.Authority != nil {
		trafficv1.RegisterTicketsServer(m.grpc, captures{server: s})
	}
	return m, nil
}

// Address is where the service is served, as host:port.
func (m *Main) Address() string { return m.on.Addr().String() }

// NeedLeaderElection makes controller-runtime run it on every replica.
func (*Main) NeedLeaderElection() bool { return false }

// Start serves until ctx ends, and returns nil then.
func (m *Main) Start(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- m.grpc.Serve(m.on) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve runners on %s: %w", m.Address(), err)
	case <-ctx.Done():
	}
	hard := time.AfterFunc(stopWithin, m.grpc.Stop)
	defer hard.Stop()
	m.grpc.GracefulStop()
	return nil
}

// enter counts a call of a pod or user with a valid token, until leave is called.
func (s *server) enter(ctx context.Context, name, from string) (leave func(), err error) {
	leave, err = s.requests.Enter(callers.Caller{Kind: callers.Pod, Name: name})
	if err != nil {
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	}
	streams.Named(ctx)
	s.known(from, name)
	return leave, nil
}

// Host returns the name of the service in a cluster, which the certificate of the listener is for.
func Host(operatorNamespace string) string { return Service + "." + operatorNamespace + ".svc" }

// At returns where the service is reached, as host:port.
func At(operatorNamespace string) string {
	return net.JoinHostPort(Host(operatorNamespace), fmt.Sprint(Port))
}

package webhook

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/trust/authority"
	"switchyard.dev/sidecars/inject"
)

// Deadlines of the listener. The API server waits 2 s for an answer.
const (
	headerPatience   = time.Second
	requestPatience  = 2 * time.Second
	idlePatience     = 90 * time.Second
	shutdownPatience = 5 * time.Second
	maxHeader        = 16 << 10
	// maxConnections bounds the open connections; for more, those are closed that were silent
	// longest, of the client that has most (callers.Listener). The API servers are the only
	// honest callers, and keep a few each; others reach the port too.
	maxConnections = 512
)

// Config configures an Injector.
type Config struct {
	// REST reaches the API server, for the certificate; no admission review causes
	// a call. Required.
	REST *rest.Config
	// Inject configures the injected containers.
	Inject inject.Config
	// Address is what to listen on. Default ":9443".
	Address string
	// Reviews are further AdmissionReviews that are answered, by the path that they come
	// on. Each ends with its context.
	Reviews map[string]Review
	// Certs configures the certificate. Client is created from REST when it is nil, and Hosts
	// default to the names of the Service signadot-webhook-service.
	Certs authority.Config
	// NamespaceLabels gives the labels of a namespace from a cache, without a
	// call, or nil when they are not known. Default: nil for all, so that only
	// pods themselves, and namespaces the API server selects, ask for sidecars.
	NamespaceLabels func(namespace string) map[string]string
	// Metrics registers the webhook's metrics. Default: none.
	Metrics prometheus.Registerer
	// Log takes what happens. Default slog.Default.
	Log *slog.Logger
}

// Review answers one request for admission. The UID of the answer is set by the caller.
type Review func(context.Context, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse

// Injector is the running webhook. It is a controller-runtime Runnable that
// needs no leader election.
type Injector struct {
	cfg     Config
	keeper  *authority.Keeper
	address atomic.Value // string, once listening
	most    int          // open connections; fewer than maxConnections in tests
}

// New returns an Injector that serves when started, or an error if the Config is not valid. It
// makes no call.
func New(cfg Config) (*Injector, error) {
	if cfg.REST == nil {
		return nil, errors.New("webhook: no configuration to reach the API server")
	}
	cfg.Inject = cfg.Inject.WithDefaults()
	if err := cfg.Inject.Validate(); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	if cfg.Inject.TLS && cfg.Certs.Roots == nil {
		return nil, errors.New("webhook: sidecars need TLS, and Certs.Roots, the authorities that they trust, are missing")
	}
	cfg.Address = cmp.Or(cfg.Address, ":9443")
	cfg.Log = cmp.Or(cfg.Log, slog.Default())
	cfg.Certs.Log = cmp.Or(cfg.Certs.Log, cfg.Log)
	if len(cfg.Certs.Policy.Hosts) == 0 {
		cfg.Certs.Policy.Hosts = ServiceHosts("signadot-webhook-service", "signadot")
	}
	if cfg.Certs.Client == nil {
		var err error
		// It caches nothing: the manager may not list Secrets.
		if cfg.Certs.Client, err = client.New(cfg.REST, client.Options{}); err != nil {
			return nil, fmt.Errorf("webhook: %w", err)
		}
	}
	keeper, err := authority.NewKeeper(cfg.Certs)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	return &Injector{cfg: cfg, keeper: keeper, most: maxConnections}, nil
}

// ServiceHosts are the names by which the API server reaches a Service.
func ServiceHosts(service, namespace string) []string {
	return []string{
		service + "." + namespace + ".svc",
		service + "." + namespace + ".svc.cluster.local",
		service + "." + namespace,
	}
}

// NeedLeaderElection makes controller-runtime run it on every replica.
func (*Injector) NeedLeaderElection() bool { return false }

// Certificate returns the webhook's certificate, for other listeners of the process; it has the form of tls.Config's
// GetCertificate.
func (i *Injector) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return i.keeper.Certificate(hello)
}

// Sign signs the SHA-256 of a message with the key of the operator's authority. It is an error without
// an Injector, which keeps the authority.
func (i *Injector) Sign(message []byte) ([]byte, error) {
	if i == nil {
		return nil, errors.New("the manager runs without its webhook, which keeps the certificate authority")
	}
	return i.keeper.Sign(message)
}

// Ready is a readiness check: nil while reviews can be answered. It ignores the request.
func (i *Injector) Ready(*http.Request) error {
	if i.Addr() == "" {
		return errors.New("the webhook does not listen yet")
	}
	return i.keeper.Ready()
}

// Addr returns the address it listens on, empty before it does.
func (i *Injector) Addr() string {
	address, _ := i.address.Load().(string)
	return address
}

// Start serves until ctx ends, then lets reviews under way finish. It returns
// an error when it cannot listen.
func (i *Injector) Start(ctx context.Context) error {
	cfg := i.cfg
	reviews, err := newReviewer(cfg)
	if err != nil {
		return fmt.Errorf("webhook: %w", err)
	}
	listener, err := callers.Listen(cfg.Address, "webhook", i.most, 0, cfg.Log)
	if err != nil {
		return err
	}
	if err := listener.CountClosed(cfg.Metrics, "switchyard_webhook_connections_closed_total", nil); err != nil {
		return errors.Join(err, listener.Close())
	}
	server := newServer(reviews.handler(), cfg.Log)
	i.address.Store(listener.Addr().String())
	cfg.Log.Info("the injecting webhook listens", "address", i.Addr())

	failed := make(chan error, 1)
	go func() {
		failed <- server.Serve(tls.NewListener(listener, &tls.Config{
			MinVersion:     tls.VersionTLS12,
			NextProtos:     []string{"http/1.1"},
			GetCertificate: i.keeper.Certificate,
		}))
	}()
	keeping, stop := context.WithCancel(ctx)
	defer stop()
	kept := make(chan error, 1)
	go func() { kept <- i.keeper.Run(keeping) }()
	select {
	case err = <-failed:
		err = fmt.Errorf("webhook: %w", err)
	case <-ctx.Done():
		err = shutDown(server)
	}
	stop()
	return errors.Join(err, <-kept)
}

func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerPatience,
		ReadTimeout:       requestPatience,
		WriteTimeout:      2 * requestPatience,
		IdleTimeout:       idlePatience,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// shutDown stops taking reviews and waits for those under way.
func shutDown(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownPatience)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// metrics counts reviews by outcome and times them.
type metrics struct {
	reviews  *prometheus.CounterVec
	duration prometheus.Histogram
}

func newMetrics(to prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "switchyard_webhook_reviews_total",
			Help: "Reviews by the webhook, by outcome: injected, declined (asked for a sidecar and got none), untouched, fault (an error of the injector); objects of the operator: admitted, denied; refused (not a review).",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "switchyard_webhook_review_seconds",
			Help:    "Time from the request's headers to the answer.",
			Buckets: []float64{.0001, .0002, .0005, .001, .002, .005, .01, .05, .2, 1, 2},
		}),
	}
	if to == nil {
		return m, nil
	}
	if err := errors.Join(to.Register(m.reviews), to.Register(m.duration)); err != nil {
		return nil, fmt.Errorf("register the webhook's metrics (two webhooks in one process need a registry each): %w", err)
	}
	return m, nil
}

func (m *metrics) count(outcome string, began time.Time) {
	m.reviews.WithLabelValues(outcome).Inc()
	m.duration.Observe(time.Since(began).Seconds())
}

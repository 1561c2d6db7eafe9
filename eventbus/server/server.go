package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
)

// Config configures a Server.
type Config struct {
	Settings Settings
	// Reviews is the API that vouches for the clients' tokens.
	Reviews authenticationv1.TokenReviewInterface
	Logger  *slog.Logger
}

// Server is the running program.
type Server struct {
	// bus is nil until the store is open for the first time.
	bus             atomic.Pointer[embedded.Server]
	health, metrics *callers.Listener
	// serving ends with the first of its goroutines that fails, or with stop.
	serving *errgroup.Group
	ctx     context.Context
	stop    context.CancelFunc
}

// Name is the host by which clients know the bus, and that its certificate must be for.
const Name = "eventbus.signadot.svc"

// maxConnections bounds the open connections of each of the two listeners for
// HTTP; for more, silent ones are closed.
const maxConnections = 256

// A token that claims to be for the bus, and is not cached, costs a review by the API server.
// One address can have a few of those at once, so that forged tokens from one address do not
// keep other clients from being authenticated.
const (
	questionsEach  = 4
	questionsInAll = 64
)

// Start opens the listeners and the log. Health and metrics are served from the
// beginning, since reading a large log takes a while. Run goes on, Close ends
// all.
func Start(c Config) (*Server, error) {
	folder, err := openFolder(c)
	if err != nil {
		return nil, err
	}
	verifier, err := tokens.New(tokens.Config{Reviews: c.Reviews, Audience: c.Settings.Audience})
	if err != nil {
		return nil, err
	}
	questions := callers.NewPool("tokens that are not known yet", callers.Bounds{Each: questionsEach, Strangers: questionsInAll})
	s := &Server{}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.serving, s.ctx = errgroup.WithContext(ctx)
	if s.health, err = callers.Listen(c.Settings.Health, "health", maxConnections, 0, c.Logger); err != nil {
		s.Close()
		return nil, err
	}
	if s.metrics, err = callers.Listen(c.Settings.Metrics, "metrics", maxConnections, 0, c.Logger); err != nil {
		s.Close()
		return nil, err
	}
	s.serve()
	bus, err := embedded.Start(embedded.Config{
		StoreDir: c.Settings.StoreDir, Listen: c.Settings.Listen, MaxStore: c.Settings.MaxStore, Records: c.Settings.Records, Logger: c.Logger,
		TLS: s.secure(folder), RequireTLS: !c.Settings.AcceptPlain,
		Authenticate: func(ctx context.Context, token string) (connect.Role, error) {
			who, err := verifier.VerifyAdmitted(ctx, token, func(*tokens.Claim) (func(), error) { return questions.Enter(callers.From(ctx)) })
			if err != nil {
				return 0, err
			}
			return c.Settings.RoleOf(who)
		},
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	s.bus.Store(bus)
	c.Logger.Info("the event bus has started", "listen", bus.Addr().String(), "store", c.Settings.StoreDir, "ready", s.ready() == nil)
	return s, nil
}

// openFolder opens the folder with the certificate; nil when there is to be none.
func openFolder(c Config) (*trust.Folder, error) {
	if c.Settings.TLSDir == "" {
		return nil, nil
	}
	return trust.Open(trust.Config{Dir: c.Settings.TLSDir, Name: Name, Logger: c.Logger})
}

// secure returns the TLS configuration for the certificate in a folder, which is watched from
// now on; nil without one.
func (s *Server) secure(folder *trust.Folder) *tls.Config {
	if folder == nil {
		return nil
	}
	s.serving.Go(func() error { return folder.Run(s.ctx) })
	return folder.Server()
}

// Addresses are where the program listens.
func (s *Server) Addresses() (bus, health, metrics net.Addr) {
	return s.bus.Load().Addr(), s.health.Addr(), s.metrics.Addr()
}

// serve begins to serve HTTP.
func (s *Server) serve() {
	health := http.NewServeMux()
	health.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	health.HandleFunc("GET /readyz", s.answerReady)
	metrics := http.NewServeMux()
	metrics.Handle("GET /metrics", scrapes.New(program.Registry(collector{s})))
	s.serving.Go(func() error { return callers.ServeProbes(s.ctx, s.health, health) })
	s.serving.Go(func() error { return callers.ServeProbes(s.ctx, s.metrics, metrics) })
}

// Run serves until ctx ends, and returns nil then, or until something fails.
func (s *Server) Run(ctx context.Context) error {
	ended := context.AfterFunc(ctx, s.stop)
	defer ended()
	s.serving.Go(func() error {
		select {
		case <-s.ctx.Done():
			return nil
		case err := <-s.bus.Load().Failed():
			return err
		}
	})
	return s.serving.Wait()
}

// Close ends all that Start began. Facts that were acknowledged are on disk.
func (s *Server) Close() {
	s.stop()
	_ = callers.Close(s.health, s.metrics) // closed already when they have been served
	if bus := s.bus.Load(); bus != nil {
		bus.Close()
	}
}

// ready returns why the log cannot be served, nil when it can.
func (s *Server) ready() error {
	bus := s.bus.Load()
	if bus == nil {
		return errors.New("the store is being opened and verified")
	}
	return bus.Ready()
}

func (s *Server) answerReady(w http.ResponseWriter, _ *http.Request) {
	if err := s.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

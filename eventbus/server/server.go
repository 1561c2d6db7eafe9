package server

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
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

// Settings is the command line of the program.
type Settings struct {
	// StoreDir is the directory of the log.
	StoreDir string
	// Listen, Health and Metrics are the addresses to listen on.
	Listen, Health, Metrics string
	// Audience is what the clients' tokens must be made for.
	Audience string
	// Writers and Followers are service accounts, as namespace/name.
	Writers, Followers []string
	// Recorders add to the records of connections, and Auditors read them.
	Recorders, Auditors []string
	// Records bounds these; without Bytes there are none.
	Records embedded.Records
	// MaxStore bounds the files on disk, in bytes.
	MaxStore int64
	// TLSDir is the folder with the certificate for clients, "" for none. AcceptPlain lets
	// clients in that do not want TLS.
	TLSDir      string
	AcceptPlain bool
	// LogLevel is the least level that is logged.
	LogLevel slog.Level
}

// ParseSettings parses the command line, without the program's name. Errors and the answer to
// -help are written to out.
func ParseSettings(args []string, getenv func(string) string, out io.Writer) (Settings, error) {
	var s Settings
	defaults, err := program.ReadDefaults(getenv)
	if err != nil {
		return Settings{}, err
	}
	flags := flag.NewFlagSet("eventbus", flag.ContinueOnError)
	flags.StringVar(&s.StoreDir, "store", "", "`directory` for the log; it must be on a disk that keeps what was synced")
	flags.StringVar(&s.Listen, "listen", ":4222", "`address` for clients")
	flags.StringVar(&s.Health, "health", ":8081", "`address` for /healthz and /readyz")
	flags.StringVar(&s.Metrics, "metrics", ":9090", "`address` for /metrics")
	flags.StringVar(&s.Audience, "audience", "eventbus.signadot.svc", "`audience` that the clients' tokens must be made for")
	flags.Func("writer-service-account", "service account that writes, as `namespace/name`; several with commas or by repeating (default signadot/signadot-controller-manager)", program.List(&s.Writers))
	flags.Func("follower-service-account", "service account that reads, as `namespace/name`; several with commas or by repeating (default signadot/routeserver)", program.List(&s.Followers))
	flags.Func("recorder-service-account", "service account that adds to the records of connections, as `namespace/name`; several with commas or by repeating", program.List(&s.Recorders))
	flags.Func("auditor-service-account", "service account that reads the records of connections, as `namespace/name`; several with commas or by repeating", program.List(&s.Auditors))
	flags.Int64Var(&s.Records.Bytes, "records-bytes", 0, "`bytes` that the records of connections may take on disk, beside --max-store; 0: none are kept")
	flags.DurationVar(&s.Records.Age, "records-age", 0, "how long a record of a connection is kept; 0: until there is no room")
	flags.Int64Var(&s.MaxStore, "max-store", 700<<20, "`bytes` that the log may take on disk; at most 70 per cent of the volume")
	flags.StringVar(&s.TLSDir, "tls-dir", "", "`directory` with tls.crt, tls.key and ca.crt, to speak TLS with clients; it is read again when it changes. Empty: plain only")
	plain := program.AcceptPlain(flags, defaults, &s.AcceptPlain, "accept clients that do not speak TLS: programs of an earlier release")
	flags.TextVar(&s.LogLevel, "log-level", slog.LevelInfo, "least `level` to log: debug, info, warn or error")
	if err := program.Parse(flags, args, out); err != nil {
		return Settings{}, err
	}
	plain(s.TLSDir != "")
	if len(s.Writers) == 0 {
		s.Writers = []string{"signadot/signadot-controller-manager"}
	}
	if len(s.Followers) == 0 {
		s.Followers = []string{"signadot/routeserver"}
	}
	return s, s.validate()
}

func (s Settings) validate() error {
	if s.StoreDir == "" {
		return errors.New("--store is missing; name the directory for the log")
	}
	if s.TLSDir == "" && !s.AcceptPlain {
		return errors.New("--accept-plain=false needs --tls-dir: without a certificate no client could connect")
	}
	for _, account := range slices.Concat(s.Writers, s.Followers, s.Recorders, s.Auditors) {
		namespace, name, ok := strings.Cut(account, "/")
		if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("service account %q must be namespace/name", account)
		}
	}
	return nil
}

// RoleOf returns the role of a client. A service account that is both is a writer, which can
// read too.
func (s Settings) RoleOf(who tokens.Identity) (connect.Role, error) {
	for _, of := range []struct {
		accounts []string
		role     connect.Role
	}{{s.Writers, connect.Writer}, {s.Followers, connect.Follower}, {s.Recorders, connect.Recorder}, {s.Auditors, connect.Auditor}} {
		if slices.Contains(of.accounts, who.String()) {
			return of.role, nil
		}
	}
	return 0, fmt.Errorf("service account %s may neither write nor follow the log; see --writer-service-account and --follower-service-account", who)
}

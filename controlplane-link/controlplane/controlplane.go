// Package controlplane is the process of a control plane: agents of clusters connect to it, and users
// with API keys or a login use its REST API, and reach Services of the clusters.
//
//   - agents      sessions of agents (controlplane-link/server)
//   - api         the REST API (rest), over TLS, and the pages for logins
//   - proxy       users' connections to Services (controlplane-link/users), over TLS
//   - previews    previews of endpoints (controlplane-link/preview), over TLS
//   - replicas    connections that other replicas forward, in mutual TLS
//   - metrics     /metrics, /healthz and /readyz
//
// Its state is in a store: SQLite for one replica, PostgreSQL for several.
package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/controlplane-link/controlplane/admin"
	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/delivery"
	"switchyard.dev/controlplane-link/controlplane/jobs"
	"switchyard.dev/controlplane-link/controlplane/jobstore"
	"switchyard.dev/controlplane-link/controlplane/live"
	"switchyard.dev/controlplane-link/controlplane/login"
	"switchyard.dev/controlplane-link/controlplane/rest"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/controlplane-link/issuer"
	"switchyard.dev/controlplane-link/preview/access"
	"switchyard.dev/controlplane-link/preview/endpoints"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/controlplane-link/users"
	"switchyard.dev/controlplane-link/web"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/callers/scrapes"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/routeserver/page"
	"switchyard.dev/workflows/jobexec/results"
)

// Config configures a Main.
type Config struct {
	// AgentsAddress, APIAddress, ProxyAddress, MetricsAddress and ReplicasAddress are those of the listeners,
	// host:port. Without other replicas the last is empty.
	AgentsAddress, APIAddress, ProxyAddress, MetricsAddress, ReplicasAddress string
	// Store is that of the state.
	Store store.Config
	// Link configures the sessions of agents: Replica and Replicas are required where there are other replicas.
	Link server.Config
	// TLS has the certificate for agents and users. Required. Replicas has that for other replicas.
	TLS, Replicas *trust.Folder
	// SigningKey is the file with the private key of credentials for workstations. Default: none are issued.
	SigningKey string
	// Login are the settings of logins, and URL is the origin of their pages. Default: there are none.
	Login *login.Settings
	URL   string
	// Previews are the settings of previews.
	Previews Previews
	// Organisation is created if it does not exist, and its first administrator gets the key of FirstKey. Default: none.
	Organisation string
	FirstKey     *admin.Secret
	// Proxies are the addresses of proxies in front of the API and of previews: their clients have no share of their own
	// in the limits.
	Proxies []netip.Prefix
	// KeepEvents and KeepDevboxes are how long entries of the audit trail, and devboxes that are not used, are
	// kept. Zero: for ever.
	KeepEvents, KeepDevboxes time.Duration
	// Artifacts configures where the output and artifacts of jobs are kept, and KeepJobs is how long, with the jobs that have
	// ended. Zero: for ever.
	Artifacts results.Config
	KeepJobs  time.Duration
	// Captures bounds captures of requests, which are kept where artifacts are, and KeepCaptures is how long. Zero: for ever.
	Captures     captures.Limits
	KeepCaptures time.Duration
	// SmartTest is the path of the interpreter of Smart Tests in its image. Default: /smart-test.
	SmartTest string
	// Logger is required.
	Logger *slog.Logger
}

// Main is the control plane. Make one with New.
type Main struct {
	// Listeners are agents, api, proxy, metrics and, where there are any, previews and replicas.
	Listeners map[string]*callers.Listener

	cfg      Config
	metrics  *prometheus.Registry
	store    *store.Store
	link     *server.Server
	delivery *delivery.Delivery
	rest     *rest.Handler
	pages    *login.Handler // nil: there are no logins
	web      *web.Handler   // nil: there are no logins
	keys     *Keys
	users    *users.Handler
	previews *previews          // nil: there are none
	kept     *results.Kept      // nil: no output of jobs is kept
	captures *captures.Recorder // nil: no request is recorded
	unread   atomic.Bool        // the store cannot be read
	begun    bool               // the organisation has an administrator
}

// New opens the store and the listeners. The caller calls Run, which closes them.
func New(ctx context.Context, c Config) (_ *Main, err error) {
	m := &Main{cfg: c, metrics: program.Registry()}
	var signs *issuer.Issuer
	if c.SigningKey != "" {
		if signs, err = issuer.Open(c.SigningKey); err != nil {
			return nil, err
		}
		c.Link.Keys = signs
	}
	c.Store.Logger = c.Logger
	if m.store, err = store.Open(ctx, c.Store); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	c.Link.TLS, c.Link.Logger, c.Link.Registry, c.Link.Tokens = c.TLS.Server(), c.Logger, store.Registry{Store: m.store}, &store.Tokens{Store: m.store}
	if m.link, err = server.New(c.Link); err != nil {
		return nil, err
	}
	addresses := map[string]string{"agents": c.AgentsAddress, "api": c.APIAddress, "proxy": c.ProxyAddress, "metrics": c.MetricsAddress, "replicas": c.ReplicasAddress}
	if len(c.Previews.Domains) > 0 {
		addresses["previews"] = c.Previews.Address
	}
	if m.Listeners, err = callers.Listeners(addresses, server.MostConnections, m.metrics, "switchyard_link_connections_closed_total", c.Logger); err != nil {
		return nil, err
	}
	m.keys = NewKeys(m.store, c.Logger)
	if m.users, err = users.New(m.keys, m.link, m.Listeners["proxy"], signs, m.metrics, c.Logger); err != nil {
		return nil, err
	}
	if m.kept, err = results.Open(c.Artifacts); err != nil {
		return nil, err
	}
	deliver := delivery.Config{Store: m.store, Server: m.link, Logger: c.Logger, SmartTest: c.SmartTest}
	if m.kept != nil {
		m.captures = &captures.Recorder{Store: captures.Store{Store: m.store, Limits: c.Captures.WithDefaults()}, Server: m.link, Files: m.kept.Backend, Client: m.client, Logger: c.Logger}
		deliver.Captures = &m.captures.Store
		deliver.Collect, deliver.Discard, deliver.Output = (&jobs.Collector{Kept: m.kept, Dial: m.dial}).Collect, m.discard, m.output
	}
	m.delivery = delivery.New(deliver)
	if m.Listeners["previews"] != nil {
		if err = m.openPreviews(ctx); err != nil {
			return nil, err
		}
	}
	if err = m.handle(); err != nil {
		return nil, err
	}
	m.link.Register(m.metrics)
	return m, nil
}

// forwards reports the addresses of proxies in front of the listeners of users.
func (m *Main) forwards(a netip.Addr) bool {
	return slices.ContainsFunc(m.cfg.Proxies, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
}

// handle makes the handlers of the REST API and of the pages for logins.
func (m *Main) handle() (err error) {
	s, read := m.store, live.Clusters{Reader: m.reader, Operator: clusterconfig.OperatorNamespace}
	c := rest.Config{Store: s, Live: read, Now: time.Now, Identified: m.Listeners["api"].IdentifyAs, Refused: callers.Refused, Forwards: m.forwards, Logger: m.cfg.Logger}
	c.Kept, c.Captures, c.Streams = m.kept, m.captures, &jobs.Streams{Store: jobstore.Store{Store: s}, Keys: m.cfg.Store.Keys, Kept: m.kept, Dial: m.dial}
	var sites access.Sites
	c.Previews = endpoints.Domains(nil).Of
	if m.previews != nil {
		c.Previews, sites = m.previews.sites.Of, m.previews.sites.Site
	}
	if m.cfg.Login != nil {
		m.pages, err = login.New(login.Config{Settings: m.cfg.Login, Store: s, Keys: m.cfg.Store.Keys, URL: m.cfg.URL, Previews: sites, Now: time.Now, Forwards: m.forwards, Logger: m.cfg.Logger})
		if err != nil {
			return err
		}
		c.LoginURL = m.pages.DeviceURL()
		m.web = web.New(web.Config{Login: m.pages, Store: s, Now: time.Now, Logger: m.cfg.Logger, Live: read, Captures: m.captures, Previews: c.Previews, Problems: m.problems, Identified: c.Identified})
	}
	m.rest = rest.New(c)
	return nil
}

// serve answers a request to the API or to the pages. No path of the API is changed or redirected, as by a ServeMux.
func (m *Main) serve(w http.ResponseWriter, r *http.Request) {
	switch isAPI := strings.HasPrefix(r.URL.Path, "/api/"); {
	case m.pages != nil && strings.HasPrefix(r.URL.Path, login.Prefix):
		m.pages.ServeHTTP(w, r)
	case m.web != nil && !isAPI:
		m.web.ServeHTTP(w, r)
	case m.web == nil && r.URL.Path == "/" && page.AcceptsHTML(r):
		web.NoLogins.ServeHTTP(w, r)
	default:
		m.rest.ServeHTTP(w, r)
	}
}

// Link returns the server of the link, and Store the store.
func (m *Main) Link() *server.Server { return m.link }

// Store returns the store.
func (m *Main) Store() *store.Store { return m.store }

// close closes the store and the listeners that were opened.
func (m *Main) close() error {
	for _, l := range m.Listeners {
		_ = l.Close() // it may be closed
	}
	return errors.Join(m.store.Close(), m.kept.Close())
}

// Limits of the REST API. An answer about all workloads of a cluster takes a while.
const (
	readWithin  = 30 * time.Second
	writeWithin = 2 * time.Minute
	stopWithin  = 5 * time.Second
)

// serveAPI serves the REST API and the pages until ctx ends.
func (m *Main) serveAPI(ctx context.Context) error {
	s := callers.ProbeServer(http.HandlerFunc(m.serve))
	s.ReadTimeout, s.WriteTimeout, s.ErrorLog = readWithin, writeWithin, callers.ErrorLog(m.cfg.Logger)
	if m.web != nil {
		m.web.Watch(ctx)
	}
	return callers.Serve(ctx, s, tls.NewListener(m.Listeners["api"], callers.BegunTLS(m.cfg.TLS.Server())), stopWithin)
}

// Run serves until ctx ends. Agents are then asked to connect to another replica, while users are still
// served; their requests end after that. It closes the store and the listeners.
func (m *Main) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, m.close()) }()
	all, serving := errgroup.WithContext(context.WithoutCancel(ctx))
	working, leave := context.WithCancel(serving)
	defer context.AfterFunc(ctx, leave)()
	accepting, refuse := context.WithCancel(serving)
	defer refuse()
	serving, stop := context.WithCancel(serving)
	run := func(ctx context.Context, do func(context.Context) error) { all.Go(func() error { return do(ctx) }) }
	for _, do := range []func(context.Context) error{m.cfg.TLS.Run, m.keys.Watch, m.serveAgents, m.serveMetrics, m.serveCommands} {
		run(serving, do)
	}
	if m.cfg.Replicas != nil {
		run(serving, m.cfg.Replicas.Run)
		run(serving, func(ctx context.Context) error { return m.link.ServeReplicas(ctx, m.Listeners["replicas"]) })
	}
	run(working, m.watchAgents)
	run(working, m.keepHouse)
	if m.cfg.KeepJobs > 0 {
		run(working, m.keepJobs)
	}
	run(working, m.delivery.Run)
	if m.captures != nil {
		run(working, m.captures.Run)
		run(working, m.keepCaptures)
	}
	if m.previews != nil {
		run(serving, m.previews.certificates.Run)
		run(serving, m.watchPreviews)
	}
	if first := m.cfg.FirstKey; first != nil {
		run(working, func(ctx context.Context) error {
			return admin.Handover(ctx, m.store, m.cfg.Organisation, first, m.cfg.Logger)
		})
	}
	run(serving, func(context.Context) error {
		defer stop()
		users, accepting := errgroup.WithContext(accepting)
		users.Go(func() error { return m.users.Serve(accepting, m.cfg.TLS.Server()) })
		users.Go(func() error { return m.serveAPI(accepting) })
		if m.previews != nil {
			users.Go(func() error { return m.previews.handler.Serve(accepting) })
		}
		return users.Wait()
	})
	run(working, func(ctx context.Context) error {
		<-ctx.Done()
		m.link.Drain(serving)
		refuse()
		return nil
	})
	return all.Wait()
}

func (m *Main) serveAgents(ctx context.Context) error {
	return m.link.Serve(ctx, m.Listeners["agents"])
}

// serveCommands serves commands of administrators in the same container.
func (m *Main) serveCommands(ctx context.Context) error {
	return admin.Server{Store: m.store, Adopt: m.adopt}.Serve(ctx, m.cfg.Logger)
}

func (m *Main) serveMetrics(ctx context.Context) error {
	return callers.ServeProbes(ctx, m.Listeners["metrics"], scrapes.Mux(m.metrics, func() string {
		switch {
		case m.link.Draining():
			return "this replica is ending"
		case m.unread.Load():
			return "the store cannot be read"
		}
		return ""
	}))
}

package routing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/reverse"
	jobexecv1 "switchyard.dev/protos/gen/jobexec/v1"
	"switchyard.dev/xds/routingkey"
)

const (
	// headersWithin bounds the headers of a request, and dialWithin the time to connect.
	headersWithin, dialWithin = 30 * time.Second, 30 * time.Second
	// idleWithin is how long a client can keep an unused connection.
	idleWithin = 5 * time.Minute
	// keptFor is how long unused connections to servers are kept: shorter than servers keep them.
	keptFor = 4 * time.Second
	// maxConnections bounds the connections of scripts; more close those that have been silent longest.
	maxConnections = 1024
	// maxHeaders bounds the headers of requests and responses, in bytes.
	maxHeaders = 1 << 20
)

// Config configures a Proxy.
type Config struct {
	// Address is where to listen: a port of 127.0.0.1. Required.
	Address string
	// Redirect is the port on the loopback addresses where redirected connections arrive. 0: none are redirected.
	Redirect int
	// MaxRedirected is the maximum number of redirected connections; more wait. Default: 2048.
	MaxRedirected int
	// Others are the names of other containers of the pod, which redirect connections too. Default: none.
	Others string
	// Service is the address of any Service of the cluster. Default: none.
	Service string
	// Dial connects to servers. Default: net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Logger and Metrics. Default: none.
	Logger  *slog.Logger
	Metrics prometheus.Registerer
}

// Proxy is the proxy. Make one with New.
type Proxy struct {
	cfg     Config
	on      *callers.Listener
	shared  *http.Transport
	tunnels *tunnels
	// redirects are the listeners of redirected connections, and slots has one for each that is open.
	redirects []net.Listener
	slots     chan struct{}
	// now is the execution that runs; nil: none that uses the proxy.
	now atomic.Pointer[Execution]
}

// Execution is an execution with requests that the proxy forwards. It is safe for concurrent use.
type Execution struct {
	key, caveat string
	// headers are the custom headers of the cluster.
	headers       []string
	with, without atomic.Uint64
}

// New listens. The caller calls Run.
func New(cfg Config) (*Proxy, error) {
	if host, _, err := net.SplitHostPort(cfg.Address); err != nil || host != "127.0.0.1" {
		return nil, fmt.Errorf("the proxy for scripts cannot listen on %q: use a port of 127.0.0.1", cfg.Address)
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	all, err := callers.Listeners(map[string]string{"scripts": cfg.Address}, maxConnections, cfg.Metrics, "switchyard_jobexec_script_connections_closed_total", cfg.Logger)
	if err != nil {
		return nil, err
	}
	p := &Proxy{cfg: cfg, on: all["scripts"], tunnels: newTunnels(all["scripts"].Addr()), slots: make(chan struct{}, cmp.Or(cfg.MaxRedirected, 2048))}
	if cfg.Redirect != 0 {
		if p.redirects, err = listenRedirected(cfg.Redirect); err != nil {
			return nil, errors.Join(err, p.on.Close())
		}
	}
	p.shared = transport(false, p.dial)
	p.shared.MaxIdleConns, p.shared.MaxIdleConnsPerHost = 256, 32
	return p, nil
}

// Address is where the proxy is, as host:port.
func (p *Proxy) Address() string { return p.on.Addr().String() }

// Close closes a Proxy that does not run.
func (p *Proxy) Close() error {
	errs := []error{p.on.Close()}
	for _, l := range p.redirects {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Begin forwards the requests of an execution from now on, and of no other; nil: its script uses no proxy. noProxy are
// the values of no_proxy in the main container. restarted reports that requests before were not counted.
func (p *Proxy) Begin(r *jobexecv1.RunRequest, noProxy []string, restarted bool) *Execution {
	if !Uses(r) {
		p.now.Store(nil)
		return nil
	}
	e := &Execution{}
	if r.GetRouting().GetInject() {
		e.key, e.headers = r.GetRouting().GetRoutingKey(), r.GetRouting().GetCustomHeaders()
	}
	var env [][2]string
	for _, v := range r.GetEnv() {
		env = append(env, [2]string{v.GetName(), v.GetValue()})
	}
	found := []string{overridden(env)}
	switch {
	case len(p.redirects) == 0:
		found[0] = caveat(env, noProxy, p.cfg.Service)
	case p.cfg.Others != "":
		found = append(found, "Requests of other containers of the pod ("+p.cfg.Others+") get the routing key and count too: the counts do not show whether the script sent any")
	}
	if restarted {
		found = append(found, "Container job-executor-proxy was restarted while the script ran: requests before are not counted")
	}
	e.caveat = sentences(found)
	p.now.Store(e)
	return e
}

// Uses reports whether the script of a request uses the proxy.
func Uses(r *jobexecv1.RunRequest) bool {
	return r.GetRouting().GetInject() || r.GetRouting().GetTrafficManager()
}

// End forwards no more requests of an execution, which can be nil.
func (p *Proxy) End(e *Execution) {
	if e != nil && p.now.CompareAndSwap(e, nil) {
		p.shared.CloseIdleConnections()
	}
}

// Count returns the requests so far; nil for an execution that does not use the proxy.
func (e *Execution) Count() *jobexecv1.RoutingCount {
	if e == nil {
		return nil
	}
	return &jobexecv1.RoutingCount{WithKey: e.with.Load(), WithoutKey: e.without.Load(), Caveat: e.caveat}
}

// add adds the key to a request that has none, and counts it.
func (e *Execution) add(h http.Header) {
	e.count(routingkey.Add(textproto.MIMEHeader(h), e.key, e.headers) != "")
}

func (e *Execution) count(with bool) {
	if with {
		e.with.Add(1)
	} else {
		e.without.Add(1)
	}
}

// Run serves until ctx ends, and cuts all connections then.
func (p *Proxy) Run(ctx context.Context) error {
	defer p.shared.CloseIdleConnections()
	outer, inner := server(http.HandlerFunc(p.serve)), server(http.HandlerFunc(p.inside))
	inner.ConnContext = withTunnel
	inner.Protocols.SetUnencryptedHTTP2(true)
	all, ctx := errgroup.WithContext(ctx)
	outer.BaseContext = func(net.Listener) context.Context { return ctx }
	all.Go(func() error { return callers.Serve(ctx, outer, p.on, time.Millisecond) })
	for _, l := range p.redirects {
		all.Go(func() error { return p.serveRedirected(ctx, l) })
	}
	all.Go(func() error { return callers.Serve(ctx, inner, p.tunnels, time.Millisecond) })
	return all.Wait()
}

// server returns a server for HTTP/1.
func server(h http.Handler) *http.Server {
	s := &http.Server{Handler: h, ReadHeaderTimeout: headersWithin, IdleTimeout: idleWithin, MaxHeaderBytes: maxHeaders,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), DisableGeneralOptionsHandler: true, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	return s
}

// transport returns a transport for HTTP/2 without TLS, or for HTTP/1.
func transport(two bool, dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	t := &http.Transport{DialContext: dial, DisableCompression: true, IdleConnTimeout: keptFor, MaxResponseHeaderBytes: maxHeaders,
		ExpectContinueTimeout: time.Second, Protocols: new(http.Protocols)}
	t.Protocols.SetHTTP1(!two)
	t.Protocols.SetUnencryptedHTTP2(two)
	return t
}

func (p *Proxy) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWithin)
	defer cancel()
	return p.cfg.Dial(ctx, network, address)
}

// serve serves a request to the proxy.
func (p *Proxy) serve(out http.ResponseWriter, r *http.Request) {
	e := p.now.Load()
	switch {
	case e == nil:
		refuse(out, http.StatusServiceUnavailable, "no job with trafficManager runs in this pod")
	case r.Method == http.MethodConnect:
		p.connect(out, r, e)
	case r.URL.IsAbs() && r.URL.Scheme == "http" && r.URL.Host != "":
		e.forward(out, r, r.URL.Host, p.shared)
	default:
		refuse(out, http.StatusBadRequest, "this is an HTTP proxy: it takes CONNECT, and requests with an absolute URL that begins with http://")
	}
}

func refuse(out http.ResponseWriter, status int, text string) {
	out.Header().Set("X-Switchyard", "job-executor-proxy")
	http.Error(out, text, status)
}

// forward sends a request to a server, with the key, and its response to the client.
func (e *Execution) forward(out http.ResponseWriter, r *http.Request, to string, by http.RoundTripper) {
	if r.ProtoMajor == 1 {
		_ = http.NewResponseController(out).EnableFullDuplex() // a server can respond before it has the whole request
	}
	// A response without them stays so.
	out.Header()["Content-Type"], out.Header()["Date"] = nil, nil
	proxy := &httputil.ReverseProxy{
		Transport: by, FlushInterval: -1, ModifyResponse: reverse.StatusAsTrailer,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		Rewrite:  func(p *httputil.ProxyRequest) { rewrite(p, to); e.add(p.Out.Header) },
		ErrorHandler: func(out http.ResponseWriter, _ *http.Request, err error) {
			refuse(out, http.StatusBadGateway, fmt.Sprintf("%s cannot be reached: %v", to, err))
		},
	}
	proxy.ServeHTTP(out, r)
}

// rewrite makes a request what the client has sent, but for headers that are meant for the proxy.
func rewrite(p *httputil.ProxyRequest, to string) {
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", to, p.In.Host
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	path := pathOf(p.In.RequestURI)
	if strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") {
		p.Out.URL.Opaque = path // as the client has written it
	}
	for name, values := range p.In.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || name == "Forwarded" {
			p.Out.Header[name] = values // ReverseProxy removes them
		}
	}
	if strings.EqualFold(p.Out.Header.Get("Upgrade"), "h2c") { // later requests would pass without the key
		for _, name := range []string{"Upgrade", "Connection", "Http2-Settings"} {
			p.Out.Header.Del(name)
		}
	}
	p.Out.Trailer = p.In.Trailer // it has its values after the body
}

// pathOf returns the path of the target of a request as the client has written it.
func pathOf(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if _, rest, absolute := strings.Cut(path, "://"); absolute && !strings.HasPrefix(path, "/") {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	return path
}

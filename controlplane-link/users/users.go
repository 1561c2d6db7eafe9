// Package users gives users of a control plane access to Services of clusters, over HTTP/1.1: by
// CONNECT, and as a reverse proxy for requests with a Service as their host.
//
//   - A request shows an API key and names its cluster. The headers that have the key are not
//     forwarded, and no log has anything that a client sent.
//   - A key reaches Services only: no request is forwarded to the Kubernetes API.
//   - A key gets credentials for the tunnel proxies of its clusters (controlplane-link/issuer).
//   - Until it is authenticated, a request has deadlines for both directions; one for a credential also for its
//     body.
//   - Requests and connections end when their key is removed, or loses the cluster.
package users

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/controlplane-link/credentials"
	"switchyard.dev/controlplane-link/issuer"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/reread"
	"switchyard.dev/tunnels/relay"
)

const (
	openWithin, stopWithin = 30 * time.Second, 5 * time.Second
	maxHead                = 64 << 10
	// refusedAfter is how long a request without a valid key waits for its answer, except for the first of a connection
	// without any: clients may send a key only where one is requested.
	refusedAfter = 250 * time.Millisecond
	// each is how many requests and connections one user may have at a time.
	each = 1024
	// statusClosed is in logs and metrics where the client did not wait for the answer, as with nginx.
	statusClosed = 499
)

// Keys authenticates users. It is safe for concurrent use.
type Keys interface {
	// Find returns the key that a client has sent from an address, host:port; nil: it is not known.
	Find(ctx context.Context, sent, from string) (*credentials.Key, error)
	// WhileValid returns once a key is not one of the same user with the same roles any more, or does not reach the
	// cluster, or ctx has ended.
	WhileValid(ctx context.Context, k *credentials.Key, cluster string)
}

// File are the keys in a file.
type File struct{ *reread.File[credentials.File] }

// Find implements Keys.
func (f File) Find(_ context.Context, sent, _ string) (*credentials.Key, error) {
	return f.Current().Find(sent), nil
}

// WhileValid implements Keys.
func (f File) WhileValid(ctx context.Context, k *credentials.Key, cluster string) {
	f.Until(ctx, func(now *credentials.File) bool { return !now.Has(k, cluster) })
}

// Handler serves users. Make one with New.
type Handler struct {
	keys     Keys
	server   *server.Server
	on       *callers.Listener
	issuer   *issuer.Issuer
	grants   *callers.Pool
	logger   *slog.Logger
	pool     *callers.Pool
	forward  *httputil.ReverseProxy
	requests *prometheus.CounterVec
}

// New returns a Handler for a listener of users. Without an Issuer it issues no credentials.
func New(keys Keys, to *server.Server, on *callers.Listener, by *issuer.Issuer, metrics prometheus.Registerer, logger *slog.Logger) (*Handler, error) {
	h := &Handler{
		keys: keys, server: to, on: on, issuer: by, logger: logger, pool: callers.NewPool("requests", callers.Bounds{Each: each, Pods: callers.AnyNumber}),
		grants:   callers.NewPool("credentials", callers.Bounds{Each: each, Pods: callers.AnyNumber, Rate: 1, Burst: 20}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "switchyard_link_requests_total", Help: "Requests of users that have an API key, and refusals by status."}, []string{"result"}),
	}
	// Idle connections end before a former agent, which lingers while there are some, cuts them.
	services := &http.Transport{DialContext: h.dial, DisableCompression: true, MaxIdleConns: each, IdleConnTimeout: 10 * time.Second, MaxResponseHeaderBytes: 1 << 20}
	h.forward = &httputil.ReverseProxy{
		Transport: services, Rewrite: h.rewrite, FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { h.answer(w, r, because(r.Context(), err)) },
	}
	return h, metrics.Register(h.requests)
}

// Serve serves users until ctx ends. Requests have some seconds to end then; the connections of
// CONNECT are cut.
func (h *Handler) Serve(ctx context.Context, config *tls.Config) error {
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	s := callers.ProbeServer(h) // its deadlines apply until a request is authenticated
	s.MaxHeaderBytes, s.ErrorLog = maxHead, callers.ErrorLog(h.logger)
	s.BaseContext = func(net.Listener) context.Context { return requests }
	s.ConnContext = connected
	return callers.Serve(ctx, s, tls.NewListener(h.on, callers.BegunTLS(config)), stopWithin)
}

// connected returns the context of a connection.
func connected(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, askedKey{}, new(atomic.Bool))
}

// targetKey is the key of the target in the context of a request, and askedKey that of whether a request of the same
// connection was answered that had no API key.
type (
	targetKey struct{}
	askedKey  struct{}
)

func targetOf(ctx context.Context) target {
	t, _ := ctx.Value(targetKey{}).(target)
	return t
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, no := authenticate(r, h.keys)
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), targetKey{}, t))
	defer cancel(nil)
	r = r.WithContext(ctx)
	if no != nil {
		h.answer(w, r, no)
		return
	}
	if h.server.Draining() {
		w.Header().Set("Connection", "close") // to connect to another replica
	}
	user := t.key.Organisation + "/" + t.key.User
	h.on.IdentifyAs(r.RemoteAddr, user)
	leave, err := h.pool.Enter(callers.Caller{Kind: callers.Pod, Name: user})
	if err != nil {
		h.answer(w, r, refuse(http.StatusTooManyRequests, "User %s has %d requests and connections. Close some.", t.key.User, each))
		return
	}
	defer leave()
	h.requests.WithLabelValues("accepted").Inc()
	go func() {
		h.keys.WhileValid(ctx, t.key, t.cluster.Name)
		cancel(errRevoked) // without effect where ctx has ended
	}()
	if asksForGrant(r) { // its body, which should be empty, has the deadlines as well
		if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxHead)); err != nil {
			h.answer(w, r, refuse(http.StatusBadRequest, "The request for a credential has a body that does not end, or of more than %d bytes. Send none.", maxHead))
			return
		}
	}
	control := http.NewResponseController(w)
	if err := errors.Join(control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{})); err != nil {
		return // the client has closed the connection
	}
	switch {
	case r.Method == http.MethodConnect:
		h.connect(w, r)
	case asksForGrant(r):
		h.grant(w, r)
	default:
		h.forward.ServeHTTP(w, r)
	}
}

// connect serves CONNECT.
func (h *Handler) connect(w http.ResponseWriter, r *http.Request) {
	far, err := h.dial(r.Context(), "", "")
	if err != nil {
		h.answer(w, r, because(r.Context(), err))
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		relay.Cut(far)
		return
	}
	first, _ := buffered.Peek(buffered.Reader.Buffered()) // there are as many
	near := relay.After(first, conn)
	defer context.AfterFunc(r.Context(), func() {
		relay.Cut(near)
		relay.Cut(far)
	})()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n") // a failure ends Pipe as well
	relay.Pipe(near, relay.Of(far))
}

// errRevoked ends the requests of a key that was removed.
var errRevoked = errors.New("the API key was revoked")

// rewrite keeps the request as it is, without X-Forwarded headers: Services may trust them. URL.Host only names its connections.
func (h *Handler) rewrite(p *httputil.ProxyRequest) {
	t := targetOf(p.In.Context())
	to := t.open.GetService()
	p.Out.URL.Scheme, p.Out.URL.Host = "http", h.server.KeptFor(hex.EncodeToString(t.key.Sum[:8]), t.cluster, to.GetHost(), to.GetPort())
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	maps.DeleteFunc(p.Out.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "X-Forwarded-") })
}

// dial opens the connection that the request of ctx asks for.
func (h *Handler) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	t := targetOf(ctx)
	return h.server.Open(ctx, t.cluster, t.open)
}

// because returns the answer to a request for which there is no connection, or that its Service did
// not answer.
func because(ctx context.Context, err error) *refusal {
	status, text := server.Failure(targetOf(ctx).cluster, err)
	switch {
	case errors.Is(context.Cause(ctx), errRevoked):
		return refuse(http.StatusUnauthorized, "The API key was revoked. Create a new one.")
	case errors.Is(ctx.Err(), context.Canceled):
		return refuse(statusClosed, "The client has closed the connection.")
	case status != 0:
		return refuse(status, "%s", text)
	}
	return refuse(http.StatusBadGateway, "The Service ended the connection or does not answer as HTTP/1.1. Check the port; for other protocols use CONNECT.")
}

// answer refuses a request. The log has nothing that the client sent, except for a cluster that the
// key reaches.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, no *refusal) {
	h.requests.WithLabelValues(strconv.Itoa(no.status)).Inc()
	t := targetOf(r.Context())
	if t.key != nil { // clients without a key could fill the log
		h.logger.Info("a request was refused", "status", no.status, "organisation", t.key.Organisation, "user", t.key.User, "cluster", t.cluster.Name, "from", r.RemoteAddr)
	} else {
		if asked, is := r.Context().Value(askedKey{}).(*atomic.Bool); t.guessed || is && asked.Swap(true) {
			time.Sleep(refusedAfter) // so that a client that guesses keys occupies no processor
		}
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.Header().Set("Proxy-Authenticate", `Basic realm="the cluster is the user, the API key the password"`)
	}
	http.Error(w, no.message, no.status)
}

package loopback

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"switchyard.dev/eventbus/reverse"
	"switchyard.dev/tunnels/relay"
	"switchyard.dev/tunnels/workstation/loopback/target"
)

// Web configures HTTP into the cluster.
type Web struct {
	// Open opens connections. Required.
	Open Opener
	// Keyed adds the routing key to the headers of a request; nil: nothing is added.
	Keyed func(http.Header)
	// Origins are further origins that may use ports for HTTP, such as http://shop.test:3000.
	Origins []string
	// Refused is called with each address that the cluster refuses to a client that shows no text, of
	// CONNECT and of ports for tcp. Default: not.
	Refused func(host string, port uint16, err error)
}

// idle is how long an unused connection into the cluster is kept; not longer, since routes may
// change.
const idle = 15 * time.Second

// transport returns the transport through the tunnel; grpc: HTTP/2 without TLS.
func (w Web) transport(grpc bool) *http.Transport {
	t := &http.Transport{
		DialContext: w.dial, DialTLSContext: w.dialTLS, DisableCompression: true, IdleConnTimeout: idle, MaxIdleConnsPerHost: 32,
		ResponseHeaderTimeout: 0,
	}
	if grpc {
		t.DialContext = w.Open.Dial
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return t
}

// dial opens a connection for HTTP/1 requests and keeps their targets as written.
func (w Web) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := w.Open.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return target.Wrap(c), nil
}

// dialTLS does what dial does, inside TLS.
func (w Web) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := w.Open.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(address) // open has validated it
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	inside := tls.Client(c, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12})
	if err := inside.HandshakeContext(ctx); err != nil {
		relay.Cut(c)
		return nil, err
	}
	return target.Wrap(inside), nil
}

// forward returns a reverse proxy; rewrite sets the destination of each request.
func (w Web) forward(t *http.Transport, rewrite func(*httputil.ProxyRequest)) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: t, FlushInterval: -1, ModifyResponse: answered,
		ErrorLog: log.New(io.Discard, "", 0), // The client receives the error.
		Rewrite: func(r *httputil.ProxyRequest) {
			rewrite(r)
			if text := target.Of(r.In); t.Protocols == nil {
				target.Set(r.Out, text)
			} else {
				target.SetHTTP2(r.Out, text)
			}
			if w.Keyed != nil {
				w.Keyed(r.Out.Header)
			}
		},
		ErrorHandler: func(out http.ResponseWriter, r *http.Request, err error) {
			say(out, statusOf(reasonOf(err)), fmt.Sprintf("%s is not reached through the tunnel: %v", cmp.Or(r.URL.Host, r.Host), cause(err)))
		},
	}
}

// answered modifies each response before the client gets it.
func answered(r *http.Response) error {
	if r.StatusCode == http.StatusSwitchingProtocols {
		target.Switched(r.Request.Context())
	}
	return reverse.StatusAsTrailer(r)
}

// cause returns the error of the Opener, without the wrapping of net/http.
func cause(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("X-Switchyard", "workstation")
	http.Error(w, text, status)
}

// serveHTTP serves a handler on a listener until ctx ends.
func serveHTTP(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: requestWithin, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 20,
		ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols),
		BaseContext: func(net.Listener) context.Context { return ctx }, ConnContext: target.Context,
		DisableGeneralOptionsHandler: true,
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	err := s.Serve(target.Listener{Listener: limited(ctx, l)})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// ServeProxy serves an HTTP proxy on a listener until ctx ends: CONNECT, to any destination, and
// requests with a whole URL, which get the routing key where there is one.
func ServeProxy(ctx context.Context, l net.Listener, w Web) error {
	t := w.transport(false)
	defer t.CloseIdleConnections()
	pass := w.forward(t, func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host })
	return serveHTTP(ctx, l, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			w.connect(out, r)
		case r.URL.IsAbs() && r.URL.Scheme == "http":
			pass.ServeHTTP(out, r)
		default:
			say(out, http.StatusBadRequest, "This is an HTTP proxy into a cluster. Name it as your proxy, as in curl --proxy.")
		}
	}))
}

// connect answers CONNECT.
func (w Web) connect(out http.ResponseWriter, r *http.Request) {
	host, port, err := splitPort(r.Host)
	if err != nil {
		say(out, http.StatusBadRequest, err.Error())
		return
	}
	hijacker, ok := out.(http.Hijacker)
	if !ok {
		say(out, http.StatusHTTPVersionNotSupported, "CONNECT works with HTTP/1.1 only")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), opening)
	defer cancel()
	there, err := w.Open.Refused(w.Refused)(ctx, host, port)
	if err != nil {
		say(out, statusOf(reasonOf(err)), fmt.Sprintf("%s is not reached through the tunnel: %v", r.Host, err))
		return
	}
	c, buffered, err := hijacker.Hijack()
	if err != nil {
		relay.Cut(there)
		return
	}
	// The server does not close a hijacked connection.
	stop := context.AfterFunc(r.Context(), func() { _ = c.Close() })
	defer stop()
	_ = c.SetDeadline(time.Time{})
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		relay.Cut(there)
		_ = c.Close()
		return
	}
	client := &ahead{c, bufio.NewReader(io.MultiReader(io.LimitReader(buffered, int64(buffered.Reader.Buffered())), c))}
	relay.Pipe(client, relay.Of(there))
}

// allowed returns why a request may not use a port that represents an address; empty when it may.
// A page of another site can make a browser send requests to ports of this machine, by its own
// name (which it can resolve to this machine) or from its own origin.
func (w Web) allowed(r *http.Request, destination string) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if !local(r.Host) && !strings.EqualFold(host, destination) {
		return fmt.Sprintf("Requests to this port must have localhost, or %s, as their Host, not %q.", destination, r.Host)
	}
	from := r.Header["Origin"]
	if len(from) == 0 && foreign(r.Header) {
		from = []string{r.Referer()}
	}
	for _, page := range from {
		u, err := url.Parse(page)
		if err == nil && (u.Scheme == "http" || u.Scheme == "https") && (local(u.Host) || contains(w.Origins, u.Scheme+"://"+u.Host)) {
			continue
		}
		return fmt.Sprintf("Pages of %q may not use this port: allow it with --allow-origin.", page)
	}
	return ""
}

// foreign reports whether a browser marks a request as sent by a page of another site. Some of
// these have no Origin, as for an image. Navigation away from that page is the user's own
// request.
func foreign(h http.Header) bool {
	leaves := h.Get("Sec-Fetch-Mode") == "navigate" && h.Get("Sec-Fetch-Dest") == "document"
	return h.Get("Sec-Fetch-Site") == "cross-site" && !leaves
}

func contains(list []string, one string) bool {
	return slices.ContainsFunc(list, func(l string) bool { return strings.EqualFold(l, one) })
}

package loopback

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// Mapping makes a port of this machine represent an address of the cluster.
type Mapping struct {
	// Scheme is http, https, grpc or tcp. The routing key is added to the first three.
	Scheme string
	// Host and Port are the address in the cluster.
	Host string
	Port uint16
	// Bind is the address to listen on.
	Bind string
}

// ParseMapping reads scheme://host:port@address.
func ParseMapping(text string) (Mapping, error) {
	const form = "write it as http://service.namespace:80@localhost:8080"
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return Mapping{}, fmt.Errorf("%q has no scheme: %s", text, form)
	}
	switch scheme {
	case "http", "https", "grpc", "tcp":
	default:
		return Mapping{}, fmt.Errorf("%q: the scheme is http, https, grpc or tcp, not %q", text, scheme)
	}
	destination, bind, ok := strings.Cut(rest, "@")
	if !ok {
		return Mapping{}, fmt.Errorf("%q has no address to listen on: %s", text, form)
	}
	host, port, err := splitPort(destination)
	if err != nil {
		return Mapping{}, fmt.Errorf("%q: %w; %s", text, err, form)
	}
	if !strings.ContainsAny(host, ".:") {
		return Mapping{}, fmt.Errorf("%q: %s has no namespace: write it as %s.NAMESPACE, with the namespace of the Service", text, host, host)
	}
	if _, _, err := net.SplitHostPort(bind); err != nil {
		return Mapping{}, fmt.Errorf("%q: %q is no address to listen on; %s", text, bind, form)
	}
	return Mapping{Scheme: scheme, Host: host, Port: port, Bind: bind}, nil
}

// String returns the text that ParseMapping parses.
func (m Mapping) String() string { return m.Scheme + "://" + m.address() + "@" + m.Bind }

func (m Mapping) address() string { return net.JoinHostPort(m.Host, fmt.Sprint(m.Port)) }

// ServeMapping serves a mapping on a listener until ctx ends.
func ServeMapping(ctx context.Context, l net.Listener, m Mapping, w Web) error {
	if m.Scheme == "tcp" {
		return serve(ctx, l, func(ctx context.Context, c net.Conn) {
			w.Open.Refused(w.Refused).through(ctx, c, m.Host, m.Port, func(err error) error { return err })
		})
	}
	grpc := m.Scheme == "grpc"
	t := w.transport(grpc)
	defer t.CloseIdleConnections()
	to := &url.URL{Scheme: "http", Host: m.address()}
	if m.Scheme == "https" {
		to.Scheme = "https"
	}
	pass := w.forward(t, func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = m.hostHeader()
	})
	return serveHTTP(ctx, l, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if why := w.allowed(r, m.Host); why != "" {
			say(out, http.StatusForbidden, why)
			return
		}
		if grpc {
			// A client may send more of its stream before it gets an answer than HTTP/1.1 allows
			// by default.
			_ = http.NewResponseController(out).EnableFullDuplex()
		}
		pass.ServeHTTP(out, r)
	}))
}

// hostHeader returns the Host header of the destination.
func (m Mapping) hostHeader() string {
	if m.Scheme == "http" && m.Port == 80 || m.Scheme == "https" && m.Port == 443 {
		return m.Host
	}
	return m.address()
}

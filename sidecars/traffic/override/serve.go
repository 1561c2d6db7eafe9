package override

import (
	"net/http"
	"net/http/httputil"

	"switchyard.dev/xds/routingkey"
)

// forwarding are headers that httputil removes, and that callers keep here.
var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// ServeHTTP implements http.Handler. A request that the application does not answer ends as its connection would: it is
// reset.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(connection{}).(*caller)
	_ = http.NewResponseController(w).EnableFullDuplex()      // HTTP/2 is
	w.Header()["Date"], w.Header()["Content-Type"] = nil, nil // those of the answer
	first, then := s.first.one, s.then.one
	if r.ProtoMajor > 1 {
		first, then = s.first.two, s.then.two
	}
	way := http.RoundTripper(then)
	key := routingkey.Of(func(name string) []string { return r.Header.Values(name) }, nil)
	if set := s.settings(c.application, key); set.Address != "" {
		held := &share{all: &s.held}
		defer held.end()
		way = &Override{Policy: set.Policy, Keys: set.Keys, Stream: set.Stream, First: to{set.Address, first}, Then: then, share: held}
	}
	(&httputil.ReverseProxy{
		Transport: way, ErrorLog: s.http.ErrorLog,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.RawQuery = "http", s.app(c), p.In.URL.RawQuery
			p.Out.Host, p.Out.Trailer = p.In.Host, p.In.Trailer
			for _, name := range forwarding {
				if values, has := p.In.Header[name]; has {
					p.Out.Header[name] = values
				}
			}
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			s.logger.Debug("a request is not answered", "application", c.application, "method", r.Method, "error", err)
			panic(http.ErrAbortHandler)
		},
	}).ServeHTTP(w, r)
}

// to sends requests to an address.
type to struct {
	address string
	http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t to) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Host, out.Trailer = t.address, r.Trailer
	return t.RoundTripper.RoundTrip(out)
}

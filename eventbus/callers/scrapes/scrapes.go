// Package scrapes serves metrics to any number of callers for the price of one: they are
// gathered once a second at most, and all requests within it share the output. Bounding the
// number of concurrent answers instead would let a few slow readers keep the monitoring out.
package scrapes

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
)

// fresh is how long an answer is shared.
const fresh = time.Second

// Handler serves the gathered metrics, in each format that Prometheus can ask for. Bodies are
// not compressed: callers that ask for one format share its bytes.
type Handler struct {
	write http.Handler
	clock func() time.Time

	mu sync.Mutex
	of map[expfmt.Format]*answer
}

// answer is written once, as an http.ResponseWriter, and read by many.
type answer struct {
	bytes.Buffer
	header http.Header
	status int
	at     time.Time
}

// New returns a handler of what a registry gathers.
func New(from prometheus.Gatherer) *Handler {
	return &Handler{
		write: promhttp.HandlerFor(from, promhttp.HandlerOpts{DisableCompression: true, Timeout: 10 * time.Second}),
		clock: time.Now, of: map[expfmt.Format]*answer{},
	}
}

// Mux returns a handler of /metrics, of /healthz, which is always ok, and of /readyz. unready returns why
// the program is not ready; empty: it is.
func Mux(from prometheus.Gatherer, unready func() string) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", New(from))
	mux.HandleFunc("GET /healthz", Probe(func() (bool, string) { return true, "ok" }))
	mux.HandleFunc("GET /readyz", Probe(func() (bool, string) {
		why := unready()
		return why == "", cmp.Or(why, "ok")
	}))
	return mux
}

// Probe returns a handler that answers with whether the program is ready, and a text.
func Probe(ready func() (bool, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		is, text := ready()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if !is {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, text+"\n") // an error means that the client has closed
	}
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := h.answer(expfmt.NegotiateIncludingOpenMetrics(r.Header))
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.status)
	_, _ = w.Write(a.Bytes()) // the client may have disconnected
}

// answer returns the response in a format; it is not modified afterwards. The formats are few,
// so the map cannot be filled by clients.
func (h *Handler) answer(form expfmt.Format) *answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a := h.of[form]; a != nil && h.clock().Sub(a.at) < fresh {
		return a
	}
	a := &answer{header: http.Header{}, status: http.StatusOK}
	h.write.ServeHTTP(a, &http.Request{Method: http.MethodGet, Header: http.Header{"Accept": {string(form)}}})
	a.at = h.clock() // after gathering, which may take longer than an answer is fresh
	h.of[form] = a
	return a
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

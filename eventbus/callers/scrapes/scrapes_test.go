package scrapes

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// counting counts how often metrics are gathered, and takes a while for it.
type counting struct {
	prometheus.Gatherer
	times atomic.Int64
}

func (c *counting) Gather() ([]*dto.MetricFamily, error) {
	c.times.Add(1)
	time.Sleep(10 * time.Millisecond)
	return c.Gatherer.Gather()
}

func registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "answers", Help: "How many."})
	g.Set(42)
	r.MustRegister(g)
	return r
}

func get(h http.Handler, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestManyWhoAskShareOneGathering(t *testing.T) {
	from := &counting{Gatherer: registry()}
	h := New(from)
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() {
			if w := get(h, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "answers 42") {
				t.Errorf("%d: %.100q", w.Code, w.Body)
			}
		})
	}
	all.Wait()
	if n := from.times.Load(); n != 1 {
		t.Errorf("metrics were gathered %d times, want once", n)
	}
	h.clock = func() time.Time { return time.Now().Add(fresh) }
	get(h, "")
	if n := from.times.Load(); n != 2 {
		t.Errorf("a second later metrics had been gathered %d times, want twice", n)
	}
}

// Each form is what Prometheus's own handler writes, headers included.
func TestEveryFormIsAsPrometheusWritesIt(t *testing.T) {
	from := registry()
	h, bare := New(from), promhttp.HandlerFor(from, promhttp.HandlerOpts{DisableCompression: true})
	for _, accept := range []string{
		"", "*/*", "text/plain;version=0.0.4", "text/plain;version=1.0.0;escaping=allow-utf-8",
		"application/openmetrics-text;version=1.0.0", "application/openmetrics-text;version=0.0.1;q=0.9,*/*;q=0.1",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
	} {
		got, want := get(h, accept), get(bare, accept)
		if got.Body.String() != want.Body.String() || got.Code != want.Code {
			t.Errorf("Accept %q: %d %q, want %d %q", accept, got.Code, got.Body, want.Code, want.Body)
		}
		if g, w := got.Header().Get("Content-Type"), want.Header().Get("Content-Type"); g != w {
			t.Errorf("Accept %q: Content-Type %q, want %q", accept, g, w)
		}
	}
}

func TestMuxHasMetricsAndProbes(t *testing.T) {
	why := ""
	mux := Mux(registry(), func() string { return why })
	get := func(path string) (status int, text string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	for _, want := range []struct {
		why, path string
		status    int
		text      string
	}{
		{"", "/metrics", 200, "answers 42"}, {"", "/healthz", 200, "ok"}, {"", "/readyz", 200, "ok"},
		{"it ends", "/metrics", 200, "answers 42"}, {"it ends", "/healthz", 200, "ok"}, {"it ends", "/readyz", 503, "it ends"},
	} {
		why = want.why
		if status, text := get(want.path); status != want.status || !strings.Contains(text, want.text) {
			t.Errorf("%+v: %d %s", want, status, text)
		}
	}
}

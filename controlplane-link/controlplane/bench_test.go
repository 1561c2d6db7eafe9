package controlplane_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/rest"
	"switchyard.dev/tests/figures"
)

// BenchmarkCallsBesideForgedKeys measures calls of a user with a valid key, first alone, and then beside 200 clients
// that guess keys without a pause: in the process, so that it is the reads of the store that they share.
func BenchmarkCallsBesideForgedKeys(b *testing.B) {
	site := newSite(b)
	r := site.start(site.config())
	r.fill()
	s := r.Store()
	h := rest.New(rest.Config{Store: s, Now: time.Now, Logger: site.logger()})
	get := func(key, from string) int {
		q := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/api/v2/orgs/acme/clusters/prod/", nil)
		q.RemoteAddr = from
		q.Header.Set("Signadot-Api-Key", key)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, q)
		return w.Code
	}
	measure := func() (took []time.Duration) {
		for range 300 {
			began := time.Now()
			if code := get(adaKey, "192.0.2.1:1"); code != http.StatusOK {
				b.Fatalf("answered %d", code)
			}
			took = append(took, time.Since(began))
			time.Sleep(20 * time.Millisecond) // 50 a second is the limit of a user
		}
		return took
	}
	for b.Loop() {
		quiet := measure()
		ctx, stop := context.WithCancel(b.Context())
		var running sync.WaitGroup
		var refused atomic.Int64
		for n := range 200 {
			running.Go(func() {
				for m := 0; ctx.Err() == nil; m++ {
					get("s3cret-"+rand.Text(), fmt.Sprintf("10.%d.%d.1:1", n, m%250)) // none reaches its own limit
					refused.Add(1)
				}
			})
		}
		attacked := measure()
		b.ReportMetric(float64(refused.Load()), "refused")
		stop()
		running.Wait()
		for _, q := range []float64{0.5, 0.99} {
			b.ReportMetric(figures.Millis(quiet, q), fmt.Sprintf("quiet-p%g-ms", 100*q))
			b.ReportMetric(figures.Millis(attacked, q), fmt.Sprintf("attacked-p%g-ms", 100*q))
		}
	}
}

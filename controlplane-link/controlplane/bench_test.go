package controlplane_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/tests/figures"
)

// BenchmarkCallsBesideForgedKeys measures calls of a user with a valid key, first alone, and then beside 200 clients
// that guess keys, from 50 addresses.
func BenchmarkCallsBesideForgedKeys(b *testing.B) {
	s := newSite(b)
	r := s.start(s.config())
	r.fill()
	measure := func() (took []time.Duration) {
		client := r.clientAt(net.IPv4(127, 0, 1, 1))
		for range 500 {
			began := time.Now()
			if code, err := r.get(b.Context(), client, adaKey); code != http.StatusOK {
				b.Fatalf("answered %d, %v", code, err)
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
			client := r.clientAt(net.IPv4(127, 0, 2, byte(1+n%50)))
			running.Go(func() {
				for ctx.Err() == nil {
					if code, _ := r.get(ctx, client, "s3cret-"+rand.Text()); code == http.StatusUnauthorized {
						refused.Add(1)
					}
				}
			})
		}
		time.Sleep(3 * time.Second) // their handshakes
		began := refused.Load()
		attacked := measure()
		b.ReportMetric(float64(refused.Load()-began), "refused")
		stop()
		running.Wait()
		for _, q := range []float64{0.5, 0.99} {
			b.ReportMetric(figures.Millis(quiet, q), fmt.Sprintf("quiet-p%g-ms", 100*q))
			b.ReportMetric(figures.Millis(attacked, q), fmt.Sprintf("attacked-p%g-ms", 100*q))
		}
	}
}

// clientAt returns a client of the API with an address.
func (r *running) clientAt(from net.IP) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(r.authority.Bundle())
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DialContext: dialer.DialContext}
	r.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: patience}
}

// get reads cluster prod with a key.
func (r *running) get(ctx context.Context, client *http.Client, key string) (int, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.at("api")+"/api/v2/orgs/acme/clusters/prod/", nil)
	if err != nil {
		return 0, err
	}
	q.Header.Set("Signadot-Api-Key", key)
	answer, err := client.Do(q)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

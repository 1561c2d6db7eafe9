package store_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/postgres"
)

// BenchmarkWrites measures a specification with its event, until it is stored and until another replica is
// notified (with SQLite: a watcher of this process), and a status, beside 1,000 sandboxes.
func BenchmarkWrites(b *testing.B) {
	for _, database := range []string{"sqlite", "postgres"} {
		b.Run(database, func(b *testing.B) {
			c := store.Config{Path: filepath.Join(b.TempDir(), "store.db"), Keys: keys("k")}
			if database == "postgres" {
				durable, err := postgres.Temporary(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = durable.Remove() }() // a temporary folder
				c = store.Config{PostgreSQL: durable.URL("postgres"), Keys: c.Keys}
			}
			s, err := store.Open(b.Context(), c)
			if err != nil {
				b.Fatal(err)
			}
			measure(b, s)
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

func measure(b *testing.B, s *store.Store) {
	ctx, notified := b.Context(), make(chan time.Time, 2000)
	if err := s.CreateOrganisation(ctx, model.Organisation{Name: org}, event("org.create")); err != nil {
		b.Fatal(err)
	}
	if err := s.CreateCluster(ctx, model.Cluster{Org: org, Name: "demo"}, event("cluster.create")); err != nil {
		b.Fatal(err)
	}
	put := func(n int) int64 {
		o, err := s.PutSandbox(ctx, sandbox(fmt.Sprintf("s%d", n%1000)), event("sandbox.apply"))
		if err != nil {
			b.Fatal(err)
		}
		return o.Generation
	}
	for n := range 1000 {
		put(n)
	}
	s.Watch(ctx, func(c store.Change) {
		if c.Kind == store.Sandbox {
			notified <- time.Now()
		}
	})
	time.Sleep(100 * time.Millisecond) // notifications of those before
	for len(notified) > 0 {
		<-notified
	}
	var writes, notifications, statuses []time.Duration
	n := 0
	for b.Loop() {
		began := time.Now()
		generation := put(n)
		writes = append(writes, time.Since(began))
		notifications = append(notifications, (<-notified).Sub(began))
		began = time.Now()
		if _, err := s.Observe(ctx, store.Sandbox, org, fmt.Sprintf("s%d", n%1000), "demo", model.Status{Generation: generation, Ready: true}); err != nil {
			b.Fatal(err)
		}
		statuses = append(statuses, time.Since(began))
		n++
	}
	b.ReportMetric(figures.Millis(writes, 0.99), "write-p99-ms")
	b.ReportMetric(figures.Millis(notifications, 0.99), "notified-p99-ms")
	b.ReportMetric(figures.Millis(statuses, 0.99), "status-p99-ms")
}

package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/registry"
	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/eventbus/callers"
)

// BenchmarkAgentsReturn lets 1,000 agents lose the server, and measures when the first and the last
// have a session again: `go test ./controlplane-link/server -run xxx -bench Return -benchtime 1x`.
func BenchmarkAgentsReturn(b *testing.B) {
	const agents = 1000
	s := newSite(b)
	address := "127.0.0.1:0"
	begin := func() (end func()) {
		main, err := server.New(server.Config{TLS: s.certificate(s.authority, "127.0.0.1"), Registry: s.registry, Tokens: s.tokens, Replica: "one"})
		if err != nil {
			b.Fatal(err)
		}
		l, err := callers.Listen(address, "agents", server.MostConnections, 0, nil)
		if err != nil {
			b.Fatal(err)
		}
		l.AwaitHandshakes()
		address = l.Addr().String()
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- main.Serve(ctx, l) }()
		return func() {
			stop()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		}
	}
	end := begin()
	all := make([]*link.Agent, agents)
	for i := range all {
		name := fmt.Sprint("cluster-", i)
		s.issue("s3cret-"+name, registry.Token{ID: name, Cluster: registry.Cluster{Organisation: "acme", Name: name}})
		cfg := s.config(address, name)
		cfg.Policy = link.Policy()
		cfg.Token = func() (string, error) { return "s3cret-" + name, nil }
		cfg.Logger = nil
		all[i], _ = s.start(cfg)
	}
	back := func(epoch uint64) (first, last time.Duration) {
		began := time.Now()
		var mu sync.Mutex
		var parts sync.WaitGroup
		for _, a := range all {
			parts.Go(func() {
				s.up(a, epoch)
				mu.Lock()
				defer mu.Unlock()
				last = time.Since(began)
				if first == 0 {
					first = last
				}
			})
		}
		parts.Wait()
		return first, last
	}
	back(1)
	for n := range b.N {
		end()
		time.Sleep(30 * time.Second) // as an outage that is noticed
		end = begin()
		first, last := back(uint64(n) + 2)
		b.ReportMetric(first.Seconds(), "s-first")
		b.ReportMetric(last.Seconds(), "s-last")
	}
	end()
}

package restarts

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/tools/traffic"
)

// perSecond is how many requests each caller sends.
const perSecond = 100

// patience is how long a request may take.
const patience = 10 * time.Second

// callers are those who call an application, by how they do it: as Go's client does it,
// which sends a request again that it may when a kept connection ended under it.
func callers() map[string]http.RoundTripper {
	kept, fresh := http.DefaultTransport.(*http.Transport).Clone(), http.DefaultTransport.(*http.Transport).Clone()
	kept.MaxIdleConnsPerHost = 16
	fresh.DisableKeepAlives = true
	two := &inTurn{}
	for range 4 {
		two.of = append(two.of, &http.Transport{Protocols: traffic.Protocols(false, true)})
	}
	return map[string]http.RoundTripper{"h1": kept, "h2": two, "new": fresh}
}

// inTurn spreads requests over transports: one of HTTP/2 keeps one connection.
type inTurn struct {
	of   []*http.Transport
	next atomic.Uint64
}

// RoundTrip is http.RoundTripper.
func (i *inTurn) RoundTrip(r *http.Request) (*http.Response, error) {
	return i.of[i.next.Add(1)%uint64(len(i.of))].RoundTrip(r)
}

// CloseIdleConnections implements the interface that http.Client uses.
func (i *inTurn) CloseIdleConnections() {
	for _, t := range i.of {
		t.CloseIdleConnections()
	}
}

// underLoad runs body while each kind of caller calls each address, and returns what became
// of their requests: by address and kind of caller.
func underLoad(ctx context.Context, wants map[string]traffic.Want, body func() error) (map[string]map[string]*traffic.Ledger, error) {
	stop := make(chan struct{})
	var mu sync.Mutex
	ledgers := map[string]map[string]*traffic.Ledger{}
	var sending sync.WaitGroup
	for address, want := range wants {
		ledgers[address] = map[string]*traffic.Ledger{}
		for kind, transport := range callers() {
			client := &http.Client{Transport: transport, Timeout: patience}
			sender := traffic.Sender{URL: address, Judge: traffic.Podinfo, Client: client}
			sending.Go(func() {
				ledger := sender.Rate(ctx, perSecond, []traffic.Want{want}, stop)
				client.CloseIdleConnections()
				mu.Lock()
				defer mu.Unlock()
				ledgers[address][kind] = ledger
			})
		}
	}
	err := body()
	close(stop)
	sending.Wait()
	return ledgers, err
}

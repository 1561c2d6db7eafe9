package attack

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
)

// Honest is how honest requests fared.
type Honest struct {
	// Sent and Served count them; Worst is how long the slowest answer took.
	Sent, Served int
	Worst        time.Duration
	// Failure is the first that there was.
	Failure error
}

const (
	// honestEvery is the pause between honest requests, and honestPatience how long
	// each waits.
	honestEvery    = 50 * time.Millisecond
	honestPatience = 15 * time.Second
)

// Beside sends honest requests to the application until ctx ends, one after the
// other: over HTTP/1 and HTTP/2, on connections that last and on new ones, in turn.
func Beside(ctx context.Context, address string) Honest {
	var clients []*http.Client
	for i := range 4 {
		transport := &http.Transport{Protocols: traffic.Protocols(i < 2, i >= 2), DisableKeepAlives: i%2 == 1}
		defer transport.CloseIdleConnections()
		clients = append(clients, &http.Client{Transport: transport, Timeout: honestPatience})
	}
	var h Honest
	for ctx.Err() == nil {
		began := time.Now()
		err := ask(ctx, clients[h.Sent%len(clients)], "http://"+address+"/")
		if ctx.Err() != nil {
			break
		}
		h.Sent++
		if err == nil {
			h.Served++
			h.Worst = max(h.Worst, time.Since(began))
		} else if h.Failure == nil {
			h.Failure = fmt.Errorf("request %d: %w", h.Sent, err)
		}
		_ = wait.For(ctx, honestEvery)
	}
	return h
}

func ask(ctx context.Context, client *http.Client, url string) error {
	a, err := traffic.Get(ctx, client, url)
	if err == nil && string(a.Body) != ok {
		err = fmt.Errorf("status %d: %.1000q", a.Status, a.Body)
	}
	return err
}

// Ready waits until an honest request is served.
func Ready(ctx context.Context, address string, patience time.Duration) error {
	client := &http.Client{Timeout: honestPatience, Transport: &http.Transport{DisableKeepAlives: true}}
	return wait.Until(ctx, patience, "an honest request is served", func() error { return ask(ctx, client, "http://"+address+"/") })
}

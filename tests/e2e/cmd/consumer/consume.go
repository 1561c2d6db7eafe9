package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"switchyard.dev/xds/routingkey"
)

// every is the time between two questions to the route server. Published consumers ask
// every five or ten seconds.
const every = 200 * time.Millisecond

// answer is the response to a message.
type answer struct {
	Sandbox   string `json:"sandbox"`
	Version   string `json:"version"`
	Processed bool   `json:"processed"`
}

// run consumes until ctx ends. It begins once it knows its rules.
func run(ctx context.Context) error {
	mine := &rules{
		address: os.Getenv("ROUTESERVER"), sandbox: os.Getenv("SIGNADOT_SANDBOX_NAME"),
		kind: os.Getenv("SIGNADOT_BASELINE_KIND"), namespace: os.Getenv("SIGNADOT_BASELINE_NAMESPACE"), name: os.Getenv("SIGNADOT_BASELINE_NAME"),
	}
	for mine.ask(ctx) != nil {
		if !pause(ctx) {
			return nil
		}
	}
	conn, err := nats.Connect(os.Getenv("BROKER"), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(every))
	if err != nil {
		return fmt.Errorf("connect to the broker: %w", err)
	}
	defer conn.Close()
	_, err = conn.Subscribe(os.Getenv("SUBJECT"), func(m *nats.Msg) {
		key := routingkey.Of(func(name string) []string { return m.Header.Values(name) }, nil)
		answered, err := json.Marshal(answer{mine.sandbox, os.Getenv("VERSION"), mine.takes(key)})
		if err == nil {
			err = m.Respond(answered)
		}
		slog.Info("message", "key", key, "answer", string(answered), "error", err)
	})
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	for pause(ctx) {
		if err := mine.ask(ctx); err != nil {
			slog.Warn("the route server does not answer; the last rules hold", "error", err)
		}
	}
	return nil
}

// pause waits, and reports whether to go on.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(every):
		return true
	}
}

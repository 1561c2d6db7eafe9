package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// rules are the routing rules of the workload, as last received from the route server.
type rules struct {
	address, sandbox      string
	kind, namespace, name string

	mu   sync.Mutex
	keys map[string]bool
}

// ask fetches the rules: a fork needs those that route to its sandbox, and the baseline all. On
// errors the previous ones stay.
func (r *rules) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	query := url.Values{"baselineKind": {r.kind}, "baselineNamespace": {r.namespace}, "baselineName": {r.name}}
	if r.sandbox != "" {
		query.Set("destinationSandboxName", r.sandbox)
	}
	u := url.URL{Scheme: "http", Host: r.address, Path: "/api/v1/workloads/routing-rules", RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	var got struct {
		RoutingRules []struct {
			RoutingKey string `json:"routingKey"`
		} `json:"routingRules"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		return fmt.Errorf("read the rules: %w", err)
	}
	keys := map[string]bool{}
	for _, rule := range got.RoutingRules {
		keys[rule.RoutingKey] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = keys
	return nil
}

// takes reports whether to process a message with this key: a fork does if a rule routes the key to
// its sandbox, the baseline if there is no rule for it. A message without a key has no rule.
func (r *rules) takes(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys[key] == (r.sandbox != "")
}

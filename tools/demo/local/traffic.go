package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"switchyard.dev/tools/traffic"
)

// Answer is what a request for customer 900 got: the baseline does not know that customer.
type Answer struct {
	// Status is that of HTTP, Text the body.
	Status int
	Text   string
	// Reason is why the sidecar answered itself.
	Reason string
}

// String returns the answer as a person reads it.
func (a Answer) String() string {
	text := fmt.Sprintf("%d %.100s", a.Status, strings.TrimSpace(a.Text))
	if a.Reason != "" {
		text += " (" + a.Reason + ")"
	}
	return text
}

// Local reports whether the workstation's process answered.
func (a Answer) Local() bool { return a.Status == http.StatusOK && strings.Contains(a.Text, "(fork)") }

// Baseline reports whether the baseline answered.
func (a Answer) Baseline() bool { return strings.Contains(a.Text, "invalid customer ID") }

// Ask asks the customer service for customer 900, with a routing key unless that is empty.
func Ask(ctx context.Context, client *http.Client, url, key string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/customer?customer=900", nil)
	if err != nil {
		return Answer{}, err
	}
	if key != "" {
		r.Header.Set("Baggage", "sd-routing-key="+key)
	}
	got, err := client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(io.LimitReader(got.Body, 1<<16))
	return Answer{got.StatusCode, string(body), got.Header.Get("sd-reason")}, err
}

// Counts counts requests with the key by what became of them, and those without.
type Counts struct {
	KeyedLocal, KeyedRefused, KeyedBaseline, Plain, PlainWrong int
	// Wrong is the last answer that was wrong.
	Wrong string
}

// Watcher asks all the time, with the key and without, and counts who answered. Make one with
// NewWatcher.
type Watcher struct {
	url, key string
	client   *http.Client

	mu     sync.Mutex
	counts Counts
}

// NewWatcher returns one that asks the customer service at a URL.
func NewWatcher(url, key string) *Watcher {
	return &Watcher{url: url, key: key, client: traffic.NewClient()}
}

// Counts returns the current counts.
func (w *Watcher) Counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

// Run asks until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	turn := time.NewTicker(20 * time.Millisecond)
	defer turn.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-turn.C:
			all.Go(func() { w.once(ctx, n%2 == 0) })
		}
	}
}

func (w *Watcher) once(ctx context.Context, keyed bool) {
	key := ""
	if keyed {
		key = w.key
	}
	a, err := Ask(ctx, w.client, w.url, key)
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch c := &w.counts; {
	case keyed && a.Local():
		c.KeyedLocal++
	case keyed && a.Baseline():
		c.KeyedBaseline++
		c.Wrong = a.String()
	case keyed:
		c.KeyedRefused++
	case err == nil && a.Baseline():
		c.Plain++
	default:
		c.PlainWrong++
		c.Wrong = fmt.Sprint(a, " ", err)
	}
}

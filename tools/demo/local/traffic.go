package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"switchyard.dev/tests/traffic"
)

// answer is what a request for customer 900 got: the baseline does not know that customer.
type answer struct {
	status int
	text   string
	reason string // why the sidecar answered itself
}

// String returns the answer as a person reads it.
func (a answer) String() string {
	text := fmt.Sprintf("%d %.100s", a.status, strings.TrimSpace(a.text))
	if a.reason != "" {
		text += " (" + a.reason + ")"
	}
	return text
}

// local and baseline report who answered.
func (a answer) local() bool    { return a.status == http.StatusOK && strings.Contains(a.text, "(fork)") }
func (a answer) baseline() bool { return strings.Contains(a.text, "invalid customer ID") }

// ask asks the customer service for customer 900, with a routing key unless that is empty.
func ask(ctx context.Context, client *http.Client, url, key string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/customer?customer=900", nil)
	if err != nil {
		return answer{}, err
	}
	if key != "" {
		r.Header.Set("Baggage", "sd-routing-key="+key)
	}
	got, err := client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(io.LimitReader(got.Body, 1<<16))
	return answer{got.StatusCode, string(body), got.Header.Get("sd-reason")}, err
}

// watcher asks all the time, with the key and without, and counts who answered.
type watcher struct {
	url, key string
	client   *http.Client

	mu sync.Mutex
	// keyedLocal, keyedRefused and keyedBaseline count requests with the key by what became of
	// them; plain and plainWrong those without.
	keyedLocal, keyedRefused, keyedBaseline, plain, plainWrong int
	wrong                                                      string
}

// run asks until ctx ends.
func (w *watcher) run(ctx context.Context) {
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

func (w *watcher) once(ctx context.Context, keyed bool) {
	key := ""
	if keyed {
		key = w.key
	}
	a, err := ask(ctx, w.client, w.url, key)
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case keyed && a.local():
		w.keyedLocal++
	case keyed && a.baseline():
		w.keyedBaseline++
		w.wrong = a.String()
	case keyed:
		w.keyedRefused++
	case err == nil && a.baseline():
		w.plain++
	default:
		w.plainWrong++
		w.wrong = fmt.Sprint(a, " ", err)
	}
}

func newWatcher(url, key string) *watcher {
	return &watcher{url: url, key: key, client: traffic.NewClient()}
}

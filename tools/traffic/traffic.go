// Package traffic sends bounded loads of requests with and without routing keys and counts which
// side served each: the fork, the baseline, or neither. The demo and the tests on a real cluster
// share it, so that "served by the wrong side" means the same in both.
package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Side is the workload that served a request.
type Side string

// The sides. A request that neither served has an error instead.
const (
	Baseline Side = "baseline"
	Fork     Side = "fork"
)

// Sender sends one request. Judge reads the response body and returns the side.
type Sender struct {
	// URL is fetched with GET.
	URL string
	// Judge returns the side that wrote a body, or an error when neither did.
	Judge func(body []byte) (Side, error)
	// Client has a timeout; http.DefaultClient has none.
	Client *http.Client
}

// Podinfo judges what podinfo answers: its message is the side.
func Podinfo(body []byte) (Side, error) {
	var said struct{ Message string }
	if err := json.Unmarshal(body, &said); err != nil {
		return "", fmt.Errorf("%w in %.100q", err, body)
	}
	return Side(said.Message), nil
}

// NewClient makes a client with one bounded pool of kept-alive connections, as
// an ordinary caller has, and a deadline of five seconds for each request.
func NewClient() *http.Client {
	return &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 16, MaxConnsPerHost: 64},
	}
}

// Send sends one request, with the routing key in baggage unless it is empty, and returns the side
// that responded. Any status but 200 is an error that quotes the body.
func (s Sender) Send(ctx context.Context, key string) (Side, error) {
	var headers [][2]string
	if key != "" {
		headers = append(headers, [2]string{"Baggage", "userId=alice,sd-routing-key=" + key})
	}
	body, err := Fetch(ctx, s.Client, s.URL, headers...)
	if err != nil {
		return "", err
	}
	return s.Judge(body)
}

// Want is one request of a load: its key and the side that must answer.
type Want struct {
	Key  string
	Side Side
}

// Ledger is what became of a load.
type Ledger struct {
	mu sync.Mutex
	// Sent counts all requests, By those that each side answered rightly.
	Sent int
	By   map[Side]int
	// Failed and Wrong quote the first few of each; the counts are whole.
	FailedCount, WrongCount int
	Failed, Wrong           []string
}

const quoted = 5

func (l *Ledger) record(want Want, side Side, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Sent++
	switch {
	case err != nil:
		l.FailedCount++
		if len(l.Failed) < quoted {
			l.Failed = append(l.Failed, fmt.Sprintf("at %s key %q: %v", time.Now().Format("15:04:05.000"), want.Key, err))
		}
	case side != want.Side:
		l.WrongCount++
		if len(l.Wrong) < quoted {
			l.Wrong = append(l.Wrong, fmt.Sprintf("at %s key %q: served by %s, want %s", time.Now().Format("15:04:05.000"), want.Key, side, want.Side))
		}
	default:
		l.By[side]++
	}
}

// Clean reports whether every request was served by the right side.
func (l *Ledger) Clean() bool { return l.Sent > 0 && l.FailedCount == 0 && l.WrongCount == 0 }

// String returns the counts as one line of text.
func (l *Ledger) String() string {
	line := fmt.Sprintf("%d requests: %d by the fork, %d by the baseline, %d failed, %d by the wrong side",
		l.Sent, l.By[Fork], l.By[Baseline], l.FailedCount, l.WrongCount)
	for _, quote := range append(append([]string{}, l.Failed...), l.Wrong...) {
		line += "\n    " + quote
	}
	return line
}

// Count sends n requests over the given number of workers, the wants taken in
// turn, and returns when all are answered.
func (s Sender) Count(ctx context.Context, n, workers int, wants []Want) *Ledger {
	ledger := &Ledger{By: map[Side]int{}}
	var group errgroup.Group
	group.SetLimit(workers)
	for i := range n {
		group.Go(s.ask(ctx, ledger, wants[i%len(wants)]))
	}
	_ = group.Wait() // what fails is in the ledger
	return ledger
}

// ask returns a function that sends one request and records the result in a ledger.
func (s Sender) ask(ctx context.Context, ledger *Ledger, want Want) func() error {
	return func() error {
		side, err := s.Send(ctx, want.Key)
		ledger.record(want, side, err)
		return nil
	}
}

// Rate sends perSecond requests each second, the wants taken in turn, until
// stop is closed or ctx ends. Requests do not wait for each other, so a slow
// answer does not hide a fault; at most 256 are in flight.
func (s Sender) Rate(ctx context.Context, perSecond int, wants []Want, stop <-chan struct{}) *Ledger {
	ledger := &Ledger{By: map[Side]int{}}
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	var group errgroup.Group
	group.SetLimit(256)
	for i := 0; ; i++ {
		select {
		case <-stop:
			_ = group.Wait() // what fails is in the ledger
			return ledger
		case <-ctx.Done():
			_ = group.Wait()
			return ledger
		case <-tick.C:
		}
		group.Go(s.ask(ctx, ledger, wants[i%len(wants)]))
	}
}

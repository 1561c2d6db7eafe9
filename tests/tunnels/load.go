package tunnels

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"switchyard.dev/tests/tunnels/capture"
	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
)

// askWithin is how long a request may take on a machine that is busy.
const askWithin = 30 * time.Second

var asker = &http.Client{Timeout: askWithin, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// ask sends a request to the baseline, with a routing key unless it is empty, and returns the name
// of the responder.
func (w *world) ask(ctx context.Context, key string) (who string, err error) {
	var headers [][2]string
	if key != "" {
		headers = append(headers, [2]string{"Baggage", "userId=alice,sd-routing-key=" + key})
	}
	body, err := traffic.Fetch(ctx, asker, w.url(), headers...)
	return string(body), err
}

// ledger is what became of requests.
type ledger struct {
	mu sync.Mutex
	// Keyed and Plain are how many were sent with a key and without one; Answered, of the
	// first, those that their workstation answered.
	Keyed, Plain, Answered int
	// Baseline are requests with a key that the baseline answered, Astray those that reached
	// another user's workstation, PlainWrong those without a key that failed or were not answered
	// by the baseline.
	Baseline, Astray, PlainWrong int
	notes                        []string
	// since is when a key was last answered, and Gap for how long one was not at most.
	since map[string]time.Time
	Gap   time.Duration
}

const notesKept = 10

func (l *ledger) note(format string, args ...any) {
	if len(l.notes) < notesKept {
		l.notes = append(l.notes, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

// plain takes what became of a request without a key.
func (l *ledger) plain(who string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Plain++; err != nil || who != baselineSays {
		l.PlainWrong++
		l.note("without a key: answered by %q, %v", who, err)
	}
}

// keyed takes what became of a request that is for a local server. Between reports whether the
// baseline must not have answered.
func (l *ledger) keyed(name, who string, err error, declared bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Keyed++
	now := time.Now()
	switch {
	case err != nil:
		return // It failed visibly, as it has to.
	case who == name:
		l.Answered++
		if last, is := l.since[name]; is {
			l.Gap = max(l.Gap, now.Sub(last))
		}
		l.since[name] = now
	case who != baselineSays:
		l.Astray++
		l.note("for %s: answered by %q", name, who)
	case declared:
		l.Baseline++
		l.note("for %s: answered by the baseline", name)
	}
}

// evenly calls do so many times a second, each time beside the others, until ctx ends, and waits
// for all.
func evenly(ctx context.Context, perSecond float64, do func()) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer tick.Stop()
	room := make(chan struct{}, 256)
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case room <- struct{}{}:
		default:
			continue // The machine does not keep up.
		}
		all.Go(func() {
			defer func() { <-room }()
			do()
		})
	}
}

// direct connects to the Service of an external workload, like clients of other protocols, keeps
// the connection open for a while, and returns the name of the responder.
func (w *world) direct(ip string, hold time.Duration) (who string, err error) {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(ip, fmt.Sprint(capture.ServicePort)), askWithin)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(askWithin + hold)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(c, "GET /?hold=%d HTTP/1.1\r\nHost: cart\r\nConnection: close\r\n\r\n", hold.Milliseconds()); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

// someWhile is how long a connection is held: mostly not at all, and at times beyond the next death.
func someWhile() time.Duration {
	if rand.N(4) > 0 {
		return 0
	}
	return rand.N(12 * time.Second)
}

// quiet waits until everything has ended that ends without intervention.
func (w *world) quiet() error {
	asker.CloseIdleConnections()
	return wait.For(w.ctx, 5*time.Second)
}

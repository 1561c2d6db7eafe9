// Package strays sends requests all the time, before, during and after a change, and finds those
// that were answered by others than they should.
package strays

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
)

// PerSecond is the default number of requests per second of a load.
const PerSecond = 200

// Probe is one kind of request: by which way it goes in, how it is sent, and its routing key.
type Probe struct {
	Way, Key string
	Ask      Ask
}

// Ask sends a request with this baggage, unless it is "", and returns a chain: the names of the
// workloads that served it, in order. The error for an unavailable workload contains "status 503".
type Ask func(ctx context.Context, baggage string) (chain string, err error)

// Get returns an Ask for a URL that responds with the chain.
func Get(client *http.Client, url string) Ask {
	return func(ctx context.Context, baggage string) (string, error) {
		var headers [][2]string
		if baggage != "" {
			headers = append(headers, [2]string{"Baggage", baggage})
		}
		body, err := traffic.Fetch(ctx, client, url, headers...)
		return string(body), err
	}
}

// reply is what became of a request.
type reply struct {
	of       *Probe
	from, to time.Time
	// chain contains the names of the workloads that served the request, in order.
	chain string
	err   error
}

// Load sends requests all the time and keeps what became of them.
type Load struct {
	testing.TB
	Probes []*Probe
	// PerSecond is how many requests are sent, PerSecond for 0.
	PerSecond int

	mu      sync.Mutex
	replies []reply
}

// Run sends the probes in turn until ctx ends. Requests do not wait for each other, and those
// for which the machine had no time are sent after it.
func (l *Load) Run(ctx context.Context) error {
	began, each := time.Now(), time.Second/time.Duration(cmp.Or(l.PerSecond, PerSecond))
	var group errgroup.Group
	group.SetLimit(256)
	for i := 0; ; i++ {
		due := began.Add(time.Duration(i) * each)
		if wait.For(ctx, time.Until(due)) != nil {
			return group.Wait()
		}
		group.Go(func() error {
			r := l.Probes[i%len(l.Probes)].send()
			l.mu.Lock()
			defer l.mu.Unlock()
			l.replies = append(l.replies, r)
			return nil
		})
	}
}

// send sends one request. It is not cancelled when the load ends, so every request gets a response.
func (p *Probe) send() reply {
	r := reply{of: p, from: time.Now()}
	baggage := ""
	if p.Key != "" {
		baggage = "userId=alice,sd-routing-key=" + p.Key
	}
	r.chain, r.err = p.Ask(context.Background(), baggage)
	r.to = time.Now()
	return r
}

// Chains are the expected chains, by routing key.
type Chains map[string]string

// Phase is a change during the load, with the expected chains before and after it.
type Phase struct {
	What          string
	Before, After Chains
	// Starts is the routing key of a sandbox that comes. Until it is ready its requests fail with
	// 503, which is as it should be: they are not the baseline's.
	Starts string
}

// During sends requests before, during and after a change and returns those served by other
// workloads than expected before or after. The chain of a key changes once: no request that begins
// after the first response with the new chain has the old one.
func (l *Load) During(p Phase, change func()) *Found {
	l.Helper()
	l.Awaits(p.Before)
	s := &Found{Phase: p, begun: l.rest()}
	change()
	s.changed = time.Now()
	l.rest()
	l.Awaits(p.After)
	l.rest()
	l.judge(s)
	l.Logf("%-60s %s", p.What, s)
	return s
}

// rest waits while requests go on, and returns when it began.
func (l *Load) rest() time.Time {
	began := time.Now()
	if err := wait.For(l.Context(), time.Second); err != nil {
		l.Fatal(err)
	}
	return began
}

// Awaits waits until all are answered as they are to be.
func (l *Load) Awaits(want Chains) {
	l.Helper()
	wait.Eventually(l, time.Minute, "all are answered as they are to be", func() error {
		var all []error
		for _, p := range l.Probes {
			if r := p.send(); r.err != nil || r.chain != want[p.Key] {
				all = append(all, errors.New(r.String()))
			}
		}
		return errors.Join(all...)
	})
}

// String returns the reply as text.
func (r reply) String() string {
	if r.err != nil {
		return fmt.Sprintf("at %s, by the %s with the key %q: %v", r.from.Format("15:04:05.000"), r.of.Way, r.of.Key, r.err)
	}
	return fmt.Sprintf("at %s, by the %s with the key %q: %s", r.from.Format("15:04:05.000"), r.of.Way, r.of.Key, r.chain)
}

// Found are requests that were served by the wrong workloads, or by none.
type Found struct {
	Phase
	begun, changed time.Time
	sent, starting int
	over           time.Duration
	wrong, failed  []reply
	// whole is when the last request began that was not answered as it is to be in the end.
	whole time.Time
}

// Longest returns for how long the requests of one routing key strayed: from when the first was
// sent to when the last one was, of the key for which that took longest.
func (s *Found) Longest() (longest time.Duration) {
	first := map[string]time.Time{}
	all := slices.Concat(s.wrong, s.failed)
	slices.SortFunc(all, func(a, b reply) int { return a.from.Compare(b.from) })
	for _, r := range all {
		if first[r.of.Key].IsZero() {
			first[r.of.Key] = r.from
		}
		longest = max(longest, r.from.Sub(first[r.of.Key]))
	}
	return longest
}

// String returns the counts.
func (s *Found) String() string {
	late := max(0, s.whole.Sub(s.changed)).Round(time.Millisecond)
	text := fmt.Sprintf("%d requests in %s, %d errors, %d misroutes, whole %s after the change",
		s.sent, s.over.Round(100*time.Millisecond), len(s.failed), len(s.wrong), late)
	if s.starting > 0 {
		text += fmt.Sprintf(", %d answered 503 before the sandbox was ready", s.starting)
	}
	return text
}

// None fails the test if there are any.
func (s *Found) None(t testing.TB) {
	t.Helper()
	if all := slices.Concat(s.failed, s.wrong); len(all) > 0 {
		t.Errorf("%s, among them\n%s", s, quote(all))
	}
}

// ToBaseline fails the test unless all were answered by the baselines, for however long.
func (s *Found) ToBaseline(t testing.TB, baselines Chains) {
	t.Helper()
	elsewhere := slices.DeleteFunc(slices.Clone(s.wrong), func(r reply) bool { return r.chain == baselines[r.of.Key] })
	if all := slices.Concat(s.failed, elsewhere); len(all) > 0 {
		t.Errorf("%s, among them\n%s", s, quote(all))
	}
}

// quote returns the first few replies as text.
func quote(all []reply) string {
	var b strings.Builder
	for _, r := range all[:min(len(all), 8)] {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}

// judge fills in what strayed since the phase began.
func (l *Load) judge(s *Found) {
	l.mu.Lock()
	all := slices.Clone(l.replies)
	l.mu.Unlock()
	all = slices.DeleteFunc(all, func(r reply) bool { return r.from.Before(s.begun) })
	slices.SortFunc(all, func(a, b reply) int { return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to)) })
	s.sent, s.over = len(all), time.Since(s.begun)
	turned := map[*Probe]time.Time{} // when the first request with the new answer ended
	for _, r := range all {
		was, is := s.Before[r.of.Key], s.After[r.of.Key]
		if r.err != nil || r.chain != is {
			s.whole = r.from
		}
		turn, has := turned[r.of]
		late := has && r.from.After(turn)
		switch {
		case r.err != nil && r.of.Key == s.Starts && r.of.Key != "" && r.from.Before(s.changed) && !late && strings.Contains(r.err.Error(), "status 503"):
			s.starting++
		case r.err != nil:
			s.failed = append(s.failed, r)
		case r.chain == is:
			if !has || r.to.Before(turn) {
				turned[r.of] = r.to
			}
		case r.chain != was || late:
			s.wrong = append(s.wrong, r)
		}
	}
}

package manager_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
)

// recordingLog is a Publisher on a real log in memory, that also remembers the
// order of everything that was put on it.
type recordingLog struct {
	log *memory.Log

	mu      sync.Mutex
	newest  map[event.Key]event.Recorded
	history []event.Recorded
	settled map[event.Key]int
	// fails is what Put gives while it is set.
	fails error
}

func newRecordingLog(t *testing.T) *recordingLog {
	t.Helper()
	l := &recordingLog{log: memory.New(), newest: map[event.Key]event.Recorded{}, settled: map[event.Key]int{}}
	if _, err := l.log.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

// Put appends a fact that differs from the newest of its key.
func (l *recordingLog) Put(ctx context.Context, f event.Fact) (event.Pos, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails != nil {
		return event.Pos{}, l.fails
	}
	last, ok := l.newest[f.Key]
	if ok && proto.Equal(last.Fact.Data, f.Data) {
		return last.Pos, nil
	}
	pos, err := l.log.Append(ctx, f, last.Pos.Seq)
	if err != nil {
		return pos, err
	}
	l.newest[f.Key] = event.Recorded{Pos: pos, Fact: f}
	l.history = append(l.history, l.newest[f.Key])
	return pos, nil
}

// Settle counts.
func (l *recordingLog) Settle(key event.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled[key]++
}

// fail makes every Put give err; nil ends that.
func (l *recordingLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = err
}

// fact gives the newest fact of a key; nil when there is none.
func (l *recordingLog) fact(key event.Key) proto.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest[key].Fact.Data
}

// since gives the facts after the first n, as words.
func (l *recordingLog) since(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, r := range l.history[min(n, len(l.history)):] {
		out = append(out, fmt.Sprintf("%T %s", r.Fact.Data, r.Fact.Key))
	}
	return out
}

func (l *recordingLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.history)
}

// countingTransport counts the writes that go to the API server.
type countingTransport struct {
	mu    sync.Mutex
	wrote []string
}

func (c *countingTransport) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases/") {
			c.mu.Lock()
			c.wrote = append(c.wrote, r.Method+" "+r.URL.Path)
			c.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// list gives the writes so far.
func (c *countingTransport) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.wrote)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

package manager_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/tests/world"
)

// recordingLog is a real log in memory that remembers the order of everything
// that was recorded, and can be made to fail.
type recordingLog struct {
	*memory.Log
	store *memory.Store

	mu      sync.Mutex
	newest  map[event.Key]event.Recorded
	history []event.Recorded
	fails   error
	// room is how much the log says that it may take, in bytes; 0 for any.
	room uint64
}

// Kept returns how much there is, and how much may be.
func (l *recordingLog) Kept(ctx context.Context) (eventbus.Kept, error) {
	kept, err := l.Log.Kept(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	kept.MaxBytes = l.room
	return kept, err
}

func newRecordingLog() *recordingLog {
	store := memory.NewStore()
	return &recordingLog{Log: store.Open(), store: store, newest: map[event.Key]event.Recorded{}}
}

// Append records a fact.
func (l *recordingLog) Append(ctx context.Context, f event.Fact, last uint64) (event.Mark, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails != nil {
		return event.Mark{}, l.fails
	}
	mark, err := l.Log.Append(ctx, f, last)
	if err == nil && f.Key != event.Log {
		l.newest[f.Key] = event.Recorded{Pos: mark.Pos, Fact: f}
		l.history = append(l.history, l.newest[f.Key])
	}
	return mark, err
}

// lose loses the log, as a bus does that loses its disk.
func (l *recordingLog) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store.Lose()
	l.newest = map[event.Key]event.Recorded{}
}

// fail makes every Append give err; nil ends that.
func (l *recordingLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = err
}

// fact returns the newest fact of a key; nil when there is none.
func (l *recordingLog) fact(key event.Key) proto.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest[key].Fact.Data
}

// cause returns the cause of the newest fact of a key.
func (l *recordingLog) cause(key event.Key) event.Cause {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest[key].Fact.Cause
}

// since returns the facts after the first n, as words.
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
	return world.RoundTrip(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, "/"+publish.EpochConfigMap) {
			c.mu.Lock()
			c.wrote = append(c.wrote, r.Method+" "+r.URL.Path)
			c.mu.Unlock()
		}
		return next.RoundTrip(r)
	})
}

// list returns the writes so far.
func (c *countingTransport) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.wrote)
}

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
	// fails are the errors of Append for the facts of one test each.
	fails map[*facts]error
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
	return &recordingLog{Log: store.Open(), store: store, newest: map[event.Key]event.Recorded{}, fails: map[*facts]error{}}
}

// facts is the log as one test reads it: of a log that several tests share, the facts of the test's
// own.
type facts struct {
	*recordingLog
	owns func(key string) bool
}

// newFacts returns a log of the test's own.
func newFacts() *facts {
	return &facts{newRecordingLog(), func(string) bool { return true }}
}

// Append records a fact.
func (l *recordingLog) Append(ctx context.Context, f event.Fact, last uint64) (event.Mark, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, err := range l.fails {
		if of.owns(string(f.Key)) {
			return event.Mark{}, err
		}
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

// fail makes every Append of the test's facts return err; nil ends that.
func (l *facts) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails[l] = err; err == nil {
		delete(l.fails, l)
	}
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

// all returns the test's facts, oldest first.
func (l *facts) all() []event.Recorded {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.history), func(r event.Recorded) bool { return !l.owns(string(r.Fact.Key)) })
}

// since returns the facts after the first n, as words.
func (l *facts) since(n int) []string {
	var out []string
	all := l.all()
	for _, r := range all[min(n, len(all)):] {
		out = append(out, fmt.Sprintf("%T %s", r.Fact.Data, r.Fact.Key))
	}
	return out
}

// count returns the number of the test's facts.
func (l *facts) count() int { return len(l.all()) }

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

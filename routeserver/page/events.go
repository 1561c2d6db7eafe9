package page

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"sync"
	"time"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/eventbus/wake"
)

const (
	// streamGap is the pause between two events of a stream: changes in it are one event.
	streamGap = 50 * time.Millisecond
	// aliveEvery is the pause between comments that keep a stream open, and writeWithin bounds each write.
	aliveEvery, writeWithin = 15 * time.Second, 10 * time.Second
)

// Streams are the event streams of a program. An event is the revision of a topic, and nothing else: a page fetches its
// content after each revision that it has not seen, so that a lost event costs nothing. It is safe for
// concurrent use. Make one with NewStreams.
type Streams struct {
	limits *callers.Pool
	// begun differs between processes, so that no revision of one is a revision of another.
	begun string
	ended context.Context
	end   context.CancelFunc

	mu     sync.Mutex
	topics map[string]*topic
}

type topic struct {
	changes uint64
	changed wake.Signal
}

// NewStreams returns the streams of a program, at most so many for one person, and for all.
func NewStreams(each, all int) *Streams {
	s := &Streams{limits: callers.NewPool("event streams", callers.Bounds{Each: each, Pods: all}), begun: rand.Text()[:8], topics: map[string]*topic{}}
	s.ended, s.end = context.WithCancel(context.Background())
	return s
}

// End ends all streams, so that a server can be stopped.
func (s *Streams) End() { s.end() }

// topic returns a topic, and creates it. s.mu is locked.
func (s *Streams) topic(name string) *topic {
	t := s.topics[name]
	if t == nil {
		t = &topic{}
		s.topics[name] = t
	}
	return t
}

// Changed sends a new revision of topics; without names, of all. It does not block.
func (s *Streams) Changed(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(names) == 0 {
		for name := range s.topics {
			names = append(names, name)
		}
	}
	for _, name := range names {
		t := s.topic(name)
		t.changes++
		t.changed.Send()
	}
}

// Revision returns the revision of a topic, and a channel that is closed when it changes.
func (s *Streams) Revision(name string) (revision string, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topic(name)
	return fmt.Sprintf("%s-%d", s.begun, t.changes), t.changed.Next()
}

// Stream is that of one page.
type Stream struct {
	Topic, Person string
	// While returns once the person may not see the topic any more, or ctx has ended.
	While func(ctx context.Context)
}

// Serve serves a stream until the client closes it. Deadlines of the server do not end it.
func (s *Streams) Serve(w http.ResponseWriter, r *http.Request, of Stream) {
	leave, err := s.limits.Enter(callers.Caller{Kind: callers.Pod, Name: of.Person})
	if err != nil {
		w.Header().Set("Retry-After", "30")
		Message{Status: http.StatusTooManyRequests, Title: "Too many pages are open", Text: []string{"They are not updated at once, but every 30 seconds. Close some."}}.ServeHTTP(w, r)
		return
	}
	defer leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ended, cancel)()
	go func() {
		of.While(ctx)
		cancel()
	}()
	out := http.NewResponseController(w)
	within := func() { _ = out.SetWriteDeadline(time.Now().Add(writeWithin)) } // a ResponseRecorder has none
	defer within()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Accel-Buffering", "no") // nginx sends each event at once
	text := "retry: 1000\n"
	for last := ""; ; {
		revision, changed := s.Revision(of.Topic)
		if revision != last {
			text += "data: " + revision + "\n\n"
			last = revision
		}
		within()
		if _, err := w.Write([]byte(text)); err != nil || out.Flush() != nil || !wake.Sleep(ctx, streamGap) {
			return
		}
		text = ""
		select {
		case <-changed:
		case <-time.After(aliveEvery):
			text = ":\n\n"
		case <-ctx.Done():
			return
		}
	}
}

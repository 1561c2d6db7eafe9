package wire

import (
	"bufio"
	"io"
	"net/http"
	"sync"
	"time"
)

// gone is the event of an API server that cannot continue a watch.
const gone = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
	`"message":"too old resource version","reason":"Expired","code":410}}` + "\n"

// watch forwards the events of a stream, with the configured delays, until the process is killed.
func (t trip) watch(r *http.Request, about target) (*http.Response, error) {
	f := t.gate.faults
	if (f.Snapshot != nil || f.Page > 0) && r.URL.Query().Get("sendInitialEvents") == "true" {
		return unsupported(r), nil // The cache asks for a list then.
	}
	response, err := t.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	s := &stream{source: response.Body, stop: make(chan struct{})}
	s.out, s.in = io.Pipe()
	events := make(chan late, 4096)
	go s.read(events, about.resource, f.Delay)
	go s.pass(events, t.gate)
	response.Body = s
	return response, nil
}

// late is an event, and when it comes.
type late struct {
	line []byte
	due  time.Time
}

// stream is the body of a watch with delayed events.
type stream struct {
	source io.ReadCloser
	out    *io.PipeReader
	in     *io.PipeWriter
	once   sync.Once
	stop   chan struct{}
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) { return s.out.Read(p) }

// Close ends the stream.
func (s *stream) Close() error {
	s.once.Do(func() { close(s.stop) })
	_ = s.out.Close()
	return s.source.Close()
}

// read takes events as the API server sends them. Their order stays.
func (s *stream) read(events chan<- late, resource string, delay func(string) time.Duration) {
	defer close(events)
	lines := bufio.NewReaderSize(s.source, 64<<10)
	var last time.Time
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		due := time.Now()
		if delay != nil {
			due = due.Add(delay(resource))
		}
		if due.Before(last) {
			due = last
		}
		last = due
		select {
		case events <- late{line, due}:
		case <-s.stop:
			return
		}
	}
}

// pass forwards events when they are due.
func (s *stream) pass(events <-chan late, g *Gate) {
	var expired <-chan time.Time
	if g.faults.Expire > 0 {
		timer := time.NewTimer(g.faults.Expire)
		defer timer.Stop()
		expired = timer.C
	}
	end := func() {
		_ = s.source.Close()
		_ = s.in.CloseWithError(io.EOF)
	}
	for {
		var e late
		var ok bool
		select {
		case <-g.dead:
			end()
			return
		case <-expired:
			if g.calm.Load() {
				continue
			}
			_, _ = io.WriteString(s.in, gone)
			end()
			return
		case <-s.stop:
			return
		case e, ok = <-events:
		}
		if !ok {
			end()
			return
		}
		select {
		case <-time.After(time.Until(e.due)):
		case <-g.dead:
			end()
			return
		case <-s.stop:
			return
		}
		if _, err := s.in.Write(e.line); err != nil {
			return
		}
	}
}

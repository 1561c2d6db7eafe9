package captures

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/published"
	"switchyard.dev/sidecars/traffic/recording"
	"switchyard.dev/workflows/jobexec/results"
)

const (
	// segmentBytes is the size at which a segment is written.
	segmentBytes = 2 << 20
	// soonest and latest bound the time after which a smaller one is: a capture that takes long has fewer of them.
	soonest, latest = 2 * time.Second, 15 * time.Second
	// saveWithin bounds a save.
	saveWithin = time.Minute
)

// folder is that of the files of a capture. No job has such a name.
func folder(c Capture) string { return c.Org + "/_captures/" + c.Name }

// writer stores what a recording reads.
type writer struct {
	Store
	to results.Backend

	// mu has the others.
	mu      sync.Mutex
	c       Capture
	message string
	// segment has the exchanges that are not stored yet, the first of them since a time.
	segment bytes.Buffer
	number  int64
	since   time.Time
	// looked is when the progress was compared with saved, the last state that was saved.
	looked time.Time
	saved  string
}

// state returns what can change without an exchange.
func state(c Capture) string {
	text, _ := json.Marshal([]any{c.Progress, c.Message}) // texts and numbers
	return string(text)
}

// note is recording.Config.Note.
func (w *writer) note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.message = text
}

// each is recording.Config.Each.
func (w *writer) each(x *trafficv1.Exchange, workload string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c.Bytes+int64(w.segment.Len()) >= w.Limits.Capture {
		return recording.ErrFull
	}
	if w.segment.Len() == 0 {
		w.since = time.Now()
	}
	w.number++
	_, err := protodelim.MarshalTo(&w.segment, &trafficv1.Recorded{Exchange: x, Workload: workload})
	return err
}

// save is recording.Config.Save. What cannot be saved is read again later.
func (w *writer) save() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	due := w.segment.Len() >= segmentBytes || w.segment.Len() > 0 && now.Sub(w.since) >= min(max(soonest, now.Sub(w.c.CreatedAt)/40), latest)
	if !due && now.Sub(w.looked) < time.Second {
		return nil
	}
	w.looked = now
	next := w.c
	next.Message = w.message
	if !due && state(next) == w.saved {
		return nil
	}
	if err := w.write(due, next); err != nil {
		return fmt.Errorf("%w: %w", recording.ErrLeft, err)
	}
	return nil
}

// end saves everything, and that the capture has ended.
func (w *writer) end(message string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := w.c
	next.Message, next.EndedAt = message, time.Now().UTC()
	return w.write(w.segment.Len() > 0, next)
}

// write saves a capture, with the segment or without it. w.mu is held.
func (w *writer) write(segment bool, next Capture) error {
	ctx, cancel := context.WithTimeout(context.Background(), saveWithin)
	defer cancel()
	var with Segment
	if segment {
		next.Segments, next.Requests, next.Bytes = next.Segments+1, next.Requests+w.number, next.Bytes+int64(w.segment.Len())
		with = Segment{next.Segments, rand.Text(), w.number, int64(w.segment.Len())}
		if err := w.to.Put(ctx, folder(next)+"/"+with.File, bytes.NewReader(w.segment.Bytes())); err != nil {
			return fmt.Errorf("store requests of capture %s: %w", next.Name, err)
		}
	}
	next, err := w.Store.save(ctx, next, with)
	if err != nil {
		return err
	}
	// The pointer to the progress is that of the recording.
	w.c.Revision, w.c.Segments, w.c.Requests, w.c.Bytes = next.Revision, next.Segments, next.Requests, next.Bytes
	if w.saved = state(next); segment {
		w.segment.Reset()
		w.number = 0
	}
	return nil
}

// Read calls each with the recorded exchanges of a segment, in their order. An error of each is returned.
func Read(ctx context.Context, from results.Backend, c Capture, s Segment, each func(*trafficv1.Recorded) error) error {
	file, err := from.Open(ctx, folder(c)+"/"+s.File)
	if err != nil {
		return fmt.Errorf("read requests of capture %s: %w", c.Name, err)
	}
	defer func() { _ = file.Close() }() // it was only read
	for r := bufio.NewReaderSize(file, 64<<10); ; {
		one := &trafficv1.Recorded{}
		if err := (protodelim.UnmarshalOptions{MaxSize: recording.MaxExchange}).UnmarshalFrom(r, one); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read requests of capture %s: %w", c.Name, err)
		}
		if err := each(one); err != nil {
			return err
		}
	}
}

// Newest returns the metadata of the newest requests of a capture, at most n, the newest first. It keeps no bodies.
func (s Store) Newest(ctx context.Context, from results.Backend, c Capture, n int) ([]published.Meta, error) {
	out := []published.Meta{}
	all, err := s.Segments(ctx, c)
	for i := len(all) - 1; i >= 0 && err == nil && len(out) < n; i-- {
		var some []published.Meta
		err = Read(ctx, from, c, all[i], func(one *trafficv1.Recorded) error {
			some = append(some, published.MetaOf(one.GetExchange(), one.GetWorkload()))
			return nil
		})
		slices.Reverse(some)
		out = append(out, some[:min(len(some), n-len(out))]...)
	}
	return out, err
}

// Delete deletes the files of a capture that has ended, or that nothing records.
func Delete(ctx context.Context, from results.Backend, c Capture) error {
	return from.Delete(ctx, folder(c))
}

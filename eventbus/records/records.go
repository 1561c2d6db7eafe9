// Package records hands records to a sink that can be slow or away, through a bounded queue: the caller never waits.
// Records that do not fit are lost, the oldest first, and counted.
package records

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"switchyard.dev/eventbus/wake"
)

const (
	again = time.Second
	// endWithin is how long a sink has for the queued records at the end.
	endWithin = 2 * time.Second
)

// Sink receives records. One goroutine calls Append with the records in order, and again with the same ones after it
// returned an error; Append returns when ctx ends. A Sink that is an io.Closer is closed with its Queue.
type Sink[T any] interface {
	Append(ctx context.Context, records []T) error
}

// Config configures a Queue. Weight and Logger can be missing.
type Config[T any] struct {
	Sink Sink[T]
	// Maximum bounds the weight of the queued records, and AtOnce that of the records in one Append, which
	// has at least one.
	Maximum, AtOnce int
	// Weight returns the weight of a record. Default: 1.
	Weight func(T) int
	// Lost is called with records that the sink will not get. It must not wait, nor call the Queue.
	Lost func([]T)
	// Name is the records in log messages, such as "records of connections", and Otherwise what remains of lost
	// ones, such as "the log has them".
	Name, Otherwise string
	Logger          *slog.Logger
}

// Queue is a sink with its queue. It is safe for concurrent use.
type Queue[T any] struct {
	cfg    Config[T]
	done   chan struct{}
	cancel context.CancelFunc

	mu      sync.Mutex
	queue   []T
	weight  int
	losing  bool // and it was logged
	closing bool
	wake    chan struct{}
}

// New begins a queue, which ends with Close or when ctx ends.
func New[T any](ctx context.Context, cfg Config[T]) *Queue[T] {
	ctx, cancel := context.WithCancel(ctx)
	if cfg.Weight == nil {
		cfg.Weight = func(T) int { return 1 }
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	q := &Queue[T]{cfg: cfg, done: make(chan struct{}), cancel: cancel, wake: make(chan struct{}, 1)}
	go q.run(ctx)
	return q
}

// Add queues records. When the queue is full the oldest are lost.
func (q *Queue[T]) Add(records ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, records...)
	for _, r := range records {
		q.weight += q.cfg.Weight(r)
	}
	over := 0
	for ; q.weight > q.cfg.Maximum && over < len(q.queue); over++ {
		q.weight -= q.cfg.Weight(q.queue[over])
	}
	if over > 0 {
		q.cfg.Lost(q.queue[:over:over])
		if !q.losing {
			q.losing = true
			q.cfg.Logger.Error("more "+q.cfg.Name+" wait than are kept, and the oldest are not handed over; "+q.cfg.Otherwise, "waiting", len(q.queue)-over)
		}
		q.queue = append([]T(nil), q.queue[over:]...)
	}
	wake.Notify(q.wake)
}

// take returns the next records, and whether there will be none after them.
func (q *Queue[T]) take() (records []T, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, weight := 0, 0
	for ; n < len(q.queue); n++ {
		w := q.cfg.Weight(q.queue[n])
		if n > 0 && weight+w > q.cfg.AtOnce {
			break
		}
		weight += w
	}
	q.weight -= weight
	records, q.queue = q.queue[:n:n], q.queue[n:]
	return records, q.closing && len(q.queue) == 0
}

func (q *Queue[T]) run(ctx context.Context) {
	defer close(q.done)
	for {
		records, last := q.take()
		if len(records) > 0 && !q.hand(ctx, records) {
			q.forsake(records)
			return
		}
		if last {
			return
		}
		if len(records) > 0 {
			continue
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			q.forsake(nil)
			return
		}
	}
}

// hand appends records, with retries. It reports whether that succeeded before ctx ended.
func (q *Queue[T]) hand(ctx context.Context, records []T) bool {
	reported := false
	for {
		err := q.cfg.Sink.Append(ctx, records)
		if err == nil {
			if reported {
				q.cfg.Logger.Info(q.cfg.Name + " are handed over again")
			}
			q.mu.Lock()
			q.losing = false
			q.mu.Unlock()
			return true
		}
		if !reported {
			q.cfg.Logger.Warn(q.cfg.Name+" wait, since they cannot be handed over; "+q.cfg.Otherwise, "error", err)
			reported = true
		}
		if !wake.Sleep(ctx, again) {
			return false
		}
	}
}

// forsake reports as lost the records that are queued at the end, and some more.
func (q *Queue[T]) forsake(records []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	records = append(records, q.queue...)
	if q.queue, q.weight = nil, 0; len(records) == 0 {
		return
	}
	q.cfg.Lost(records)
	q.cfg.Logger.Error(q.cfg.Name+" were not handed over before the end; "+q.cfg.Otherwise, "records", len(records))
}

// Close gives the sink two seconds to accept the queued records.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	q.closing = true
	wake.Notify(q.wake)
	q.mu.Unlock()
	select {
	case <-q.done:
	case <-time.After(endWithin):
	}
	q.cancel()
	<-q.done
	if c, is := q.cfg.Sink.(io.Closer); is {
		_ = c.Close() // nothing is appended any more
	}
}

package audit

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus/wake"
)

// Bounds of the queue of a sink.
const (
	maxQueued = 16384
	// atOnce is the maximum number of records in one Append.
	atOnce = 1024
	again  = time.Second
	// endWithin is how long a sink has for the queued records at the end.
	endWithin = 2 * time.Second
)

// outlet is a sink with its queue.
type outlet struct {
	sink   Sink
	lost   prometheus.Counter
	logger *slog.Logger
	done   chan struct{}
	cancel context.CancelFunc

	mu      sync.Mutex
	queue   []Record
	losing  bool // and it was logged
	closing bool
	wake    chan struct{}
}

func newOutlet(ctx context.Context, sink Sink, lost prometheus.Counter, logger *slog.Logger) *outlet {
	ctx, cancel := context.WithCancel(ctx)
	o := &outlet{sink: sink, lost: lost, logger: logger, done: make(chan struct{}), cancel: cancel, wake: make(chan struct{}, 1)}
	go o.run(ctx)
	return o
}

// add queues records. When the queue is full the oldest are dropped.
func (o *outlet) add(records []Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, records...)
	if over := len(o.queue) - maxQueued; over > 0 {
		o.lost.Add(float64(over))
		if !o.losing {
			o.losing = true
			o.logger.Error("more records of connections wait than are kept, and the oldest are not handed over; the log has them", "waiting", maxQueued)
		}
		o.queue = append([]Record(nil), o.queue[over:]...)
	}
	wake.Notify(o.wake)
}

// take returns the next records, and whether there will be none after them.
func (o *outlet) take() (records []Record, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.queue), atOnce)
	records, o.queue = o.queue[:n:n], o.queue[n:]
	return records, o.closing && len(o.queue) == 0
}

func (o *outlet) run(ctx context.Context) {
	defer close(o.done)
	for {
		records, last := o.take()
		if len(records) > 0 && !o.hand(ctx, records) {
			o.forsake(records)
			return
		}
		if last {
			return
		}
		if len(records) > 0 {
			continue
		}
		select {
		case <-o.wake:
		case <-ctx.Done():
			return
		}
	}
}

// hand appends records, with retries. It reports whether that succeeded before ctx ended.
func (o *outlet) hand(ctx context.Context, records []Record) bool {
	said := false
	for {
		err := o.sink.Append(ctx, records)
		if err == nil {
			if said {
				o.logger.Info("records of connections are handed over again")
			}
			o.mu.Lock()
			o.losing = false
			o.mu.Unlock()
			return true
		}
		if !said {
			o.logger.Warn("records of connections wait, since they cannot be handed over; the log has them", "error", err)
			said = true
		}
		if !wake.Sleep(ctx, again) {
			return false
		}
	}
}

// forsake counts as lost the records that are queued at the end, and some more.
func (o *outlet) forsake(records []Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(records) + len(o.queue)
	o.queue = nil
	o.lost.Add(float64(n))
	o.logger.Error("records of connections were not handed over before the end; the log has them", "records", n)
}

// close gives the sink endWithin to accept the queued records.
func (o *outlet) close() {
	o.mu.Lock()
	o.closing = true
	wake.Notify(o.wake)
	o.mu.Unlock()
	select {
	case <-o.done:
	case <-time.After(endWithin):
	}
	o.cancel()
	<-o.done
	if c, is := o.sink.(io.Closer); is {
		_ = c.Close() // nothing is appended any more
	}
}

package jetstream

import (
	"context"
	"fmt"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

const (
	// maxBatch and maxBatchBytes bound one commit.
	maxBatch      = 256
	maxBatchBytes = 4 << 20
	// gathering is how long a commit waits at most for the callers of the last one to append
	// their next fact: less than an atomic batch takes.
	gathering = time.Millisecond
)

// waiting is a fact that waits to be recorded.
type waiting struct {
	ctx   context.Context
	epoch string
	m     event.Message
	last  uint64
	size  int
	// answered takes the one answer.
	answered chan answer
}

type answer struct {
	mark event.Mark
	err  error
}

func (w *waiting) answer(mark event.Mark, err error) { w.answered <- answer{mark, err} }

// Append implements eventbus.Log. The fact waits in a queue. If no goroutine is committing the
// queue, the caller starts one, which runs until the queue is empty.
func (l *Log) Append(ctx context.Context, f event.Fact, last uint64) (event.Mark, error) {
	m, err := event.Encode(f)
	if err != nil {
		return event.Mark{}, fmt.Errorf("%w: %w", eventbus.ErrRefused, err)
	}
	w := &waiting{ctx: ctx, m: m, last: last, size: m.Size(), answered: make(chan answer, 1)}
	if err := l.enqueue(w); err != nil {
		return event.Mark{}, err
	}
	select {
	case a := <-w.answered:
		return a.mark, a.err
	case <-ctx.Done():
		return event.Mark{}, fmt.Errorf("append a fact of %q: %w", f.Key, ctx.Err())
	}
}

func (l *Log) enqueue(w *waiting) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch == "" {
		return fmt.Errorf("%w: Begin was not called", eventbus.ErrNoLog)
	}
	w.epoch = l.epoch
	l.queue = append(l.queue, w)
	if l.enough != nil && len(l.queue) >= l.lastBatch {
		close(l.enough)
		l.enough = nil
	}
	if !l.committing {
		l.committing = true
		go l.commitAll()
	}
	return nil
}

// commitAll commits the queue until it is empty.
func (l *Log) commitAll() {
	for {
		l.gather()
		batch := l.dequeue()
		if len(batch) == 0 {
			return
		}
		l.commit(batch)
	}
}

// gather waits a moment for the queue to grow as long as the last batch was: the callers of
// that batch are about to append again, and each commit costs the disk the same, however much
// it contains. After a lone fact it does not wait.
func (l *Log) gather() {
	l.mu.Lock()
	enough := len(l.queue) >= l.lastBatch
	if !enough {
		l.enough = make(chan struct{})
	}
	filled := l.enough
	l.mu.Unlock()
	if enough {
		return
	}
	timer := time.NewTimer(gathering)
	defer timer.Stop()
	select {
	case <-filled:
	case <-timer.C:
	}
}

// dequeue takes the next batch. It returns none when the queue is empty, and then the goroutine
// ends.
func (l *Log) dequeue() []*waiting {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enough = nil
	n, size := 0, 0
	for n < len(l.queue) && n < maxBatch && (n == 0 || size+l.queue[n].size <= maxBatchBytes) {
		size += l.queue[n].size
		n++
	}
	batch := l.queue[:n:n]
	l.queue = l.queue[n:]
	if n == 0 {
		l.queue, l.committing = nil, false
	} else {
		l.lastBatch = n
	}
	return batch
}

// answerAll answers all with the same error.
func answerAll(batch []*waiting, err error) {
	for _, w := range batch {
		w.answer(event.Mark{}, fmt.Errorf("append a fact on %s: %w", w.m.Subject, err))
	}
}

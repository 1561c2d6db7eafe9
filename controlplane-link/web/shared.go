package web

import (
	"cmp"
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// readGap is the pause between two reads of a value by default, and failedFor how long an error is used.
	readGap, failedFor = 50 * time.Millisecond, time.Second
	// keepFor is how long a value takes memory after its read.
	keepFor = time.Minute
)

// shared has values that are read once for all requests that need them at the same time.
type shared[T any] struct {
	// A value is used for age, and its read takes at most within. While there is an older one, a request waits for patience
	// only; 0: until the value is read.
	age, within, patience time.Duration
	// gap is the pause between two reads; default: readGap.
	gap time.Duration

	reads singleflight.Group
	all   sync.Map // of *kept[T]
}

// kept is a value, or the error of its read, which has begun after a revision.
type kept[T any] struct {
	of        T
	err       error
	revision  string
	began, at time.Time
}

// current reports whether a value is used for a revision, and at most for age.
func (k *kept[T]) current(revision string, age time.Duration) bool {
	if k.err != nil {
		age = failedFor
	}
	return k.revision == revision && time.Since(k.at) < age
}

// get returns the value of a key, which has the present revision unless it is stale.
func (s *shared[T]) get(ctx context.Context, key string, revision func() string, read func(context.Context) (T, error)) (of T, stale bool, err error) {
	began, wanted := time.Now(), revision()
	for {
		last := s.last(key)
		if !last.began.Before(began) || last.current(wanted, s.age) {
			return last.of, false, last.err
		}
		var late <-chan time.Time
		if s.patience > 0 && !last.at.IsZero() {
			late = time.After(s.patience)
		}
		select {
		case <-s.reads.DoChan(key, func() (any, error) { s.read(ctx, key, revision, read); return nil, nil }):
		case <-late:
			return last.of, true, last.err
		case <-time.After(s.within + time.Second): // the read ignores its context
			return of, false, context.DeadlineExceeded
		case <-ctx.Done():
			return of, false, ctx.Err()
		}
	}
}

// last returns the last value that was read; zero: there is none.
func (s *shared[T]) last(key string) *kept[T] {
	if v, is := s.all.Load(key); is {
		return v.(*kept[T])
	}
	return &kept[T]{}
}

// read reads a value, also once the request that has begun it has ended, since others can wait for it.
func (s *shared[T]) read(ctx context.Context, key string, revision func() string, read func(context.Context) (T, error)) {
	time.Sleep(cmp.Or(s.gap, readGap) - time.Since(s.last(key).at))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.within)
	defer cancel()
	next := &kept[T]{revision: revision(), began: time.Now()}
	next.of, next.err = read(ctx)
	next.at = time.Now()
	s.all.Store(key, next)
	time.AfterFunc(keepFor, func() { s.all.CompareAndDelete(key, next) })
}

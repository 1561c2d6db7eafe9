// Package readers bounds how many callers read a log at once.
//
// To read a JetStream log takes a consumer, which the server keeps for the reader, and of which
// a stream has a bounded number. A program that reads on behalf of anonymous callers would let
// them take all of these, and then no other program could follow the log or begin it. Through a
// Bounded they share a few, and wait for their turn.
//
// Readings must be short: one that lasts as long as its caller pleases keeps the others out.
package readers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// The bounds of one route server.
const (
	// AtOnce is how many read at once.
	AtOnce = 16
	// Patience is how long one waits for its turn.
	Patience = 5 * time.Second
)

// Bounded is a log that at most so many read at once. It is safe for concurrent use.
type Bounded struct {
	eventbus.Reader
	turns    chan struct{}
	patience time.Duration
}

// Bound bounds the readers of a log: at most atOnce of Read, Follow and HistoryOf at
// a time, a reading from its beginning to its Close. One that has no turn within
// patience gets eventbus.ErrBusy. Tip and Kept are not bounded: they keep nothing at
// the server.
func Bound(log eventbus.Reader, atOnce int, patience time.Duration) (*Bounded, error) {
	if log == nil || atOnce <= 0 || patience < 0 {
		return nil, errors.New("readers: give a log, how many may read it at once, and how long one waits for that")
	}
	return &Bounded{Reader: log, turns: make(chan struct{}, atOnce), patience: patience}, nil
}

// busy is eventbus.ErrBusy, in figures.
type busy struct {
	readers  int
	patience time.Duration
}

// Error implements error.
func (b busy) Error() string {
	return fmt.Sprintf("%d readers of the routing log are at work, the most allowed, and none ended within %s", b.readers, b.patience)
}

// Unwrap makes it eventbus.ErrBusy.
func (busy) Unwrap() error { return eventbus.ErrBusy }

// enter waits for a turn. The function that it gives ends it, once.
func (b *Bounded) enter(ctx context.Context) (leave func(), err error) {
	select {
	case b.turns <- struct{}{}:
	default:
		wait := time.NewTimer(b.patience)
		defer wait.Stop()
		select {
		case b.turns <- struct{}{}:
		case <-wait.C:
			return nil, busy{cap(b.turns), b.patience}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	var once sync.Once
	return func() { once.Do(func() { <-b.turns }) }, nil
}

// Read implements eventbus.Reader.
func (b *Bounded) Read(ctx context.Context, behind event.Pos) (eventbus.Cursor, error) {
	leave, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	c, err := b.Reader.Read(ctx, behind)
	if err != nil {
		leave()
		return nil, err
	}
	return &cursor{c, leave}, nil
}

// Follow implements eventbus.Reader.
func (b *Bounded) Follow(ctx context.Context) (eventbus.Follower, error) {
	leave, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	f, err := b.Reader.Follow(ctx)
	if err != nil {
		leave()
		return nil, err
	}
	return &follower{f, leave}, nil
}

// HistoryOf implements eventbus.Reader.
func (b *Bounded) HistoryOf(ctx context.Context, key event.Key) ([]event.Recorded, error) {
	leave, err := b.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return b.Reader.HistoryOf(ctx, key)
}

type cursor struct {
	eventbus.Cursor
	leave func()
}

// Close implements eventbus.Cursor.
func (c *cursor) Close() {
	c.Cursor.Close()
	c.leave()
}

type follower struct {
	eventbus.Follower
	leave func()
}

// Close implements eventbus.Follower.
func (f *follower) Close() {
	f.Follower.Close()
	f.leave()
}

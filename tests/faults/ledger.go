package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/logtest"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/tools/wait"
)

// Ledger is what writers know to be in the log, because it was acknowledged.
type Ledger struct {
	mu    sync.Mutex
	acked []event.Mark
	// tip is the acknowledged event that is last in the log.
	tip event.Mark
	// floor is the highest floor that the log was asked to begin at.
	floor uint64
	// lastAck is when the last acknowledgement came.
	lastAck time.Time
	// sealed takes nothing more.
	sealed bool
	// ended is why a writer gave up: the log is no longer the one it wrote to.
	ended error
}

func (l *Ledger) note(m event.Mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return
	}
	l.acked = append(l.acked, m)
	if m.Seq > l.tip.Seq || m.Epoch != l.tip.Epoch {
		l.tip = m
	}
	l.lastAck = time.Now()
}

// seal closes the ledger to further acknowledged events, or opens it again.
func (l *Ledger) seal(sealed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = sealed
}

func (l *Ledger) raise(floor uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.floor = max(l.floor, floor)
}

func (l *Ledger) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.ended = err
	}
}

// Tip returns the acknowledged event that is last in the log.
func (l *Ledger) Tip() event.Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tip
}

// Acked returns how many facts were acknowledged, and when the last one was.
func (l *Ledger) Acked() (int, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked), l.lastAck
}

// Ended is why a writer gave up, nil when none has.
func (l *Ledger) Ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// Lost counts the acknowledged events that are not among those of the log, with
// the checksum that was acknowledged. What lies below a floor may be gone.
func (l *Ledger) Lost(events []event.Stored) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	have := make(map[event.Pos]event.Chain, len(events))
	var first uint64
	for i, e := range events {
		if i == 0 {
			first = e.Pos.Seq
		}
		if chain, err := event.ChainOf(e.Message); err == nil {
			have[e.Pos] = chain
		}
	}
	lost := 0
	for _, m := range l.acked {
		forgotten := m.Seq < first && m.Seq < l.floor
		if have[m.Pos] != m.Chain && !forgotten {
			lost++
		}
	}
	return lost
}

// contents reads and verifies the whole log.
func contents(ctx context.Context, log eventbus.Reader, known event.Mark) ([]event.Stored, error) {
	kept, err := log.Kept(ctx)
	if err != nil {
		return nil, err
	}
	cursor, err := log.Read(ctx, event.Pos{})
	if err != nil {
		return nil, err
	}
	defer cursor.Close()
	var events []event.Stored
	v := eventbus.NewVerifier(kept.Tip.Epoch, known)
	for at := kept.Floor.Seq; at <= kept.Tip.Seq; {
		more, err := cursor.Next(ctx)
		if err != nil {
			return events, err
		}
		for _, e := range more {
			if err := v.Take(e); err != nil {
				return events, err
			}
			at = e.Pos.Seq + 1
		}
		events = append(events, more...)
	}
	_, err = v.Done(kept.Tip)
	return events, err
}

// Writing is how writers write.
type Writing struct {
	Log    eventbus.Log
	Ledger *Ledger
	// Name distinguishes the keys of these writers from those of others.
	Name    string
	Writers int
	// Floors makes them record floors and forget what lies before.
	Floors bool
	Rand   *rand.Rand
	// Gate is locked for reading while a fact is on its way; locking it for writing stops the
	// writers.
	Gate *sync.RWMutex
}

// Start lets the writers write until stop is called, which waits until they have ended.
func (w Writing) Start(ctx context.Context) (stop func()) {
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	for i := range w.Writers {
		seed := w.Rand.Uint64()
		all.Go(func() { w.write(ctx, fmt.Sprint(w.Name, "-", i), rand.New(rand.NewPCG(seed, 0))) })
	}
	if w.Floors {
		all.Go(func() { w.forget(ctx) })
	}
	return func() { cancel(); all.Wait() }
}

// write publishes facts one after another, about a few keys that no other writer uses.
func (w Writing) write(ctx context.Context, name string, random *rand.Rand) {
	last := map[string]uint64{}
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprint(name, ".", random.IntN(8))
		w.Gate.RLock()
		mark, err := w.Log.Append(ctx, logtest.Fact(key, n), last[key])
		w.Gate.RUnlock()
		switch {
		case err == nil:
			last[key] = mark.Seq
			w.Ledger.note(mark)
		case final(err):
			w.Ledger.end(err)
			return
		case errors.Is(err, eventbus.ErrConflict):
			// An attempt with a lost answer had been recorded after all.
			if r, ok, err := w.Log.Newest(ctx, event.RoutingKey(key)); err == nil && ok {
				last[key] = r.Pos.Seq
			}
		default:
			rest(ctx)
		}
	}
}

// forget records a floor now and then, and lets the log begin there.
func (w Writing) forget(ctx context.Context) {
	var last uint64
	if r, ok, err := w.Log.Newest(ctx, event.LogFloor); err == nil && ok {
		last = r.Pos.Seq
	}
	for ctx.Err() == nil {
		floor := event.Fact{Key: event.LogFloor, Time: time.Unix(0, 0), Data: &factv1.Floor{}}
		mark, err := w.Log.Append(ctx, floor, last)
		if err == nil {
			last = mark.Seq
			w.Ledger.note(mark)
			w.Ledger.raise(mark.Seq)
			err = w.Log.Forget(ctx, mark.Pos)
		}
		if final(err) {
			w.Ledger.end(err)
			return
		}
		for range 5 {
			rest(ctx)
		}
	}
}

// final reports whether an error means that the log is no longer the one that was
// written to.
func final(err error) bool {
	return errors.Is(err, eventbus.ErrEpochEnded) || errors.Is(err, eventbus.ErrNoLog) ||
		errors.Is(err, eventbus.ErrDamaged) || errors.Is(err, eventbus.ErrRefused)
}

// rest waits a moment before the next attempt.
func rest(ctx context.Context) { _ = wait.For(ctx, 20*time.Millisecond) }

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"switchyard.dev/eventbus/memory"
	"switchyard.dev/tests/bench/frame"
)

// stopped is what watchers that do not read cost the server, and how they catch
// up.
type stopped struct {
	changes int
	// held is the heap that the server is rid of once they read again, in KiB for
	// each.
	held float64
	// catchUp is the time from reading again to having the rules of then; ops is how many they
	// received, on average.
	catchUp time.Duration
	ops     float64
}

// sleepers is how many watchers stop.
const sleepers = 50

// measureStopped lets watchers stop while changes are made, a few and then ten times as many,
// faster than in practice. Their cost must not grow.
func measureStopped(ctx context.Context, w io.Writer, rules int) error {
	var all []stopped
	for _, lasting := range []time.Duration{2 * time.Second, 20 * time.Second} {
		s, err := stop(ctx, load{watchers: sleepers, perSecond: 1000, lasting: lasting, rules: rules})
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	for _, s := range all {
		behind := fmt.Sprintf("-after-%d", s.changes)
		figure(w, "watch-stopped-heap"+behind, s.held, "KiB-each", 256, 0)
		figure(w, "watch-stopped-catch-up"+behind, s.catchUp.Seconds()*1e3, "ms", 0, 0)
		figure(w, "watch-stopped-told"+behind, s.ops, "ops-each", 0, 0)
	}
	figure(w, "watch-stopped-heap-growth", all[1].held/all[0].held, "times", 1.5, 0)
	return nil
}

func stop(ctx context.Context, l load) (stopped, error) {
	s := stopped{changes: l.changes()}
	r, err := start(ctx, memory.New(), l)
	if err != nil {
		return s, err
	}
	defer r.stop()
	if err := r.watchers.Call("Hold", struct{}{}, nil); err != nil {
		return s, err
	}
	if _, _, err := l.make(r.change); err != nil {
		return s, err
	}
	digest := r.digest(ctx)
	before := frame.Heap()
	again := time.Now()
	if err := r.watchers.Call("Release", struct{}{}, nil); err != nil {
		return s, err
	}
	if err := r.watchers.Call("Await", digest, &s.ops); err != nil {
		return s, err
	}
	s.catchUp = time.Since(again)
	s.held = (float64(before) - float64(frame.Heap())) / 1024 / float64(l.watchers)
	return s, nil
}

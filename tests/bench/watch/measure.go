package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/memory"
)

// measure measures everything and prints it.
func measure(ctx context.Context, w io.Writer, l load) error {
	reference, err := fanOutBare(l)
	if err != nil {
		return fmt.Errorf("bare gRPC: %w", err)
	}
	ours, err := fanOut(ctx, memory.New(), l)
	if err != nil {
		return fmt.Errorf("a log in memory: %w", err)
	}
	ours.print(w, "", reference)
	if ours, err = onJetStream(ctx, l); err != nil {
		return fmt.Errorf("JetStream: %w", err)
	}
	ours.print(w, "-jetstream", reference)
	if err := measureStopped(ctx, w, l.rules); err != nil {
		return fmt.Errorf("stopped watchers: %w", err)
	}
	return nil
}

// fanned is what one fan-out was like.
type fanned struct {
	// fromCall and fromReturn are, for each change, the time from the call of
	// Append and from its return to the arrival at the last watcher, sorted.
	fromCall, fromReturn []time.Duration
	// server, watchers and others are the seconds that each computed in a second.
	server, watchers, others float64
	perSecond                float64
}

// onJetStream does it with the log as it is in a cluster: synced to disk. The
// server of the log is in this process.
func onJetStream(ctx context.Context, l load) (out fanned, err error) {
	dir, err := os.MkdirTemp("", "bench-watch")
	if err != nil {
		return fanned{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bus, err := embedded.Start(embedded.Config{StoreDir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fanned{}, err
	}
	defer bus.Close()
	conn, err := bus.Conn(ctx)
	if err != nil {
		return fanned{}, err
	}
	defer conn.Close()
	log, err := jetstream.New(jetstream.Config{Conn: conn})
	if err != nil {
		return fanned{}, err
	}
	return fanOut(ctx, log, l)
}

// fanOut makes changes in a log and has them watched through a route server.
func fanOut(ctx context.Context, log eventbus.Log, l load) (out fanned, err error) {
	r, err := start(ctx, log, l)
	if err != nil {
		return fanned{}, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	return l.watched(r.watchers, r.change, func() uint64 { return r.digest(ctx) })
}

// fanOutBare does the same without any of ours.
func fanOutBare(l load) (out fanned, err error) {
	b, address, stop, err := serveBare()
	if err != nil {
		return fanned{}, err
	}
	defer stop()
	watchers, err := startWatchers()
	if err != nil {
		return fanned{}, err
	}
	defer func() { err = errors.Join(err, watchers.close()) }()
	if err := watchers.open(address, l.watchers, l.numbers()); err != nil {
		return fanned{}, err
	}
	return l.watched(watchers, b.change, b.digest)
}

// watched makes the changes of a load and tells how long they took to the last
// watcher. In the end every watcher must have what digest says.
func (l load) watched(watchers *process, change func(int) error, digest func() uint64) (fanned, error) {
	before := compute(watchers.cmd.Process.Pid)
	times, lasted, err := l.make(change)
	if err != nil {
		return fanned{}, err
	}
	var f fanned
	f.server, f.watchers, f.others = compute(watchers.cmd.Process.Pid).since(before, lasted)
	f.perSecond = float64(l.changes()) / lasted.Seconds()
	if _, err := watchers.await(digest()); err != nil {
		return fanned{}, err
	}
	arrivals, err := watchers.arrivals()
	if err != nil {
		return fanned{}, err
	}
	for i, m := range times {
		if m.call == 0 {
			continue // not made: its turn would have come later
		}
		if arrivals[i].Count != l.watchers {
			return fanned{}, fmt.Errorf("change %d was seen by %d watchers of %d", i, arrivals[i].Count, l.watchers)
		}
		f.fromCall = append(f.fromCall, time.Duration(arrivals[i].Last-m.call))
		f.fromReturn = append(f.fromReturn, max(0, time.Duration(arrivals[i].Last-m.done)))
	}
	slices.Sort(f.fromCall)
	slices.Sort(f.fromReturn)
	return f, nil
}

// made is when a change was stated: before and after the call.
type made struct{ call, done int64 }

// make makes the changes of a load, one after the other and evenly, and gives
// when each was made, by its number.
func (l load) make(change func(int) error) (times []made, lasted time.Duration, err error) {
	times = make([]made, l.numbers())
	start := time.Now()
	for i, n := range changesInOrder(l.changes()) {
		time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(l.perSecond))))
		call := now()
		if err := change(n); err != nil {
			return nil, 0, err
		}
		times[n] = made{call, now()}
	}
	return times, time.Since(start), nil
}

// at gives a quantile of sorted times, in milliseconds.
func at(sorted []time.Duration, quantile float64) float64 {
	return sorted[min(len(sorted)-1, int(quantile*float64(len(sorted))))].Seconds() * 1e3
}

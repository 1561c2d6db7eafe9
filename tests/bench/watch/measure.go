package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/process"
)

// measure measures everything and prints it.
func (l load) measure(ctx context.Context, w io.Writer) error {
	reference, err := l.fanOutBare()
	if err != nil {
		return fmt.Errorf("bare gRPC: %w", err)
	}
	ours, err := l.fanOut(ctx, memory.New())
	if err != nil {
		return fmt.Errorf("a log in memory: %w", err)
	}
	ours.print(w, "", reference)
	if ours, err = l.onJetStream(ctx); err != nil {
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
	// Append and from its return to the arrival at the last watcher.
	fromCall, fromReturn []time.Duration
	// server, watchers and others are the seconds that each computed in a second.
	server, watchers, others float64
	perSecond                float64
}

// onJetStream does it with the log as it is in a cluster: synced to disk. The
// server of the log is in this process.
func (l load) onJetStream(ctx context.Context) (out fanned, err error) {
	dir, err := os.MkdirTemp("", "bench-watch")
	if err != nil {
		return fanned{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bus, err := frame.OpenBus(ctx, embedded.Config{StoreDir: dir}, jetstream.Config{})
	if err != nil {
		return fanned{}, err
	}
	defer bus.Close()
	return l.fanOut(ctx, bus.Log)
}

// fanOut makes changes in a log and has them watched through a route server.
func (l load) fanOut(ctx context.Context, log eventbus.Log) (out fanned, err error) {
	r, err := start(ctx, log, l)
	if err != nil {
		return fanned{}, err
	}
	defer func() { err = errors.Join(err, r.stop()) }()
	return l.watched(r.watchers, r.change, func() uint64 { return r.digest(ctx) })
}

// fanOutBare does the same without the route server.
func (l load) fanOutBare() (out fanned, err error) {
	b, address, stop, err := serveBare()
	if err != nil {
		return fanned{}, err
	}
	defer stop()
	watchers, err := l.open(address)
	if err != nil {
		return fanned{}, err
	}
	defer func() { err = errors.Join(err, watchers.Close()) }()
	return l.watched(watchers, b.change, b.digest)
}

// open starts the process of the watchers and has them watch an address.
func (l load) open(address string) (*process.Process, error) {
	watchers, err := process.Start(roleWatchers)
	if err != nil {
		return nil, err
	}
	if err := watchers.Call("Open", Opening{address, l.watchers, l.numbers()}, nil); err != nil {
		return nil, errors.Join(err, watchers.Close())
	}
	return watchers, nil
}

// watched makes the changes of a load and returns how long they took to the last watcher. In the
// end every watcher must have the rules of digest.
func (l load) watched(watchers *process.Process, change func(int) error, digest func() uint64) (f fanned, err error) {
	busy := process.Busy(os.Getpid(), watchers.ID())
	times, lasted, err := l.make(change)
	if err != nil {
		return f, err
	}
	each, others := busy()
	f.server, f.watchers, f.others = each[0], each[1], others
	f.perSecond = float64(l.changes()) / lasted.Seconds()
	if err := watchers.Call("Await", digest(), new(float64)); err != nil {
		return f, err
	}
	var arrivals []Arrival
	if err := watchers.Call("Arrivals", struct{}{}, &arrivals); err != nil {
		return f, err
	}
	for i, m := range times {
		if m.call == 0 {
			continue // not made: its turn would have come later
		}
		if arrivals[i].Count != l.watchers {
			return f, fmt.Errorf("change %d was seen by %d watchers of %d", i, arrivals[i].Count, l.watchers)
		}
		f.fromCall = append(f.fromCall, time.Duration(arrivals[i].Last-m.call))
		f.fromReturn = append(f.fromReturn, max(0, time.Duration(arrivals[i].Last-m.done)))
	}
	return f, nil
}

// made is when a change was stated: before and after the call.
type made struct{ call, done int64 }

// make makes the changes of a load at a constant rate, and returns the time of each, by its number.
func (l load) make(change func(int) error) (times []made, lasted time.Duration, err error) {
	times = make([]made, l.numbers())
	numbers := changesInOrder(l.changes())
	lasted, err = frame.Evenly(len(numbers), l.perSecond, func(i int) error {
		call := now()
		err := change(numbers[i])
		times[numbers[i]] = made{call, now()}
		return err
	})
	return times, lasted, err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/figures"
)

// run measures in a temporary directory, which it removes.
func run(ctx context.Context, s settings, w io.Writer) (err error) {
	dir, err := os.MkdirTemp(s.dir, "bench-log-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bus, err := frame.OpenBus(ctx, embedded.Config{StoreDir: filepath.Join(dir, "store"), MaxStore: 8 << 30}, jetstream.Config{MaxBytes: 6 << 30})
	if err != nil {
		return err
	}
	defer bus.Close()
	if _, err := bus.Log.Begin(ctx, event.Mark{}); err != nil {
		return err
	}
	return measure(ctx, bus.Log, s, dir, w)
}

func measure(ctx context.Context, log eventbus.Log, s settings, dir string, w io.Writer) error {
	var one, many, disk []time.Duration
	for round := range s.rounds {
		synced, err := fdatasync(filepath.Join(dir, "raw"))
		if err != nil {
			return err
		}
		alone, err := publish(ctx, log, fmt.Sprintf("alone-%d", round), 1, s.round)
		if err != nil {
			return err
		}
		together, err := publish(ctx, log, fmt.Sprintf("together-%d", round), s.publishers, s.round)
		if err != nil {
			return err
		}
		disk, one, many = append(disk, synced...), append(one, alone...), append(many, together...)
	}
	took := time.Duration(s.rounds) * s.round
	name := fmt.Sprintf("publish-%d", s.publishers)
	figures.AtLeast(w, name+"-throughput", float64(len(many))/took.Seconds(), "events/s", 15_000)
	figures.AtMost(w, name+"-p99", figures.Millis(many, .99), "ms", 10)
	figures.AtMost(w, "publish-alone-p50", figures.Millis(one, .5), "ms", 1)
	figures.Print(w, "fdatasync-p50", figures.Millis(disk, .5), "ms")
	figures.Print(w, "fdatasync-p99", figures.Millis(disk, .99), "ms")
	return nil
}

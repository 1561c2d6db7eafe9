package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
)

// run measures in a directory of its own, which it removes.
func run(ctx context.Context, s settings, w io.Writer) (err error) {
	dir, err := os.MkdirTemp(s.dir, "bench-log-")
	if err != nil {
		return err
	}
	defer func() {
		if removed := os.RemoveAll(dir); err == nil {
			err = removed
		}
	}()
	server, err := embedded.Start(embedded.Config{StoreDir: filepath.Join(dir, "store"), MaxStore: 8 << 30, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer server.Close()
	conn, err := server.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	log, err := jetstream.New(jetstream.Config{Conn: conn, MaxBytes: 6 << 30})
	if err != nil {
		return err
	}
	if _, err := log.Begin(ctx, event.Mark{}); err != nil {
		return err
	}
	return measure(ctx, log, s, dir, w)
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
	atLeast(w, name+"-throughput", float64(len(many))/took.Seconds(), "events/s", 15_000)
	atMost(w, name+"-p99", millis(percentile(many, 99)), "ms", 10)
	atMost(w, "publish-alone-p50", millis(percentile(one, 50)), "ms", 1)
	fmt.Fprintf(w, "fdatasync-p50 %.3g ms\n", millis(percentile(disk, 50)))
	fmt.Fprintf(w, "fdatasync-p99 %.3g ms\n", millis(percentile(disk, 99)))
	return nil
}

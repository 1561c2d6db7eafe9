// Command log measures the durable publishing of facts, through the public Log
// and an embedded server that has every event on disk before it says so. It
// prints one line for each number: its name, its value, its unit, and whether it
// meets its target. It never fails on a number: machines differ, and the reader
// judges.
//
// Beside the numbers stands the raw fdatasync of the same disk, measured between
// the rounds of the same run: no log can be faster than one of it.
package main

import (
	"context"
	"flag"
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

// settings are what the command line can change.
type settings struct {
	// dir is where the log and the file for the raw fdatasync are made.
	dir string
	// publishers append at the same time; rounds and round say how long.
	publishers, rounds int
	round              time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.dir, "dir", os.TempDir(), "directory on the disk to measure")
	flag.IntVar(&s.publishers, "publishers", 64, "how many append at the same time")
	flag.IntVar(&s.rounds, "rounds", 4, "rounds of each measurement")
	flag.DurationVar(&s.round, "round", 2*time.Second, "length of a round")
	flag.Parse()
	if err := run(context.Background(), s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench-log:", err)
		os.Exit(1)
	}
}

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

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/routeserver/history/fold"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/sandboxes"
)

// print is what is compared of a table: its hash, and the checksum of its text.
type print struct{ hash, text string }

func printOf(t table.Table) print {
	sum := sha256.Sum256([]byte(fold.Text(t)))
	return print{t.Hash().String(), hex.EncodeToString(sum[:])}
}

// recorded is what was noted when the events were written.
type recorded struct {
	oldest, tip uint64
	asked       []uint64
	tables      map[uint64]print
}

// versions gives the versions that were noted.
func (r recorded) versions(n int) []uint64 { return r.asked[:n] }

// open gives the log in a directory, and what closes it.
func open(ctx context.Context, store string, unsynced bool) (eventbus.Log, func(), error) {
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	bus, err := embedded.Start(embedded.Config{StoreDir: store, Unsynced: unsynced, Logger: quiet})
	if err != nil {
		return nil, nil, err
	}
	conn, err := bus.Conn(ctx)
	if err != nil {
		bus.Close()
		return nil, nil, err
	}
	end := func() { conn.Close(); bus.Close() }
	log, err := jetstream.New(jetstream.Config{Conn: conn, Logger: quiet})
	if err != nil {
		end()
		return nil, nil, err
	}
	return log, end, nil
}

// record writes random events into a log and notes 100 random versions of the
// table, by folding each event as it is recorded. The disk is not waited for: it
// is not what is measured.
func record(ctx context.Context, store string, events int, seed uint64) (recorded, error) {
	log, end, err := open(ctx, store, true)
	if err != nil {
		return recorded{}, err
	}
	defer end()
	if _, err := log.Begin(ctx, event.Mark{}); err != nil {
		return recorded{}, err
	}
	cluster := sandboxes.New(seed)
	cluster.Forks, cluster.Keys, cluster.Baselines = events/10, events/12, max(40, events/500)
	newest := map[event.Key]uint64{}
	out := recorded{oldest: 1, tip: uint64(events), tables: map[uint64]print{}}
	noted := out.draw(100, seed)
	var live table.Table
	for n := range events {
		f := sandboxes.Complete(0)
		if n > 0 {
			f = cluster.Next()
		}
		mark, err := log.Append(ctx, f, newest[f.Key])
		if err != nil {
			return recorded{}, fmt.Errorf("event %d: %w", n+1, err)
		}
		newest[f.Key] = mark.Seq
		live = live.Apply(event.Recorded{Pos: mark.Pos, Fact: f})
		if noted[mark.Seq] {
			out.tables[mark.Seq] = printOf(live)
		}
	}
	return out, nil
}

// draw draws the versions that are noted, in a random order.
func (r *recorded) draw(n int, seed uint64) map[uint64]bool {
	random, noted := rand.New(rand.NewPCG(seed, 3)), map[uint64]bool{}
	for len(noted) < n {
		seq := r.oldest + random.Uint64N(r.tip-r.oldest+1)
		if !noted[seq] {
			noted[seq] = true
			r.asked = append(r.asked, seq)
		}
	}
	return noted
}

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"

	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/routeserver/history/fold"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/sandboxes"
)

// Print identifies the content of a table: its hash, and the checksum of its text.
type Print struct{ Hash, Text string }

func printOf(t table.Table) Print {
	sum := sha256.Sum256([]byte(fold.Text(t)))
	return Print{t.Hash().String(), hex.EncodeToString(sum[:])}
}

// recorded are the notes made when the events were written.
type recorded struct {
	oldest, tip uint64
	asked       []uint64
	tables      map[uint64]Print
}

// versions returns the versions that were noted.
func (r recorded) versions(n int) []uint64 { return r.asked[:n] }

// record writes random events into a log and notes 100 random versions of the table, by folding
// each event as it is recorded. It does not wait for the disk, which is not measured.
func record(ctx context.Context, store string, events int, seed uint64) (recorded, error) {
	bus, err := frame.OpenBus(ctx, embedded.Config{StoreDir: store, Unsynced: true}, jetstream.Config{})
	if err != nil {
		return recorded{}, err
	}
	defer bus.Close()
	log, err := frame.Begin(ctx, bus.Log)
	if err != nil {
		return recorded{}, err
	}
	cluster := sandboxes.New(seed)
	cluster.Forks, cluster.Keys, cluster.Baselines = events/10, events/12, max(40, events/500)
	out := recorded{oldest: 1, tip: uint64(events), tables: map[uint64]Print{}}
	noted := out.draw(100, seed)
	var live table.Table
	for n := range events {
		f := sandboxes.Complete(0)
		if n > 0 {
			f = cluster.Next()
		}
		pos, err := log.State(ctx, f)
		if err != nil {
			return recorded{}, fmt.Errorf("event %d: %w", n+1, err)
		}
		live = live.Apply(event.Recorded{Pos: pos, Fact: f})
		if noted[pos.Seq] {
			out.tables[pos.Seq] = printOf(live)
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

package main

import (
	"context"
	"errors"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/embedded"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/routeserver/history"
	"switchyard.dev/routeserver/history/fold"
	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/process"
)

// roleElsewhere is the role of a separate process that has nothing but the log.
const roleElsewhere = "elsewhere"

// Asked selects the versions of the log in a directory to rebuild.
type Asked struct {
	Store    string
	Versions []uint64
}

// Rebuilt is what another process made of the log.
type Rebuilt struct {
	Tables map[uint64]Print
	Took   map[uint64]time.Duration
	// Ready is how long the past took to be read, Naive how long the newest table
	// takes without checkpoints.
	Ready, Naive time.Duration
	Checkpoints  int
	Farthest     uint64
}

// elsewhere rebuilds versions in a separate process, from the log alone.
func elsewhere(store string, versions []uint64) (out Rebuilt, err error) {
	other, err := process.Start(roleElsewhere)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, other.Close()) }()
	return out, other.Call("Rebuild", Asked{store, versions}, &out)
}

// Elsewhere is that process.
type Elsewhere struct{}

// Rebuild rebuilds versions.
func (Elsewhere) Rebuild(asked Asked, out *Rebuilt) (err error) {
	ctx := context.Background()
	bus, err := frame.OpenBus(ctx, embedded.Config{StoreDir: asked.Store}, jetstream.Config{})
	if err != nil {
		return err
	}
	defer bus.Close()
	h, err := history.New(history.Config{Log: bus.Log, Recent: 1, Patience: 5 * time.Minute})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.Run(running) }()
	defer func() { stop(); err = errors.Join(err, <-ended) }()

	began := time.Now()
	tip, err := bus.Log.Tip(ctx)
	if err != nil {
		return err
	}
	if err := h.Reached(ctx, tip); err != nil {
		return err
	}
	out.Ready = time.Since(began)
	if out.Naive, err = naively(ctx, bus.Log, tip); err != nil {
		return err
	}
	out.Checkpoints, out.Farthest = h.Checkpoints()
	out.Tables, out.Took = map[uint64]Print{}, map[uint64]time.Duration{}
	for _, seq := range asked.Versions {
		began := time.Now()
		t, err := h.At(ctx, event.Pos{Epoch: tip.Epoch, Seq: seq})
		if err != nil {
			return err
		}
		out.Took[seq] = time.Since(began)
		out.Tables[seq] = printOf(t)
	}
	return nil
}

// naively folds the whole log from its beginning.
func naively(ctx context.Context, log eventbus.Reader, tip event.Pos) (time.Duration, error) {
	began := time.Now()
	cursor, err := log.Read(ctx, event.Pos{})
	if err != nil {
		return 0, err
	}
	defer cursor.Close()
	var f fold.Fold
	for f.Mark().Seq < tip.Seq {
		events, err := cursor.Next(ctx)
		if err != nil {
			return 0, err
		}
		if f, err = f.Take(events...); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"switchyard.dev/eventbus/event"
)

// Openings configures the size of the log to open.
type Openings struct {
	Events int
	// Scratch is a directory to work in; Log takes what the buses log.
	Scratch string
	Log     io.Writer
}

// OpeningFigures are the results.
type OpeningFigures struct {
	Events int
	// Took is how long the bus took to be ready: to start, and to read and verify
	// the whole log.
	Took time.Duration
	// Unfinished is the status after a store's opening was killed twice.
	Unfinished Status
}

// Run writes a log, opens it, and then kills its openings.
func (o Openings) Run(ctx context.Context) (f OpeningFigures, err error) {
	dir, err := os.MkdirTemp(o.Scratch, "opening-")
	if err != nil {
		return f, err
	}
	defer discard(dir)
	config := BusConfig{Store: filepath.Join(dir, "store"), Unsynced: true, StreamBytes: 256 << 20} // writing is not measured here
	ctx, cancel := context.WithTimeout(ctx, 5*stepTimeout)
	defer cancel()
	if f.Events, err = o.write(ctx, config); err != nil {
		return f, err
	}
	began := time.Now()
	if _, err := o.open(ctx, config); err != nil {
		return f, err
	}
	f.Took = time.Since(began)
	for n := range 2 {
		if err := o.killOpening(ctx, config, n+1); err != nil {
			return f, err
		}
	}
	f.Unfinished, err = o.open(ctx, config)
	return f, err
}

// write writes a log of at least the configured number of events.
func (o Openings) write(ctx context.Context, config BusConfig) (int, error) {
	bus, log, err := startOpen(ctx, config, o.Log, o.Scratch)
	if err != nil {
		return 0, err
	}
	defer bus.Kill()
	if _, err := beginWith(ctx, log, event.Mark{}); err != nil {
		return 0, err
	}
	ledger := &Ledger{}
	stop := Writing{Log: log, Ledger: ledger, Name: "o", Writers: 64, Rand: rand.New(rand.NewPCG(1, 1)), Gate: &sync.RWMutex{}}.Start(ctx)
	err = until(ctx, func() bool { n, _ := ledger.Acked(); return n >= o.Events || ledger.Ended() != nil })
	stop()
	if err := errors.Join(err, ledger.Ended()); err != nil {
		return 0, err
	}
	bus.Stop()
	n, _ := ledger.Acked()
	return n, nil
}

// open opens the log once, and returns the status of the bus.
func (o Openings) open(ctx context.Context, config BusConfig) (Status, error) {
	bus, err := StartBus(config, o.Log)
	if err != nil {
		return Status{}, err
	}
	defer bus.Stop()
	err = bus.AwaitReady(ctx)
	return bus.Status(), err
}

// killOpening kills a bus that is opening its log, the n-th in a row.
func (o Openings) killOpening(ctx context.Context, config BusConfig, n int) error {
	bus, err := StartBus(config, o.Log)
	if err != nil {
		return err
	}
	defer bus.Kill()
	opening := func() bool {
		text, err := os.ReadFile(filepath.Join(config.Store, "opening"))
		return err == nil && string(text) == fmt.Sprintln(n)
	}
	if err := until(ctx, opening); err != nil {
		return err
	}
	bus.Kill()
	if !opening() {
		return errors.New("the opening ended before it was killed")
	}
	return nil
}

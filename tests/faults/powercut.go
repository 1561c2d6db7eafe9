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

	"switchyard.dev/tools/wait"
)

// PowerCuts configures the number and kind of power cuts.
type PowerCuts struct {
	Rounds int
	Seed   uint64
	// Unsynced makes the bus acknowledge events before they are on disk, to show the resulting
	// loss.
	Unsynced bool
	// Life limits the time from the start of a new log to the cut, and Again that of an existing
	// one.
	Life, Again time.Duration
	// Scratch is a directory to work in; Log takes what the buses log.
	Scratch string
	Log     io.Writer
}

// PowerCutFigures are the results.
type PowerCutFigures struct {
	Rounds int
	// Acked counts the acknowledged events, Lost those that were not there after
	// a cut.
	Acked, Lost int
	// Aside counts the stores that the bus took for damaged.
	Aside int
	// Starts is how long the buses took to be ready after a cut.
	Starts []time.Duration
}

// lives is how many cuts one disk lives through.
const lives = 5

// stepTimeout bounds each step of a round.
const stepTimeout = 60 * time.Second

// Run cuts the power, again and again.
func (c PowerCuts) Run(ctx context.Context) (PowerCutFigures, error) {
	var f PowerCutFigures
	random := rand.New(rand.NewPCG(c.Seed, 1))
	for f.Rounds < c.Rounds && ctx.Err() == nil {
		if err := c.disk(ctx, random, &f); err != nil {
			return f, fmt.Errorf("power cuts with seed %d, round %d: %w", c.Seed, f.Rounds+1, err)
		}
	}
	return f, ctx.Err()
}

// disk lives through the cuts of one disk.
func (c PowerCuts) disk(ctx context.Context, random *rand.Rand, f *PowerCutFigures) (err error) {
	dir, err := os.MkdirTemp(c.Scratch, "cut-")
	if err != nil {
		return err
	}
	disk, err := NewDisk(dir, 96)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, disk.Remove(), os.RemoveAll(dir)) }()
	ledger := &Ledger{}
	for life := 0; life < lives && f.Rounds < c.Rounds; life++ {
		whole, err := c.round(ctx, disk, ledger, random, life, f)
		if err != nil {
			return err
		}
		f.Rounds++
		if !whole {
			break // from here on it is another log
		}
	}
	acked, _ := ledger.Acked()
	f.Acked += acked
	return nil
}

// round writes, cuts the power, and checks the remaining log. It returns false when that is not
// the whole log.
func (c PowerCuts) round(ctx context.Context, disk *Disk, ledger *Ledger, random *rand.Rand, life int, f *PowerCutFigures) (bool, error) {
	config := BusConfig{Store: filepath.Join(disk.Dir, "store"), Unsynced: c.Unsynced}
	delay := time.Duration(random.Int64N(int64(c.Again)))
	if life == 0 {
		delay = time.Duration(random.Int64N(int64(c.Life)))
	}
	if err := c.writeAndCut(ctx, disk, config, Writing{
		Ledger: ledger, Name: fmt.Sprint("r", f.Rounds), Writers: 1 + random.IntN(16), Floors: random.IntN(3) == 0, Rand: random,
		Gate: &sync.RWMutex{},
	}, delay); err != nil {
		return false, err
	}
	if err := errors.Join(disk.Unmount(), disk.Mount()); err != nil {
		return false, err
	}
	began := time.Now()
	bus, err := StartBus(config, c.Log)
	if err != nil {
		return false, err
	}
	defer bus.Kill()
	bounded, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	if err := bus.AwaitReady(bounded); err != nil {
		return false, err
	}
	f.Starts = append(f.Starts, time.Since(began))
	lost, err := lostOf(bounded, bus, ledger, c.Scratch)
	f.Lost += lost
	if aside := bus.Status().MovedAside; aside > 0 {
		f.Aside++
		fmt.Fprintln(c.Log, "moved aside after a power cut:", bus.Status().Why)
		return false, nil
	}
	return lost == 0, err
}

// writeAndCut lets writers write for a while and then cuts the power under them.
func (c PowerCuts) writeAndCut(ctx context.Context, disk *Disk, config BusConfig, w Writing, delay time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	bus, log, err := startOpen(bounded, config, c.Log, c.Scratch)
	if err != nil {
		return err
	}
	defer bus.Kill()
	if _, err := beginWith(bounded, log, w.Ledger.Tip()); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	w.Log = log
	w.Ledger.seal(false)
	stop := w.Start(bounded)
	_ = wait.For(ctx, delay)
	// A machine without power acknowledges nothing. The bus still runs for a
	// moment, and ext4 acknowledges a sync that races with its shutdown without
	// having done it (with a bare file and fsync: in 9 cuts of 60).
	w.Ledger.seal(true)
	err = disk.Cut()
	bus.Kill()
	stop()
	return err
}

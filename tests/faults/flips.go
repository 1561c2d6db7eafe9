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

	"golang.org/x/sync/errgroup"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// Corruptions configures how often stores are corrupted.
type Corruptions struct {
	// Flips is how many single bits are flipped, Others how often each of the
	// other corruptions is made.
	Flips, Others int
	Seed          uint64
	// Workers is how many stores are checked side by side.
	Workers int
	// Scratch is a directory to work in; Log takes what the buses log.
	Scratch string
	Log     io.Writer
}

// CorruptionFigures counts the outcomes of corrupted stores.
type CorruptionFigures struct {
	// Harmless: the log is whole and verified. Noticed: the bus moved the store aside, loudly,
	// and a new log begins. ByWriter: the bus was killed before its witness had caught up, so it
	// could not know, but the writer's own Mark detected it. Silent: the bus serves a log that is
	// not the original any more.
	Flips, Others             int
	Harmless, Noticed, Silent int
	ByWriter                  int
	Crashes                   int
	Silently                  []string
	Slowest                   time.Duration
	// Notable are those that the bus was slow over, or died over.
	Notable []string
}

// model is a store that is copied and corrupted, and its events.
type model struct {
	name string
	dir  string
	// caught is whether the witness had caught up.
	caught bool
	events []event.Stored
}

// Run corrupts stores and checks how the bus reacts to them.
func (c Corruptions) Run(ctx context.Context) (CorruptionFigures, error) {
	models, err := c.models(ctx)
	if err != nil {
		return CorruptionFigures{}, fmt.Errorf("make stores to spoil: %w", err)
	}
	type task struct {
		kind   string
		spoil  corruption
		number uint64
	}
	var tasks []task
	for range c.Flips {
		tasks = append(tasks, task{"flipped bit", flipBit, uint64(len(tasks))})
	}
	for _, kind := range sorted(corruptions) {
		for range c.Others {
			tasks = append(tasks, task{kind, corruptions[kind], uint64(len(tasks))})
		}
	}
	f := CorruptionFigures{Flips: c.Flips, Others: len(tasks) - c.Flips}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, c.Workers))
	for _, t := range tasks {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			m := models[t.number%uint64(len(models))]
			v, err := c.spoilt(ctx, m, t.spoil, rand.New(rand.NewPCG(c.Seed, t.number)))
			if err != nil {
				return fmt.Errorf("seed %d, number %d, %s, %s, %s: %w", c.Seed, t.number, m.name, t.kind, v.where, err)
			}
			mu.Lock()
			defer mu.Unlock()
			f.add(v, fmt.Sprintf("number %d: %s: %s: %s", t.number, m.name, t.kind, v.where))
			return nil
		})
	}
	return f, group.Wait()
}

func (f *CorruptionFigures) add(v verdict, what string) {
	f.Crashes += v.crashes
	f.Slowest = max(f.Slowest, v.took)
	if v.crashes > 0 || v.took > slow {
		f.Notable = append(f.Notable, fmt.Sprintf("%s: ended %d times, ready after %s", what, v.crashes, v.took.Round(time.Millisecond)))
	}
	switch {
	case v.noticed:
		f.Noticed++
	case v.whole:
		f.Harmless++
	case v.byWriter:
		f.ByWriter++
	default:
		f.Silent++
		f.Silently = append(f.Silently, what)
	}
}

// slow is the time that is worth a line: five times the usual, on a busy machine.
const slow = 5 * time.Second

// verdict is what became of one spoilt store.
type verdict struct {
	where                    string
	whole, noticed, byWriter bool
	crashes                  int
	took                     time.Duration
}

// spoilt copies a store, spoils it, and opens it.
func (c Corruptions) spoilt(ctx context.Context, m model, spoil corruption, random *rand.Rand) (verdict, error) {
	var v verdict
	dir, err := os.MkdirTemp(c.Scratch, "spoilt-")
	if err != nil {
		return v, err
	}
	defer discard(dir)
	store := filepath.Join(dir, "store")
	if err := os.CopyFS(store, os.DirFS(m.dir)); err != nil {
		return v, err
	}
	if v.where, err = spoil(store, random); err != nil {
		return v, err
	}
	bounded, cancel := context.WithTimeout(ctx, 3*stepTimeout)
	defer cancel()
	began := time.Now()
	bus, crashes, err := startAgain(bounded, BusConfig{Store: store}, c.Log)
	if err != nil {
		return v, err
	}
	defer bus.Kill()
	v.crashes, v.took = crashes, time.Since(began)
	v.noticed = bus.Status().MovedAside > 0
	return v, v.look(bounded, bus, m, dir)
}

// startAgain starts a bus, and again when it dies over its store, as a pod is.
func startAgain(ctx context.Context, config BusConfig, log io.Writer) (*Bus, int, error) {
	const starts = 5
	for crashes := 0; ; crashes++ {
		bus, err := StartBus(config, log)
		if err != nil {
			return nil, crashes, err
		}
		err = bus.AwaitReady(ctx)
		if err == nil {
			return bus, crashes, nil
		}
		bus.Kill()
		if ctx.Err() != nil || crashes == starts {
			return nil, crashes, err
		}
	}
}

// look compares the log with the model's events.
func (v *verdict) look(ctx context.Context, bus *Bus, m model, scratch string) error {
	log, conn, err := bus.Open(scratch)
	if err != nil {
		return err
	}
	defer conn.Close()
	last := m.events[len(m.events)-1]
	chain, err := event.ChainOf(last.Message)
	if err != nil {
		return err
	}
	known := event.Mark{Pos: last.Pos, Chain: chain}
	tip, err := beginWith(ctx, log, known)
	for v.noticed && errors.Is(err, eventbus.ErrNoLog) && ctx.Err() == nil {
		tip, err = beginWith(ctx, log, known) // its answer was lost on the way
	}
	switch {
	case v.noticed && err == nil && tip.Epoch != known.Epoch && tip.Seq == 0:
		return nil // rebuilt: a new log has begun
	case v.noticed:
		v.noticed = false // and yet something old is served
		v.where += fmt.Sprintf(" (moved aside, and yet the log begins at %v: %v)", tip.Pos, err)
		return nil
	case final(err), err == nil && tip.Epoch != known.Epoch:
		// The writer knows that this is not the log it wrote.
		v.byWriter = !m.caught
		v.where += fmt.Sprintf(" (refused by the mark of the writer: %v)", err)
		return nil
	case err != nil:
		return err
	}
	for {
		events, err := contents(ctx, log, known)
		if err == nil || final(err) {
			v.whole = err == nil && tip == known && same(events, m.events)
			v.where += fmt.Sprintf(" (begins at %d, reads %d of %d events: %v)", tip.Seq, len(events), len(m.events), err)
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		rest(ctx) // a busy machine: there was no answer
	}
}

// same reports whether two logs hold the same events.
func same(a, b []event.Stored) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		one, errA := event.ChainOf(a[i].Message)
		other, errB := event.ChainOf(b[i].Message)
		if a[i].Pos != b[i].Pos || one != other || errA != nil || errB != nil {
			return false
		}
	}
	return true
}

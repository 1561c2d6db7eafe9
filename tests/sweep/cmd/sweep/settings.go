package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/sweep"
	"switchyard.dev/tests/sweep/wire"
)

// settings are the numbers of repetitions; 0 leaves a part out.
type settings struct {
	seed           uint64
	step, stale    int
	guards         bool
	changes        int
	cycles, atOnce int
	only, log      string
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("sweep", flag.ContinueOnError)
	flags.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "`number` that all random choices follow from")
	flags.IntVar(&s.step, "step", 1, "a process dies at every so-many-th write")
	flags.IntVar(&s.stale, "stale", 50, "runs with old caches")
	flags.BoolVar(&s.guards, "guards", true, "show that a missing guard is found")
	flags.IntVar(&s.changes, "changes", 300, "changes while watches expire and the API server is killed")
	flags.IntVar(&s.cycles, "cycles", 1000, "sandboxes that come and go")
	flags.IntVar(&s.atOnce, "at-once", 8, "of them side by side")
	flags.StringVar(&s.only, "only", "", "`part` that alone is run: guards, cycles, churn, stale, crashes or captures")
	flags.StringVar(&s.log, "log", os.DevNull, "`file` for what managers log")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if !slices.ContainsFunc(parts(), func(p part) bool { return p.name == cmp.Or(s.only, p.name) }) {
		return s, fmt.Errorf("there is no part %q: -help names them", s.only)
	}
	return s, nil
}

// part is one way to disturb the controllers.
type part struct {
	name string
	run  func(settings, context.Context, *sweep.World) error
}

func parts() []part {
	return []part{
		{"guards", settings.missing}, {"cycles", settings.comings}, {"churn", settings.churn},
		{"stale", settings.old}, {"crashes", settings.crashes}, {"captures", settings.recorded},
	}
}

// all does everything, or one part. What cannot be measured does not keep the rest from it.
func (s settings) all(ctx context.Context, w *sweep.World) error {
	var failed error
	for _, p := range parts() {
		if p.name != cmp.Or(s.only, p.name) {
			continue
		}
		failed = errors.Join(failed, p.run(s, ctx, w))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return failed
}

// report prints an unexpected result of a run immediately; the rest is printed at the end.
func report(name string, r sweep.Result) {
	if len(r.Findings) > 0 {
		fmt.Printf("  %s: %q\n", name, r.Findings)
	}
}

func (s settings) crashes(ctx context.Context, w *sweep.World) error {
	if s.step == 0 {
		return nil
	}
	g, err := w.Golden(ctx, sweep.Whole())
	if err != nil {
		return err
	}
	out, err := sweep.Crashes{Ways: wire.Ways(), First: 1, Step: s.step, Report: report}.Run(ctx, w, g)
	out.Print(os.Stdout, "crash")
	return err
}

// recorded has no step of its own: a run waits for proxies and open connections.
func (s settings) recorded(ctx context.Context, w *sweep.World) error {
	if s.step == 0 {
		return nil
	}
	if err := w.WithCaptures(); err != nil {
		return err
	}
	g, err := w.Golden(ctx, sweep.Recorded())
	if err != nil {
		return err
	}
	out, err := sweep.Crashes{Ways: wire.Ways(), First: 1, Step: s.step, Report: report}.Run(ctx, w, g)
	out.Print(os.Stdout, "capture-crash")
	return err
}

func (s settings) old(ctx context.Context, w *sweep.World) error {
	if s.stale == 0 {
		return nil
	}
	g, err := w.Golden(ctx, sweep.Again())
	if err != nil {
		return err
	}
	out, err := sweep.Stale{Runs: s.stale, Seed: s.seed, Late: 300 * time.Millisecond, Lives: 6, Report: report}.Run(ctx, w, g)
	out.Print(os.Stdout, "stale")
	return err
}

func (s settings) missing(ctx context.Context, w *sweep.World) error {
	if !s.guards {
		return nil
	}
	for _, trap := range sweep.Traps() {
		golden, err := trap.Golden(ctx, w)
		if err != nil {
			return err
		}
		with, err := trap.Spring(ctx, w, golden, true)
		if err != nil {
			return err
		}
		name := "trap-" + trap.Short
		figures.Text(os.Stdout, name+"-findings-with", len(with), "findings", "0: "+trap.Name, len(with) == 0)
		if trap.Guard == "" {
			continue
		}
		without, err := trap.Spring(ctx, w, golden, false)
		if err != nil {
			return err
		}
		figures.Text(os.Stdout, name+"-findings-without", len(without), "findings", "more than 0, to show that it is seen", len(without) > 0)
	}
	return nil
}

func (s settings) churn(ctx context.Context, w *sweep.World) error {
	if s.changes == 0 {
		return nil
	}
	var failed error
	for _, meshes := range []bool{false, true} {
		c := sweep.Churn{
			Changes: s.changes, Pause: 300 * time.Millisecond, Sandboxes: 20, Seed: s.seed,
			Expire: 10 * time.Second, Kills: 2, Away: 3 * time.Second, Meshes: meshes,
		}
		r, err := c.Run(ctx, w)
		r.Print(os.Stdout, c)
		failed = errors.Join(failed, err)
	}
	return failed
}

func (s settings) comings(ctx context.Context, w *sweep.World) error {
	if s.cycles == 0 {
		return nil
	}
	c := sweep.Cycles{Count: s.cycles, AtOnce: s.atOnce}
	r, err := c.Run(ctx, w)
	r.Print(os.Stdout, c)
	return err
}

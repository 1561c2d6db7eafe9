package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"switchyard.dev/tests/devmesh"
)

// settings are the durations and rates.
type settings struct {
	changes, outage time.Duration
	random          int
	seed            uint64
	rate, perSecond int
	logs            string
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("endure", flag.ContinueOnError)
	flags.DurationVar(&s.changes, "changes-for", 10*time.Minute, "how long routes are changed under load; 0 for not at all")
	flags.DurationVar(&s.outage, "outage", 30*time.Minute, "how long the control plane is away; 0 for not at all")
	flags.IntVar(&s.random, "random-changes", 1000, "how many random changes Envoys are compared with the table after; 0 for none")
	flags.IntVar(&s.perSecond, "per-second", 10, "changes in each second")
	flags.IntVar(&s.rate, "rate", 500, "requests in each second")
	flags.Uint64Var(&s.seed, "seed", 1, "what the random changes are made from")
	flags.StringVar(&s.logs, "keep", "", "`folder` in which stores and what the programs log are kept; empty: only as long as this runs")
	return s, flags.Parse(args)
}

// run does one after the other. A number that falls short is no error.
func (s settings) run(ctx context.Context) error {
	dir := s.logs
	if dir == "" {
		made, err := os.MkdirTemp("", "endure-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(made) }()
		dir = made
	}
	return errors.Join(s.changeRoutes(ctx, dir), s.takeAway(ctx, dir), s.compare(ctx, dir))
}

func (s settings) changeRoutes(ctx context.Context, dir string) error {
	if s.changes == 0 {
		return nil
	}
	c := devmesh.Changes{For: s.changes, PerSecond: s.perSecond, Rate: s.rate, Baselines: 2, Pods: 3, Scratch: filepath.Join(dir, "changes")}
	f, err := c.Run(ctx)
	f.Print(os.Stdout, c)
	return told("changes under load", err)
}

func (s settings) takeAway(ctx context.Context, dir string) error {
	if s.outage == 0 {
		return nil
	}
	o := devmesh.Outage{
		For: s.outage, Rate: s.rate, Pause: max(time.Second, s.outage/30), Baselines: 2, Pods: 4, Scratch: filepath.Join(dir, "outage"),
	}
	f, err := o.Run(ctx)
	f.Print(os.Stdout, o)
	return told("the outage of the control plane", err)
}

func (s settings) compare(ctx context.Context, dir string) error {
	if s.random == 0 {
		return nil
	}
	e := devmesh.Equality{
		Changes: s.random, Each: 5, Restart: 25, Seed: s.seed, Baselines: 3, Pods: 2, Scratch: filepath.Join(dir, "equality"),
	}
	f, err := e.Run(ctx)
	f.Print(os.Stdout, e)
	return told("random changes", err)
}

func told(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

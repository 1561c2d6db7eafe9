package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"switchyard.dev/tests/faults"
)

// settings are the numbers of repetitions and durations.
type settings struct {
	seed                   uint64
	events                 int
	rounds, unsynced       int
	flips, others, workers int
	full, outage           time.Duration
	log                    string
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("faults", flag.ContinueOnError)
	flags.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "`number` that all random choices follow from")
	flags.IntVar(&s.events, "events", 100_000, "events of a log that is opened; 0 for none")
	flags.IntVar(&s.rounds, "rounds", 1000, "power cuts")
	flags.IntVar(&s.unsynced, "unsynced-rounds", 10, "power cuts of a bus that does not sync its writes")
	flags.IntVar(&s.flips, "flips", 10_000, "flipped bits")
	flags.IntVar(&s.others, "others", 300, "corruptions of each other kind")
	flags.IntVar(&s.workers, "workers", 4, "spoilt stores looked at side by side")
	flags.DurationVar(&s.full, "full", time.Minute, "how long the disk stays full; 0 for no outages at all")
	flags.DurationVar(&s.outage, "outage", 5*time.Second, "how long every other outage lasts")
	flags.StringVar(&s.log, "log", os.DevNull, "`file` for what the buses log")
	return s, flags.Parse(args)
}

func (s settings) openings(ctx context.Context, scratch string, log io.Writer) error {
	if s.events == 0 {
		return nil
	}
	f, err := faults.Openings{Events: s.events, Scratch: scratch, Log: log}.Run(ctx)
	if err == nil {
		f.Print(os.Stdout)
	}
	return err
}

func (s settings) outages(ctx context.Context, scratch string, log io.Writer) error {
	var failed error
	if s.full == 0 {
		return nil
	}
	for _, kind := range faults.Kinds() {
		o := faults.Outage{Kind: kind, For: s.outage, Seed: s.seed, Scratch: scratch, Log: log}
		if kind == "disk full" {
			o.For = s.full
		}
		f, err := o.Run(ctx)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", kind, err))
			continue
		}
		f.Print(os.Stdout, o)
	}
	return failed
}

func (s settings) corruptions(ctx context.Context, scratch string, log io.Writer) error {
	if s.flips+s.others == 0 {
		return nil
	}
	f, err := faults.Corruptions{
		Flips: s.flips, Others: s.others, Seed: s.seed, Workers: s.workers, Scratch: scratch, Log: log,
	}.Run(ctx)
	f.Print(os.Stdout)
	return err
}

func (s settings) powerCuts(ctx context.Context, scratch string, log io.Writer) error {
	if s.rounds == 0 {
		return nil
	}
	cuts := faults.PowerCuts{Seed: s.seed, Life: 5 * time.Second, Again: time.Second, Scratch: scratch, Log: log}
	cuts.Rounds, cuts.Unsynced = s.unsynced, true
	without, err := cuts.Run(ctx)
	if s.unsynced > 0 {
		without.PrintUnsynced(os.Stdout)
	}
	cuts.Rounds, cuts.Unsynced = s.rounds, false
	with, cut := cuts.Run(ctx)
	with.Print(os.Stdout)
	return errors.Join(err, cut)
}

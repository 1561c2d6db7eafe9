// Command faults-link interrupts the link between agents and control planes, and prints how it
// recovers. See package tests/link/outages. It never fails on a number; it fails when it could not
// measure one.
package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"time"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/link/outages"
)

func main() {
	frame.Main("faults-link", run)
}

func run(ctx context.Context) (err error) {
	if err := outages.Isolate(); err != nil {
		return err
	}
	r := outages.Run{}
	rounds := flag.Int("rounds", 50, "how many interruptions of 1 s and of 5 s there are of each kind; a fifth of 30 s, and three of fifty of 120 s")
	flag.IntVar(&r.Agents, "agents", 1000, "how many agents lose their link server")
	flag.DurationVar(&r.Lost, "lost", 5*time.Second, "for how long they have none")
	flag.IntVar(&r.Revoked, "revoked", 20, "how many tokens are revoked")
	flag.IntVar(&r.Requests, "requests", 1000, "how many requests are sent through random replicas")
	flag.StringVar(&r.Only, "only", "", "run `cuts`, herd, proxy or replicas only")
	flag.StringVar(&r.Scratch, "keep", "", "`folder` in which logs are kept; empty: only as long as this runs")
	flag.Parse()
	r.Lengths, r.Kills = outages.Lengths(*rounds), max(1, *rounds/5)
	if r.Scratch == "" {
		if r.Scratch, err = os.MkdirTemp("", "faults-link-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(r.Scratch)) }()
	}
	f, err := r.Run(ctx)
	f.Print(os.Stdout)
	return err
}

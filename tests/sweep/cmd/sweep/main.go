// Command sweep disturbs the controllers in every way that tests/sweep knows, as often as its
// flags state, and prints the results. It never fails on a number; it fails when it could not
// measure one.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/sweep"
	"switchyard.dev/tests/sweep/life"
)

func main() {
	frame.Main("sweep", run)
}

func run(ctx context.Context) error {
	s, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer log.Close()
	logger := slog.New(slog.NewTextHandler(log, nil))
	life.Quiet(logger)
	world, err := sweep.NewWorld(ctx, logger)
	if err != nil {
		return err
	}
	fmt.Printf("seed %d\n", s.seed)
	return errors.Join(s.all(ctx, world), world.Close())
}

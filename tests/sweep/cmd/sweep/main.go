// Command sweep disturbs the controllers in every way that tests/sweep knows, as often
// as it is told, and prints what came out. It never fails on a number; it fails when
// it could not measure one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/tests/sweep"
)

func main() {
	if err := run(); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "sweep:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
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
	sweep.Quiet(logger)
	world, err := sweep.NewWorld(ctx, logger)
	if err != nil {
		return err
	}
	fmt.Printf("seed %d\n", s.seed)
	return errors.Join(s.all(ctx, world), world.Close())
}

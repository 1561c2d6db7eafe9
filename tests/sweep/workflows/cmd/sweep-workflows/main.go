// Command sweep-workflows lets the manager, the IO context server and the pods of a workflow of
// five units die at every write, and prints what came out. It never fails on a number; it
// fails when it could not measure one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/conformance/crd"
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/workflows"
)

func main() { frame.Main("sweep-workflows", run) }

func run(ctx context.Context) error {
	flags := flag.NewFlagSet("sweep-workflows", flag.ContinueOnError)
	step := flags.Int("step", 1, "somebody dies at every so-many-th write")
	first := flags.Int("first", 1, "the first `write` at which somebody dies")
	file := flags.String("log", os.DevNull, "`file` for what managers log")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	root, err := crd.Root()
	if err != nil {
		return err
	}
	log, err := os.Create(*file)
	if err != nil {
		return err
	}
	defer log.Close()
	logger := slog.New(slog.NewTextHandler(log, nil))
	life.Quiet(logger)
	world, err := workflows.NewWorld(ctx, root, logger)
	if err != nil {
		return err
	}
	return errors.Join(sweep(ctx, world, *first, *step), world.Close())
}

func sweep(ctx context.Context, w *workflows.World, first, step int) error {
	g, err := w.Golden(ctx)
	if err != nil {
		return err
	}
	deaths := g.Deaths(first, step)
	fmt.Printf("without faults there are %v writes; %d runs follow\n", g.Writes, len(deaths))
	out, err := w.Sweep(ctx, g, deaths, func(d workflows.Death, r workflows.Result) {
		if len(r.Findings) > 0 {
			fmt.Printf("  %s:\n    %s\n", d, strings.Join(r.Findings, "\n    "))
		}
	})
	out.Print(os.Stdout)
	return err
}

// Command sweep-workflows lets the manager, the IO context server and the pods of a workflow of
// five units die at every write, and prints the results. It never fails on a number; it fails
// when it could not measure one.
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
	"switchyard.dev/tests/sweep/life"
	"switchyard.dev/tests/sweep/workflows"
)

func main() { frame.Main("sweep-workflows", run) }

func run(ctx context.Context) error {
	step := flag.Int("step", 1, "somebody dies at every so-many-th write")
	first := flag.Int("first", 1, "the first `write` at which somebody dies")
	only := flag.String("only", "", "only deaths whose `text` has this in it, such as old or pods")
	file := flag.String("log", os.DevNull, "`file` for what managers log")
	flag.Parse()
	log, err := os.Create(*file)
	if err != nil {
		return err
	}
	defer log.Close()
	logger := slog.New(slog.NewTextHandler(log, nil))
	life.Quiet(logger)
	world, err := workflows.NewWorld(ctx, logger)
	if err != nil {
		return err
	}
	return errors.Join(sweep(ctx, world, func(g workflows.Golden) []workflows.Death { return g.Deaths(*first, *step, *only) }), world.Close())
}

func sweep(ctx context.Context, w *workflows.World, choose func(workflows.Golden) []workflows.Death) error {
	g, err := w.Golden(ctx)
	if err != nil {
		return err
	}
	deaths := choose(g)
	fmt.Printf("without faults there are %v writes; %d runs follow\n", g.Writes, len(deaths))
	out, err := w.Sweep(ctx, g, deaths, func(d workflows.Death, r workflows.Result) {
		if len(r.Findings) > 0 {
			fmt.Printf("  %s:\n    %s\n", d, strings.Join(r.Findings, "\n    "))
		}
	})
	out.Print(os.Stdout)
	return err
}

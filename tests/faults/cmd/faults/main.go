// Command faults breaks the disk under the event bus in every way that tests/faults knows, as
// often as its flags state, and prints the results. It never fails on a number; it fails when it
// could not measure one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/faults"
)

func main() {
	frame.Main("faults", run)
}

func run(ctx context.Context) error {
	scratch, err := faults.Isolate()
	if err != nil {
		return err
	}
	s, err := parse(os.Args[1:])
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Printf("seed %d\n", s.seed)
	return errors.Join(s.openings(ctx, scratch, log), s.outages(ctx, scratch, log), s.corruptions(ctx, scratch, log), s.powerCuts(ctx, scratch, log))
}

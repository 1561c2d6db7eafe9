// Command controlplane-faults kills the process that writes to the store of a control plane and cuts
// the power of its disk, with SQLite and PostgreSQL; it kills replicas that deliver sandboxes and cuts their
// connections; it restores a store from an old backup. It prints the results, and never fails on a number.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/faults/controlplane"
)

func main() { frame.Main("controlplane-faults", run) }

func run(ctx context.Context) error {
	scratch, err := controlplane.Isolate()
	if err != nil {
		return err
	}
	writes := flag.Int("writes", 1000, "acknowledged writes of each combination, and a tenth of those that are delivered")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "`number` that all random choices follow from")
	flag.Parse()
	fmt.Printf("seed %d\n", *seed)
	for _, database := range controlplane.Databases {
		for _, cut := range []bool{false, true} {
			r := controlplane.Run{Database: database, Cut: cut, Writes: *writes, Seed: *seed, Scratch: scratch, Log: io.Discard}
			f, err := r.Do(ctx)
			if err != nil {
				return err
			}
			f.Print(os.Stdout, r)
		}
	}
	d, err := controlplane.Deliver{Writes: 10 * *writes, Seed: *seed, Scratch: scratch, Log: io.Discard}.Do(ctx)
	if err != nil {
		return err
	}
	d.Print(os.Stdout)
	r, err := controlplane.Restore{Each: max(*writes/10, 1), Scratch: scratch, Log: io.Discard}.Do(ctx)
	if err != nil {
		return err
	}
	r.Print(os.Stdout)
	return nil
}

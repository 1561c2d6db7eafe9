// Command transparency prints what a caller can distinguish between bare applications and the
// same ones behind the sidecar. See package tests/transparency. It is run in the root of the
// repository, as root.
package main

import (
	"context"
	"flag"
	"os"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/transparency"
	"switchyard.dev/tests/transparency/differences"
	"switchyard.dev/tests/transparency/rig"
)

func main() {
	frame.Main("transparency", run)
}

func run(ctx context.Context) error {
	only := flag.String("only", "", "run only the group of that name")
	short := flag.Bool("short", false, "run as in the tests: smaller bodies, shorter waits")
	flag.Parse()
	if err := rig.Isolate("."); err != nil {
		return err
	}
	table, err := differences.Table()
	if err != nil {
		return err
	}
	r := &transparency.Run{Size: transparency.Full, Table: table, Out: os.Stdout}
	if *short {
		r.Size = transparency.Short
	}
	return r.Do(ctx, ".", *only)
}

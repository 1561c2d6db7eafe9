package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tools/demo"
)

func main() {
	inside := demo.Inside()
	rounds := flag.Int("rounds", 15, "how often each is run alone")
	resources := flag.Int("resources", 200, "how many resources are made at once")
	submit := flag.Int("jobs", 0, "instead of all this, how often a job prints a line in each way")
	flag.Parse()
	frame.Main("bench-workflows", func(ctx context.Context) error {
		if inside && *submit > 0 {
			return jobs(ctx, os.Stdout, *submit)
		}
		if inside {
			return measure(ctx, os.Stdout, *rounds, *resources)
		}
		code, err := demo.RunInsideOf(ctx, ".", prepare)
		if err == nil && code != 0 {
			err = fmt.Errorf("exit code %d", code)
		}
		return err
	})
}

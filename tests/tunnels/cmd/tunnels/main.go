// Command tunnels runs requests and connections through tunnels over time, and prints figures:
// with faults, while tunnel proxies and the API server are killed in turn; with developers, while
// the sandboxes of two of them come and go. See package tests/tunnels. It never fails on a
// number; it fails when it could not measure one.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/tunnels"
)

func main() {
	frame.Main("tunnels", run)
}

func run(ctx context.Context) error {
	if err := tunnels.Isolate(); err != nil {
		return err
	}
	if len(os.Args) < 2 {
		return fmt.Errorf("give faults or developers")
	}
	var f tunnels.Faults
	var d tunnels.Developers
	flags := flag.NewFlagSet(os.Args[1], flag.ContinueOnError)
	proxies := flags.Int("proxies", 2, "how many tunnel proxies there are")
	keep := flags.String("keep", "", "`folder` in which logs, journals and the audit are kept; empty: only as long as this runs")
	scene := func(scratch string) (tunnels.Printer, error) {
		f.Scratch, f.Proxies = scratch, *proxies
		return f.Run(ctx)
	}
	switch os.Args[1] {
	case "faults":
		flags.DurationVar(&f.For, "for", 10*time.Minute, "for how long")
		flags.DurationVar(&f.Every, "every", 10*time.Second, "how often something is killed")
		flags.IntVar(&f.Rate, "rate", 60, "requests in each second")
	case "developers":
		flags.IntVar(&d.Changes, "changes", 1000, "how many sandboxes come and go")
		flags.IntVar(&d.Sandboxes, "sandboxes", 10, "how many each developer has at once")
		flags.Float64Var(&d.Rate, "rate", 2, "requests in each second with each key")
		flags.DurationVar(&d.Away, "away", 20*time.Second, "how often each workstation disconnects")
		scene = func(scratch string) (tunnels.Printer, error) {
			d.Scratch, d.Proxies = scratch, *proxies
			return d.Run(ctx)
		}
	default:
		return fmt.Errorf("there is no scene %q: give faults or developers", os.Args[1])
	}
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	return tunnels.Main(*keep, scene)
}

// Command watch measures watches of the routes API: how long a change takes, from
// the log to the last of many watchers, and what a watcher that does not read
// costs. It prints one line for each number: its name, its value, its unit, and
// whether it meets its target. It never fails on a number: machines differ, and
// the reader judges. It fails when a watcher does not have the rules in the end.
//
// This process is the server: a log, a route server, and the source of the changes. The watchers
// are another process (this program again), each with a connection of its own over loopback TCP,
// as each pod has. Both share the machine; the server's cost is that of this process.
//
// Beside each number is that of bare gRPC, from the same run: the same messages sent to as many
// streams by a server that does nothing else. The processor time of other processes is printed
// too: on two processors that others use as well, the last of 500 watchers waits for those
// others.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/process"
)

// load is how many watch, and how much changes.
type load struct {
	watchers  int
	perSecond int
	lasting   time.Duration
	rules     int
}

func main() {
	var l load
	flag.IntVar(&l.watchers, "watchers", 500, "watches, each over a connection of its own")
	flag.IntVar(&l.perSecond, "changes", 100, "changes for each second")
	flag.DurationVar(&l.lasting, "for", 20*time.Second, "how long to make changes, for each log")
	flag.IntVar(&l.rules, "rules", 1000, "rules that are there and do not change")
	flag.Parse()
	frame.Main("watch", func(ctx context.Context) error {
		if process.Role() == roleWatchers {
			return process.Answer(&Watchers{})
		}
		return l.measure(ctx, os.Stdout)
	})
}

// changes is how many changes a load makes.
func (l load) changes() int { return int(l.lasting.Seconds() * float64(l.perSecond)) }

// numbers is how far the numbers of those changes go.
func (l load) numbers() int { return l.changes() + 2*stay }

// Command xds measures what a change of the routes costs until the sidecars have
// it: from the call that records a fact in the log, through the table, the
// translation and the push, until the server has the acknowledgement of the last
// stream that the change concerns. It prints a table for people, and then one
// line for each number: its name, its value, its unit, and whether it meets its
// target. It never fails on a number: machines differ, and the reader judges. It
// fails when a client does not have the routes in the end.
//
// Each measurement has two processes of its own (this program again): the server,
// whose memory and processor time are those printed, and the clients, each stream
// with a connection of its own over loopback TCP, as each pod has. Clients read
// which version of what they were sent, but not what is in it, and accept it. Both
// processes share the machine; what the rest of it computed meanwhile is printed
// too.
//
// A change is a sandbox that appears on one workload, or disappears. In the first
// shape the streams and sandboxes are spread over fifty workloads, in the second
// all belong to one. While a stream has not answered, changes add up: it is then
// sent the newest, and that one acknowledgement counts for all of them.
//
// Beside each number of ours stands that of the snapshot cache and delta server
// of go-control-plane, from the same run: the same routes from the same table, as
// one resource for each workload, to the same clients.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// options are the flags.
type options struct {
	few, many, sandboxes, perSecond int
	lasting                         time.Duration
	profiles                        string
}

func main() {
	var o options
	flag.IntVar(&o.few, "streams", 500, "streams of the first shapes")
	flag.IntVar(&o.many, "many", 5000, "streams of the last shapes; 0 leaves them out")
	flag.IntVar(&o.sandboxes, "sandboxes", 1000, "sandboxes that are there and do not change")
	flag.IntVar(&o.perSecond, "changes", 10, "changes for each second")
	flag.DurationVar(&o.lasting, "for", 20*time.Second, "how long to make changes, for each shape")
	flag.StringVar(&o.profiles, "profiles", "", "a folder for processor and heap profiles of the servers")
	serving := flag.Bool("serving", false, "be the process of the server (this program starts itself so)")
	connecting := flag.Bool("connecting", false, "be the process of the clients (likewise)")
	flag.Parse()
	run := func() error { return o.measureAll(os.Stdout) }
	switch {
	case *serving:
		run = func() error { return play(&Server{profiles: o.profiles}) }
	case *connecting:
		run = func() error { return play(&Clients{}) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "xds:", err)
		os.Exit(1)
	}
}

// measureAll measures every shape with both systems, and prints what came of it.
func (o options) measureAll(w io.Writer) error {
	var all []measured
	one := func(system, form string, streams, workloads int) error {
		l := Load{system, form, streams, workloads, o.sandboxes, o.perSecond, o.lasting}
		fmt.Fprintf(os.Stderr, "measuring %s: %s\n", system, l)
		m, err := measure(l, o.profiles)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", system, l, err)
		}
		all = append(all, m)
		return nil
	}
	for _, streams := range []int{o.few, o.many} {
		for _, w := range []int{workloads, 1} {
			if streams == 0 {
				continue
			}
			if err := one(snapshot, asWhole, streams, w); err != nil {
				return err
			}
			for _, form := range []string{asWhole} {
				if err := one(ours, form, streams, w); err != nil {
					return err
				}
			}
		}
	}
	printTable(w, all)
	var beside measured
	for _, m := range all {
		if m.System == snapshot {
			beside = m
			continue
		}
		m.printFigures(w, beside)
	}
	return nil
}

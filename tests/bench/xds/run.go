package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"switchyard.dev/tests/bench/frame"
	"switchyard.dev/tests/hostile"
	"switchyard.dev/tests/process"
)

// options are the flags.
type options struct {
	few, many, sandboxes, perSecond int
	hostile                         int
	lasting                         time.Duration
	profiles                        string
}

func flags() *options {
	o := &options{}
	flag.IntVar(&o.few, "streams", 500, "streams of the first shapes; 0 leaves them out")
	flag.IntVar(&o.many, "many", 5000, "streams of the last shapes; 0 leaves them out")
	flag.IntVar(&o.sandboxes, "sandboxes", 1000, "sandboxes that are there and do not change")
	flag.IntVar(&o.perSecond, "changes", 10, "changes for each second")
	flag.DurationVar(&o.lasting, "for", 20*time.Second, "how long to make changes, for each shape")
	flag.IntVar(&o.hostile, "hostile", 12_500, "requests of hostile clients, large ones count for several; 0 leaves them out")
	flag.StringVar(&o.profiles, "profiles", "", "a folder for processor and heap profiles of the servers")
	return o
}

// The roles of the processes that this program starts.
const (
	server  = "server"
	clients = "clients"
)

// play plays the role that this process was started in: the first one measures.
func (o *options) play(ctx context.Context) error {
	switch process.Role() {
	case server:
		return process.Answer(&Server{profiles: o.profiles})
	case clients:
		return process.Answer(&Clients{})
	case hostile.Role:
		return process.Answer(&hostile.Target{})
	}
	if err := o.measureAll(os.Stdout); err != nil || o.hostile == 0 {
		return err
	}
	fmt.Fprintln(os.Stderr, "measuring hostile clients")
	return hostile.Measure(ctx, os.Stdout, o.hostile)
}

// measureAll measures every shape with both systems, and prints the results.
func (o *options) measureAll(w io.Writer) error {
	var all []measured
	one := func(system, form string, streams, workloads int) error {
		l := Load{system, form, streams, workloads, o.sandboxes, o.perSecond, o.lasting}
		fmt.Fprintf(os.Stderr, "measuring %s: %s\n", system, l)
		m, err := measure(l)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", system, l, err)
		}
		all = append(all, m)
		return nil
	}
	for _, streams := range []int{o.few, o.many} {
		for _, w := range []int{frame.Workloads, 1} {
			if streams == 0 {
				continue
			}
			if err := one(snapshot, asWhole, streams, w); err != nil {
				return err
			}
			for _, form := range o.forms(streams, w) {
				if err := one(ours, form, streams, w); err != nil {
					return err
				}
			}
			if err := one(encrypted, inParts, streams, w); err != nil {
				return err
			}
		}
	}
	printTable(w, all)
	var beside, plain measured
	for _, m := range all {
		switch m.System {
		case snapshot:
			beside = m
		case encrypted:
			m.printTLS(w, plain)
		default:
			m.printFigures(w, beside)
		}
		if m.System == ours && m.Form == inParts {
			plain = m
		}
	}
	return nil
}

// forms are the forms in which the server is measured: that of sidecars, and where the routes are
// many, once, that of plain Envoys.
func (o *options) forms(streams, workloads int) []string {
	if streams == o.few && workloads == 1 {
		return []string{inParts, asWhole}
	}
	return []string{inParts}
}

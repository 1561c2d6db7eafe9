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
	// serving and connecting: be the process of the server, or of the clients.
	serving, connecting bool
}

func flags() *options {
	o := &options{}
	flag.IntVar(&o.few, "streams", 500, "streams of the first shapes; 0 leaves them out")
	flag.IntVar(&o.many, "many", 5000, "streams of the last shapes; 0 leaves them out")
	flag.IntVar(&o.sandboxes, "sandboxes", 1000, "sandboxes that are there and do not change")
	flag.IntVar(&o.perSecond, "changes", 10, "changes for each second")
	flag.DurationVar(&o.lasting, "for", 20*time.Second, "how long to make changes, for each shape")
	flag.StringVar(&o.profiles, "profiles", "", "a folder for processor and heap profiles of the servers")
	flag.BoolVar(&o.serving, "serving", false, "be the process of the server (this program starts itself so)")
	flag.BoolVar(&o.connecting, "connecting", false, "be the process of the clients (likewise)")
	return o
}

// play does what the flags say.
func (o *options) play() error {
	switch {
	case o.serving:
		return answer(&Server{profiles: o.profiles})
	case o.connecting:
		return answer(&Clients{})
	}
	return o.measureAll(os.Stdout)
}

// measureAll measures every shape with both systems, and prints what came of it.
func (o *options) measureAll(w io.Writer) error {
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

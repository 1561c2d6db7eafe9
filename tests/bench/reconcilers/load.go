package main

import (
	"flag"
	"time"

	"switchyard.dev/tests/bench/reconcilers/busy"
)

// load is how much there is, and how much changes.
type load struct {
	busy.Size
	perSecond int
	lasting   time.Duration
	each      int
	profiles  string
}

// flags defines the flags, and returns their values, which are valid once they are parsed.
func flags() *load {
	l := &load{}
	flag.IntVar(&l.Objects, "objects", 10_000, "objects of the kinds that the manager watches")
	flag.IntVar(&l.Sandboxes, "sandboxes", 500, "sandboxes")
	flag.IntVar(&l.Namespaces, "namespaces", 10, "namespaces of the workloads")
	flag.IntVar(&l.perSecond, "changes", 100, "changes for each second")
	flag.DurationVar(&l.lasting, "for", time.Minute, "how long users make changes")
	flag.IntVar(&l.each, "each", 5, "changes of each kind, in the end, whose writes are counted")
	flag.Uint64Var(&l.Seed, "seed", 1, "of what happens")
	flag.StringVar(&l.profiles, "profiles", "", "directory for profiles of the manager's memory and processor time")
	return l
}

// Command history measures how the past is rebuilt from the log, and prints one
// line for each number: its name, its value, its unit, and whether it meets its
// target. It never fails on a number: machines differ, and the reader judges.
//
//	time-travel        10,000 random events are recorded in a JetStream log, and
//	                   folded as they are written; a process of its own, which has
//	                   nothing but the log, rebuilds 100 random versions of them
//	rebuild            any of 100 random versions out of 100,000 events, beside the
//	                   naive form: folding the log from its beginning
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
)

func main() {
	store := flag.String("rebuild", "", "be the process that has only the log in this directory; used by the command itself")
	seed := flag.Uint64("seed", rand.Uint64(), "makes the same events again")
	flag.Parse()
	var err error
	if *store != "" {
		err = rebuild(context.Background(), *store, os.Stdin, os.Stdout)
	} else {
		err = measure(context.Background(), *seed, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

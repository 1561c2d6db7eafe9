// Command table measures the routing table and prints one line for each number:
// its name, its value, its unit, and whether it meets its target. It never
// fails on a number: machines differ, and the reader judges.
//
// Beside each number stands that of the naive form (a Go map that is copied for
// every version), from the same run.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
)

func main() {
	testing.Init()
	if err := flag.Set("test.benchtime", "200ms"); err != nil {
		panic(err) // the flag is part of package testing
	}
	lookups(os.Stdout)
	changes(os.Stdout, "ordinary-shape", ordinary(10_000), 150)
	changes(os.Stdout, "five-baselines", crowded(10_000), 500)
	coldStart(os.Stdout)
	size(os.Stdout)
}

// report prints one number. naive is the same number for the naive form, 0 when
// there is none.
func report(w io.Writer, name string, value float64, unit string, target, naive float64) {
	verdict := "holds"
	if value > target {
		verdict = "short"
	}
	beside := ""
	if naive > 0 {
		beside = fmt.Sprintf(", naive %.4g", naive)
	}
	fmt.Fprintf(w, "%s %.4g %s (target %.4g%s): %s\n", name, value, unit, target, beside, verdict)
}

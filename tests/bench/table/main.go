// Command table measures the routing table and prints one line for each number:
// its name, its value, its unit, and whether it meets its target. It never
// fails on a number: machines differ, and the reader judges.
//
// Beside each number stands that of the naive form (naive.go: Go maps that are
// copied for every version), from the same run, and the share of it. Last comes
// what a step to a random place in memory costs, which decides about lookups in
// large tables.
package main

import (
	"fmt"
	"io"
	"os"

	"switchyard.dev/tests/figures"
)

func main() {
	lookups(os.Stdout)
	changes(os.Stdout, "at-10000-ordinary-shape", ordinary(10_000), 150)
	changes(os.Stdout, "at-10000-five-baselines", crowded(10_000), 500)
	changes(os.Stdout, "at-100000-ordinary-shape", ordinary(100_000), 500)
	coldStart(os.Stdout)
	size(os.Stdout)
	memory(os.Stdout)
}

// report prints one number. naive is the same number for the naive form, 0 when
// there is none.
func report(w io.Writer, name string, value float64, unit string, target, naive float64) {
	beside := ""
	if naive > 0 {
		beside = fmt.Sprintf(", naive %.4g, %.2g of it", naive, value/naive)
	}
	fmt.Fprintf(w, "%s %.4g %s (target %.4g%s): %s\n", name, value, unit, target, beside, figures.Verdict(value <= target))
}

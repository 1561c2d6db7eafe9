package sweep

import (
	"fmt"
	"io"
	"strings"

	"switchyard.dev/tests/figures"
)

// Print prints what became of runs of one kind.
func (o Outcome) Print(w io.Writer, name string) {
	figures.Text(w, name+"-runs-with-another-end", len(o.Failures), "runs",
		fmt.Sprintf("0 of %d, with %d managers", o.Runs, o.Lives), len(o.Failures) == 0)
	figures.Text(w, name+"-keys-withdrawn-for-a-while", len(o.Withdrawn), "withdrawals",
		"0 of keys that are wanted", len(o.Withdrawn) == 0)
	for _, f := range o.Failures {
		fmt.Fprintf(w, "  %s:\n    %s\n", f.Name, strings.Join(f.Findings, "\n    "))
	}
	for _, key := range o.Withdrawn {
		fmt.Fprintln(w, "  withdrawn:", key)
	}
}

// Print prints the result of a churn.
func (r Result) Print(w io.Writer, c Churn) {
	name := "churn"
	if c.Meshes {
		name += "-in-meshes"
	}
	figures.Text(w, name+"-objects-that-differ", len(r.Findings), "objects", fmt.Sprintf(
		"0, after %d changes, 410 Gone every %s, the API server killed %d times", c.Changes, c.Expire, c.Kills), len(r.Findings) == 0)
	for _, f := range r.Findings {
		fmt.Fprintln(w, "  ", f)
	}
}

// grown is how much more memory than before may be in use after many cycles, in MiB:
// what the log may keep, and the garbage of the moment.
const grown = 8

// Print prints leftovers after cycles.
func (r Cycled) Print(w io.Writer, c Cycles) {
	figures.Text(w, "cycles-left-over", len(r.Left), "objects, facts and rules",
		fmt.Sprintf("0, after %d sandboxes", c.Count), len(r.Left) == 0)
	figures.Text(w, "cycles-memory-grown", fmt.Sprintf("%.1f", r.After-r.Before), "MiB",
		fmt.Sprintf("at most %d, from %.1f", grown, r.Before), r.After-r.Before <= grown)
	for _, what := range r.Left {
		fmt.Fprintln(w, "  left:", what)
	}
}

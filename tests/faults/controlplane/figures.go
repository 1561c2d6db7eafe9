package controlplane

import (
	"fmt"
	"io"

	"switchyard.dev/tests/figures"
)

// Print prints the figures of a run.
func (f Figures) Print(w io.Writer, r Run) {
	name, times := "store-"+r.Database+"-killed", "kills"
	if r.Cut {
		name, times = "store-"+r.Database+"-power-cut", "power cuts"
	}
	figures.Text(w, name+"-writes-lost", len(f.Lost), "writes", fmt.Sprintf("0 of %d in %d %s", f.Acked, f.Lives, times), len(f.Lost) == 0)
	figures.Text(w, name+"-writes-half-applied", len(f.Half), "objects", fmt.Sprintf("0 in %d %s", f.Lives, times), len(f.Half) == 0)
	for _, what := range append(f.Lost, f.Half...) {
		fmt.Fprintln(w, "  ", what)
	}
}

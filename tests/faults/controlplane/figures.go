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

// Print prints the figures of a run.
func (d Delivered) Print(w io.Writer) {
	disturbed := fmt.Sprintf("in %d kills and %d cuts", d.Kills, d.Cuts)
	figures.Text(w, "delivery-last-writes-lost", len(d.Lost), "sandboxes", fmt.Sprintf("0 after %d acknowledged writes %s", d.Acked, disturbed), len(d.Lost) == 0)
	figures.Text(w, "delivery-older-writes", len(d.Older), "writes", fmt.Sprintf("0 of %d in the API server %s", d.Writes, disturbed), len(d.Older) == 0)
	for _, what := range append(d.Lost, d.Older...) {
		fmt.Fprintln(w, "  ", what)
	}
}

// Print prints the figures of a run.
func (r Restored) Print(w io.Writer) {
	of := fmt.Sprintf("0 of %d, of which the restored store lists %d as newer", r.Objects, r.Listed)
	figures.Text(w, "restore-objects-deleted", len(r.Deleted), "objects", of, len(r.Deleted) == 0)
	figures.Text(w, "restore-objects-overwritten", len(r.Overwritten)+len(r.Again), "objects", of, len(r.Overwritten)+len(r.Again) == 0)
	for _, name := range append(append(r.Deleted, r.Overwritten...), r.Again...) {
		fmt.Fprintln(w, "  ", name)
	}
}

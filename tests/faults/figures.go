package faults

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"switchyard.dev/eventbus/embedded/store"
	"switchyard.dev/tests/figures"
)

// Print prints what the power cuts did.
func (f PowerCutFigures) Print(w io.Writer) {
	figures.Text(w, "power-cut-events-lost", f.Lost, "events", fmt.Sprintf("0 of %d in %d cuts", f.Acked, f.Rounds), f.Lost == 0)
	figures.Text(w, "power-cut-stores-taken-for-damaged", f.Aside, "stores", fmt.Sprintf("0 in %d cuts", f.Rounds), f.Aside == 0)
	if len(f.Starts) == 0 {
		return
	}
	median, slowest := figures.Median(f.Starts), slices.Max(f.Starts)
	figures.Text(w, "power-cut-start-p50", median.Milliseconds(), "ms", "3000", median <= 3*time.Second)
	figures.Text(w, "power-cut-start-slowest", slowest.Milliseconds(), "ms", "3000", slowest <= 3*time.Second)
}

// PrintUnsynced prints what the power cuts did to a bus that does not sync.
func (f PowerCutFigures) PrintUnsynced(w io.Writer) {
	figures.Text(w, "power-cut-events-lost-without-sync", f.Lost, "events",
		fmt.Sprintf("more than 0 of %d in %d cuts, to show that they cut", f.Acked, f.Rounds), f.Lost > 0)
}

// Print prints what became of the spoilt stores.
func (f CorruptionFigures) Print(w io.Writer) {
	all := f.Harmless + f.Noticed + f.ByWriter + f.Silent
	figures.Text(w, "spoilt-stores-served-in-silence", f.Silent, "stores", fmt.Sprintf("0 of %d, %d of them with one flipped bit", all, f.Flips), f.Silent == 0)
	figures.Text(w, "spoilt-stores-that-are-whole", f.Harmless, "stores", "any", true)
	figures.Text(w, "spoilt-stores-moved-aside-and-rebuilt", f.Noticed, "stores", "any", true)
	figures.Text(w, "spoilt-stores-refused-by-the-mark-of-the-writer", f.ByWriter, "stores", "any; killed before the witness caught up", true)
	figures.Text(w, "spoilt-store-processes-ended", f.Crashes, "processes", "any; each was started again, as a pod is", true)
	figures.Text(w, "spoilt-store-slowest-start", f.Slowest.Milliseconds(), "ms", "60000", f.Slowest <= time.Minute)
	for _, what := range f.Silently {
		fmt.Fprintln(w, "  in silence:", what)
	}
	for _, what := range f.Notable {
		fmt.Fprintln(w, "  notable:", what)
	}
}

// Print prints how the bus came through an outage.
func (f OutageFigures) Print(w io.Writer, o Outage) {
	name := strings.ReplaceAll(o.Kind, " ", "-")
	figures.Text(w, name+"-events-lost", f.Lost, "events", fmt.Sprintf("0 of %d", f.Acked), f.Lost == 0)
	figures.Text(w, name+"-noticed-after", f.Noticed.Milliseconds(), "ms", "5000", f.Noticed <= 5*time.Second)
	figures.Text(w, name+"-ready-after-the-end", f.Ready.Milliseconds(), "ms", fmt.Sprintf("5000, after %s, without a restart", o.For), f.Ready <= 5*time.Second)
	figures.Text(w, name+"-written-after-the-end", f.Written.Milliseconds(), "ms", "10000", f.Written <= 10*time.Second)
}

// Print prints how long the opening took, and what became of one that was killed.
func (f OpeningFigures) Print(w io.Writer) {
	figures.Text(w, "verified-start", f.Took.Milliseconds(), "ms", fmt.Sprintf("2000, with %d events", f.Events), f.Took <= 2*time.Second)
	figures.Text(w, "killed-openings-until-moved-aside", 2, "openings", "2", f.Unfinished.Damage == store.Unfinished)
}

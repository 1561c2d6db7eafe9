package tunnels

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/tunnels/capture"
)

// sortedKeys returns the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func (l *ledger) print(w io.Writer, scene string) {
	zero := func(name string, n, of int) {
		figures.Text(w, scene+"-"+name, n, "requests", fmt.Sprintf("0 of %d", of), n == 0 && of > 0)
	}
	zero("requests-with-a-key-that-reached-the-baseline", l.Baseline, l.Keyed)
	zero("requests-with-a-key-that-reached-another-workstation", l.Astray, l.Keyed)
	zero("requests-without-a-key-that-failed-or-went-astray", l.PlainWrong, l.Plain)
	// The rest failed visibly.
	figures.Print(w, scene+"-requests-with-a-key-that-were-answered", 100*float64(l.Answered)/max(1, float64(l.Keyed)), "percent")
	figures.Print(w, scene+"-longest-without-an-answer", l.Gap.Seconds(), "s")
	for _, note := range l.notes {
		fmt.Fprintln(w, "  ", note)
	}
}

func printAudit(w io.Writer, scene string, c capture.Comparison) {
	figures.Text(w, scene+"-connections-captured", c.Captured, "connections", "more than 0", c.Captured > 0)
	figures.Text(w, scene+"-connections-without-their-first-record", c.NoFirst, "connections", fmt.Sprintf("0 of %d", c.Captured), c.NoFirst == 0)
	figures.Text(w, scene+"-connections-without-their-last-record", c.NoLast, "connections", fmt.Sprintf("0 of %d", c.First), c.NoLast == 0)
	figures.Print(w, scene+"-connections-that-died-with-their-proxy", float64(c.Died), "connections")
	figures.Text(w, scene+"-connections-said-to-have-died-that-did-not", c.NoDeath, "connections", fmt.Sprintf("0 of %d", c.Died), c.NoDeath == 0)
	// Those that ended while their proxy died.
	figures.Print(w, scene+"-connections-with-two-last-records", float64(c.Twice), "connections")
	figures.Text(w, scene+"-lines-of-the-audit-torn", c.Torn, "lines", "0", c.Torn == 0)
	for _, note := range c.Notes {
		fmt.Fprintln(w, "  ", note)
	}
}

// Print prints the figures.
func (f *FaultsFigures) Print(w io.Writer) {
	const scene = "faults"
	for _, name := range sortedKeys(f.kills) {
		figures.Text(w, scene+"-kills-of-"+name, f.kills[name], "times", "more than 0", f.kills[name] > 0)
	}
	for _, name := range sortedKeys(f.endedItself) {
		if what := scene + "-" + name + "-ended-by-itself"; name == "manager" { // One that cannot renew its lease does.
			figures.Print(w, what, float64(f.endedItself[name]), "times")
		} else {
			figures.Text(w, what, f.endedItself[name], "times", "0", f.endedItself[name] == 0)
		}
	}
	f.requests.print(w, scene)
	figures.Text(w, scene+"-connections-straight-to-workstations", f.direct, "connections", "more than 0", f.direct > 0)
	figures.Text(w, scene+"-connections-from-workstations", f.trips, "connections", fmt.Sprintf("more than 0; %d failed", f.failed), f.trips > f.failed)
	figures.Text(w, scene+"-connections-that-local-servers-accepted", f.accepted, "connections", "more than 0", f.accepted > 0)
	printAudit(w, scene, f.audit)
	printStanding(w, scene, f.before, f.after)
}

// Print prints the figures.
func (f *DevelopersFigures) Print(w io.Writer) {
	const scene = "developers"
	figures.Text(w, scene+"-sandboxes-that-came-and-went", f.went, "sandboxes", fmt.Sprintf("all of %d, in %.0f s", f.came, f.took.Seconds()), f.went == f.came && f.went > 0)
	figures.Text(w, scene+"-disconnections-of-workstations", f.away, "times", "more than 0", f.away > 0)
	f.requests.print(w, scene)
	figures.Text(w, scene+"-objects-and-rules-left", len(f.left), "things", "0", len(f.left) == 0)
	for _, one := range f.left[:min(len(f.left), notesKept)] {
		fmt.Fprintln(w, "   left:", one)
	}
	figures.Text(w, scene+"-tunnels-left-in-the-manager", f.held, "tunnels", "0", f.held == 0)
	figures.Text(w, scene+"-connections-left-in-proxies", f.active, "connections",
		fmt.Sprintf("%d, each workstation's to tunnel-api", f.stations), f.active == float64(f.stations))
	printStanding(w, scene, f.before, f.after)
}

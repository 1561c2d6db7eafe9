package workflows

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/sweep/wire"
	"switchyard.dev/tests/sweep/workflows/kubelet"
)

// Deaths returns all deaths at every step-th write, from the first on. Only writes count at which
// a process or pod was alive in the golden run, and only deaths that contain only in their text.
func (g Golden) Deaths(first, step int, only string) []Death {
	var out []Death
	for _, k := range kinds() {
		for at := first - 1; at < len(g.writes(k.who)); at += step {
			if d := (Death{Who: k.who, At: g.writes(k.who)[at], Way: k.way}); strings.Contains(d.String(), only) {
				out = append(out, d)
			}
		}
	}
	return out
}

// Some returns one death of each kind, at a write that follows from a seed.
func (g Golden) Some(seed uint64) []Death {
	random := rand.New(rand.NewPCG(seed, 0xd1e)) //nolint:gosec // It is to be the same again.
	var out []Death
	for _, k := range kinds() {
		all := g.writes(k.who)
		out = append(out, Death{Who: k.who, At: all[random.IntN(len(all))], Way: k.way})
	}
	return out
}

// kind is who dies, and how.
type kind struct{ who, way string }

func kinds() []kind {
	var out []kind
	for _, way := range append(wire.Ways(), Old) {
		out = append(out, kind{Manager, string(way)})
	}
	for _, way := range wire.Ways() {
		out = append(out, kind{Server, string(way)})
	}
	for _, way := range kubelet.Ways() {
		out = append(out, kind{Pods, string(way)})
	}
	return out
}

// writes returns the writes, by their number, at which a process or pod may die.
func (g Golden) writes(who string) []int {
	if who == Pods {
		return g.alive
	}
	var out []int
	for at := range g.Writes[who] {
		out = append(out, 1+at)
	}
	return out
}

// Failure is a run that did not go as it should.
type Failure struct {
	Death    Death
	Findings []string
}

// Outcome is what became of many runs.
type Outcome struct {
	// Runs is the number of runs, by the process to kill. Spared is the number of those without a
	// kill: no pod lived from that write on, or there were fewer writes.
	Runs   map[string]int
	Spared int
	// Pods is how many pods died.
	Pods int
	// Held is how many units waited for a person.
	Held     int
	Failures []Failure
}

// Sweep runs all deaths. report is called after each; can be nil.
func (w *World) Sweep(ctx context.Context, g Golden, deaths []Death, report func(Death, Result)) (Outcome, error) {
	out := Outcome{Runs: map[string]int{}}
	for _, d := range deaths {
		r, err := w.Run(ctx, g, d)
		if err != nil {
			return out, fmt.Errorf("%s: %w", d, err)
		}
		out.Runs[d.Who]++
		out.Held += r.Held
		switch {
		case r.Died == 0:
			out.Spared++
		case d.Who == Pods:
			out.Pods += r.Died
		}
		if len(r.Findings) > 0 {
			out.Failures = append(out.Failures, Failure{d, r.Findings})
		}
		if report != nil {
			report(d, r)
		}
	}
	return out, nil
}

// Print prints what became of them.
func (o Outcome) Print(w io.Writer) {
	total := 0
	for _, who := range []string{Manager, Server, Pods} {
		failed := 0
		for _, f := range o.Failures {
			if f.Death.Who == who {
				failed++
			}
		}
		total += o.Runs[who]
		figures.Text(w, "workflows-runs-gone-wrong-"+strings.ReplaceAll(strings.ToLower(who), " ", "-"), failed, "runs",
			fmt.Sprintf("0 of %d in which the %s died", o.Runs[who], who), failed == 0)
	}
	figures.Text(w, "workflows-finished-units-ran-once", fmt.Sprintf("%.2f", 100*float64(total-len(o.Failures))/float64(max(1, total))), "percent",
		fmt.Sprintf("100 of %d runs", total), len(o.Failures) == 0 && total > 0)
	figures.Print(w, "workflows-runs-in-which-nobody-died", float64(o.Spared), "runs")
	figures.Print(w, "workflows-pods-that-died", float64(o.Pods), "pods")
	figures.Print(w, "workflows-units-held-for-a-person", float64(o.Held), "units")
	for _, f := range o.Failures {
		fmt.Fprintf(w, "  %s:\n    %s\n", f.Death, strings.Join(f.Findings, "\n    "))
	}
}

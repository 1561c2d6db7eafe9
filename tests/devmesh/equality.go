package devmesh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"

	"switchyard.dev/tests/figures"
)

// Equality makes random changes, with restarts in between, and compares what real
// Envoys do with the table at the version that each has acknowledged.
type Equality struct {
	// Changes is how many facts are stated; after each Each of them every Envoy is read while it
	// changes, and after each Restart of them something is restarted.
	Changes, Each, Restart int
	Seed                   uint64
	// Baselines is how many there are, at most 3, and Pods how many each of them has.
	Baselines, Pods int
	// Scratch is a directory for stores and logs.
	Scratch string
}

// EqualityFigures are the results.
type EqualityFigures struct {
	Changes, Compared, Rules int
	// Restarts counts the restarts of each kind.
	Restarts map[string]int
	// Differences counts all; Notes quotes the first.
	Differences int
	Notes       []string
}

// Run makes the changes.
func (e Equality) Run(ctx context.Context) (f EqualityFigures, err error) {
	f.Restarts = map[string]int{}
	w, err := newWorld(ctx, e.Scratch, e.Baselines, e.Pods)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	facts := &randomFacts{random: rand.New(rand.NewPCG(e.Seed, 8)), baselines: e.Baselines}
	if err := facts.fill(w.control); err != nil {
		return f, err
	}
	for f.Changes < e.Changes {
		if _, err := facts.state(w.control); err != nil {
			return f, err
		}
		f.Changes++
		if f.Changes%e.Restart == 0 {
			if err := w.restartSomething(facts.random, f.Restarts); err != nil {
				return f, err
			}
		}
		if f.Changes%e.Each == 0 {
			if err := w.compareAll(&f); err != nil {
				return f, err
			}
		}
	}
	if err := w.control.Converged(len(w.pods)); err != nil {
		return f, err
	}
	return f, w.compareAll(&f)
}

func (w *world) compareAll(f *EqualityFigures) error {
	for _, p := range w.pods {
		differences, rules, err := w.compare(p)
		if err != nil {
			return err
		}
		f.Compared++
		f.Rules += rules
		f.Differences += len(differences)
		f.Notes = append(f.Notes, differences[:min(len(differences), max(0, maxNotes-len(f.Notes)))]...)
	}
	return nil
}

// restartSomething restarts a program, and does not wait until it is as before.
func (w *world) restartSomething(random *rand.Rand, done map[string]int) error {
	p := w.pods[random.IntN(len(w.pods))]
	sidecar := func(how restart) func() error {
		return func() error {
			_, err := p.restart(w.ctx, how)
			return err
		}
	}
	things := []struct {
		name    string
		restart func() error
	}{
		{"route server", func() error { w.control.KillRoutes(); return w.control.StartRoutes() }},
		{"sidecar", sidecar(keeperGone)},
		{"Envoy", sidecar(envoyKilled)},
		{"event bus", w.control.RestartBus},
		{"sidecar, drained", sidecar(drained)},
		{"route server and sidecar", func() error {
			w.control.KillRoutes()
			return errors.Join(sidecar(keeperGone)(), w.control.StartRoutes())
		}},
	}
	total := 0
	for _, n := range done {
		total += n
	}
	thing := things[total%len(things)] // each in turn: a short run has them all too
	done[thing.name]++
	if err := thing.restart(); err != nil {
		return fmt.Errorf("restart the %s: %w", thing.name, err)
	}
	return nil
}

// Print prints the figures.
func (f EqualityFigures) Print(w io.Writer, e Equality) {
	figures.Text(w, "equality-changes", f.Changes, "changes", fmt.Sprintf("%d, seed %d", e.Changes, e.Seed), f.Changes == e.Changes)
	for _, name := range slices.Sorted(maps.Keys(f.Restarts)) {
		fmt.Fprintf(w, "   restarted %d times: the %s\n", f.Restarts[name], name)
	}
	figures.Text(w, "equality-compared", f.Compared, "dumps", fmt.Sprintf("any; %d decisions in all", f.Rules), f.Compared > 0 && f.Rules > 0)
	figures.Text(w, "equality-differences", f.Differences, "differences", "0", f.Differences == 0)
	for _, note := range f.Notes {
		fmt.Fprintln(w, "  ", note)
	}
}

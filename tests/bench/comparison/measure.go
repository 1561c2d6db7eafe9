package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"

	"switchyard.dev/tests/comparison/corpus"
	"switchyard.dev/tests/comparison/kinds"
	"switchyard.dev/tests/comparison/measure"
	"switchyard.dev/tests/comparison/peers"
	"switchyard.dev/tests/comparison/score"
	"switchyard.dev/tests/figures"
)

type options struct {
	services, endpoints int
	seed                uint64
	kinds               string
	real, workers       int
}

// runs are the numbers of runs of each side.
var runs = []int{1, 2, 3, 5}

func run(ctx context.Context, o options) (err error) {
	var folder fs.FS = kinds.Files
	if o.kinds != "" {
		folder = os.DirFS(o.kinds)
	}
	all, err := corpus.Load(folder)
	if err != nil {
		return err
	}
	c := corpus.Corpus{Kinds: all, Seed: o.seed, Services: o.services, Endpoints: o.endpoints}
	fmt.Printf("comparison-seed %d, %d services of %d endpoints, %d kinds of noise, %d of faults\n", o.seed, o.services, o.endpoints, len(all.Noise), len(all.Faults))
	ways := []measure.Way{{Name: "always-red", K: 1, Judge: peers.Always}, {Name: "never-red", K: 1, Judge: peers.Never}, {Name: "plain-diff", K: 1, Judge: peers.Plain},
		{Name: "diffy-k3", K: 3, Judge: peers.Diffy}, {Name: "diffy-k5", K: 5, Judge: peers.Diffy}}
	t, err := peers.StartTrafficDiff(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "without traffic-diff:", err)
	} else {
		defer func() { err = errors.Join(err, t.Close()) }()
		ways = append(ways, measure.Way{Name: "traffic-diff", K: 1, Judge: t.Judge})
	}
	for _, k := range runs {
		ways = append(ways, measure.Way{Name: fmt.Sprint("k", k), K: k, Judge: measure.Learnt})
	}
	for _, percent := range []int{50, 1} {
		c.Faulty = float64(percent) / 100
		for i, n := range measure.Over(c, ways, nil) {
			print(ways[i], percent, n)
		}
	}
	same(c)
	if o.real == 0 {
		return nil
	}
	return applications(ctx, o)
}

// print prints the figures of one way at a prevalence.
func print(w measure.Way, percent int, n measure.Count) {
	name := func(what string) string { return fmt.Sprintf("comparison-%s-%d-%s", what, percent, w.Name) }
	precision, recall := n.All.Precision(), n.All.Recall()
	target := 0.0
	if w.Name == "k3" || w.Name == "k5" {
		if target = 0.95; percent == 1 {
			target = 0.90
		}
	}
	show := func(what string, s score.Share, target float64) {
		fmt.Printf("%s %s share", name(what), s)
		if target > 0 {
			fmt.Printf(" (target lower bound at least %v): %s", target, figures.Verdict(s.Low() >= target))
		}
		fmt.Println()
	}
	show("precision", precision, target)
	if percent == 1 {
		target = 0
	}
	show("recall", recall, target)
	if w.Name == "always-red" || w.Name == "never-red" || w.Name == "plain-diff" {
		short := precision.Low() < 0.9 || recall.Low() < 0.9
		figures.Text(os.Stdout, name("falls-short"), short, "", "true", short)
	}
	if w.Name != "k3" && w.Name != "k5" {
		return
	}
	faults := n.All.RightRed + n.All.Missed
	figures.Print(os.Stdout, name("prevalence"), n.All.Prevalence(), "share")
	figures.Print(os.Stdout, name("noisy"), noisy(n), "share of units")
	figures.AtLeast(os.Stdout, name("faults"), float64(faults), "faults", 1000)
	figures.AtMost(os.Stdout, name("undetectable"), float64(n.Undetectable)/float64(max(1, faults+n.Undetectable)), "share of faults", 0.1)
	show("held-out-precision", n.HeldOut.Precision(), 0)
	show("held-out-recall", n.HeldOut.Recall(), 0)
	fmt.Printf("%s %d units, %d faulty, %d missed, %d wrongly red\n", name("flapping"), n.Flapping.Units(),
		n.Flapping.RightRed+n.Flapping.Missed, n.Flapping.Missed, n.Flapping.WrongRed)
	for _, kind := range slices.Sorted(maps.Keys(n.Noise)) {
		t := n.Noise[kind]
		fmt.Printf("%s-%s %d of %d units without a fault wrongly red, %d of %d faults missed\n", name("noise"), kind, t.WrongRed, t.WrongRed+t.Quiet, t.Missed, t.Missed+t.RightRed)
	}
	for _, kind := range slices.Sorted(maps.Keys(n.Faults)) {
		t := n.Faults[kind]
		fmt.Printf("%s-%s %d of %d missed\n", name("fault"), kind, t.Missed, t.Missed+t.RightRed)
	}
}

// noisy is the share of units with noise, flapping ones among them.
func noisy(n measure.Count) float64 {
	all, quiet := n.All, score.Tally{}
	all.Add(n.Flapping)
	if t := n.Noise["quiet"]; t != nil {
		quiet = *t
	}
	return 1 - float64(quiet.Units())/float64(max(1, all.Units()))
}

// comparisons are those of a fork without faults.
const comparisons = 2000

// same compares forks that are the baseline.
func same(c corpus.Corpus) {
	c.Faulty, c.Seed, c.Services = 0, c.Seed+1000, min(c.Services, comparisons/c.Endpoints)
	var ways []measure.Way
	for _, k := range runs {
		ways = append(ways, measure.Way{Name: fmt.Sprint("k", k), K: k, Judge: measure.Learnt})
	}
	for i, n := range measure.Over(c, ways, nil) {
		name := fmt.Sprintf("comparison-same-%s", ways[i].Name)
		share := score.Share{Of: n.RedCases, All: n.Cases}
		if ways[i].K < 3 {
			fmt.Printf("%s %s of %d comparisons red\n", name, share, n.Cases)
			continue
		}
		fmt.Printf("%s %s of %d comparisons red (target at most 0.005): %s\n", name, share, n.Cases, figures.Verdict(share.Value() <= 0.005))
	}
}

// applications compares HotROD and podinfo, with several copies at once.
func applications(ctx context.Context, o options) error {
	logs, err := os.MkdirTemp("", "comparison-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(logs) }()
	var lock sync.Mutex
	var workers sync.WaitGroup
	red, total := 0, 0
	var changed map[string][]string
	for i := range o.workers {
		workers.Go(func() {
			n := o.real/o.workers + min(1, max(0, o.real%o.workers-i))
			found, changes, problem := application(ctx, logs, n, i == 0)
			lock.Lock()
			defer lock.Unlock()
			err = errors.Join(err, problem)
			red, total = red+len(found), total+n
			for _, explanations := range found {
				fmt.Fprintln(os.Stderr, explanations)
			}
			if changes != nil {
				changed = changes
			}
		})
	}
	workers.Wait()
	if err != nil {
		return err
	}
	missed := 0
	for name, found := range changed {
		if len(found) == 0 {
			missed++
			fmt.Fprintln(os.Stderr, "missed:", name)
		}
	}
	fmt.Printf("comparison-applications-unmodified %d of %d comparisons red (target 0): %s\n", red, total, figures.Verdict(red == 0))
	fmt.Printf("comparison-applications-changed %d of %d changes red (target at least 19): %s\n", len(changed)-missed, len(changed), figures.Verdict(len(changed)-missed >= 19))
	return nil
}

func application(ctx context.Context, logs string, n int, changes bool) (red map[int][]string, changed map[string][]string, err error) {
	r, err := measure.NewReal(ctx, ".", logs, 3)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	if red, err = r.Unmodified(ctx, n); err != nil || !changes {
		return red, nil, err
	}
	changed, err = r.Changes(ctx)
	return red, changed, err
}

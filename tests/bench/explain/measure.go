package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"switchyard.dev/tests/explain"
	"switchyard.dev/tests/figures"
)

func run(ctx context.Context, requests int, seed uint64) (err error) {
	dir, err := os.MkdirTemp("", "explain-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	w, err := explain.Start(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	kinds, random := explain.Faults(), rand.New(rand.NewPCG(seed, 1))
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	fmt.Printf("explain-seed %d, %d kinds of fault\n", seed, len(kinds))
	faulty, healthy := tally{}, tally{}
	for n := range requests {
		if err := faulty.add(w.Try(ctx, kinds[n%len(kinds)], 2*n, random.Uint64())); err != nil {
			return err
		}
		if n%5 > 0 {
			continue
		}
		if err := healthy.add(w.Try(ctx, explain.None, 2*n+1, random.Uint64())); err != nil {
			return err
		}
	}
	faulty.print("explain-causes-named", requests)
	healthy.print("explain-without-fault-right", healthy.all)
	fmt.Printf("explain-answer %.3g ms on average\n", float64((faulty.took+healthy.took).Microseconds())/1e3/float64(faulty.all+healthy.all))
	return nil
}

// tally counts answers.
type tally struct {
	all, named int
	took       time.Duration
}

func (t *tally) add(r explain.Result, err error) error {
	if err != nil {
		return err
	}
	t.all++
	t.took += r.Took
	if r.Named() {
		t.named++
	} else {
		fmt.Fprintln(os.Stderr, r)
	}
	return nil
}

func (t *tally) print(name string, target int) {
	figures.Text(os.Stdout, name, t.named, fmt.Sprintf("of %d", t.all), fmt.Sprint(target), t.named >= target)
}

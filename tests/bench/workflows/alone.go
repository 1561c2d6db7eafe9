package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long one script may take to run.
const patience = 2 * time.Minute

// took is the cost of one way: the time of each run, and the writes of all.
type took struct {
	times  []time.Duration
	writes tally
}

// turns runs each way once, and again, and so on.
func (c *cluster) turns(ctx context.Context, rounds int) (map[way]*took, error) {
	all := map[way]*took{}
	for _, w := range alone {
		all[w] = &took{writes: tally{}}
	}
	for round := range rounds + 1 {
		for _, w := range alone {
			before, err := c.writes(ctx)
			if err != nil {
				return nil, err
			}
			lasted, err := c.once(ctx, w, fmt.Sprintf("bench-%s-%d", w, round))
			if err != nil {
				return nil, err
			}
			after, err := c.writes(ctx)
			if err != nil {
				return nil, err
			}
			if round == 0 { // The first of each includes one-time setup.
				continue
			}
			all[w].times = append(all[w].times, lasted)
			for what, n := range after.since(before) {
				all[w].writes[what] += n
			}
		}
	}
	return all, nil
}

// once runs a script alone, removes everything, and returns how long it took until its object's
// status reported the end.
func (c *cluster) once(ctx context.Context, w way, name string) (time.Duration, error) {
	o, err := w.object(name)
	if err != nil {
		return 0, err
	}
	time.Sleep(rand.N(time.Second)) //nolint:gosec // Not in step with the kubelet, that is all.
	within, stop := context.WithTimeout(ctx, patience)
	defer stop()
	var end time.Time
	seen, err := c.follow(within, o, func(now *unstructured.Unstructured) (bool, error) {
		end = time.Now()
		return ended(now)
	}, client.MatchingFields{"metadata.name": name})
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := c.Create(ctx, o); err != nil {
		return 0, fmt.Errorf("create %s %s: %w", o.GetKind(), name, err)
	}
	if err := <-seen; err != nil {
		return 0, errors.Join(fmt.Errorf("wait for %s %s", o.GetKind(), name), err)
	}
	return end.Sub(begun), c.remove(ctx, o)
}

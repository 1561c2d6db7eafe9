package measure

import (
	"context"
	"fmt"
	"slices"

	"switchyard.dev/tests/comparison/changes"
	"switchyard.dev/tests/comparison/live"
	"switchyard.dev/workflows/comparison"
	"switchyard.dev/workflows/comparison/exchange"
	"switchyard.dev/workflows/comparison/noise"
)

// Real is the comparison with the real applications.
type Real struct {
	programs       live.Programs
	set            changes.Set
	baseline, fork *live.Side
	k              int
}

// NewReal starts a baseline and a fork, unmodified, for comparisons of k runs each.
func NewReal(ctx context.Context, root, logs string, k int) (r *Real, err error) {
	r = &Real{k: k}
	if r.set, err = changes.Load(); err != nil {
		return nil, err
	}
	if r.programs, err = live.Find(ctx, root, logs); err != nil {
		return nil, err
	}
	if r.baseline, err = r.programs.Start(ctx, "shop-7c9d-x2x4q", true); err != nil {
		return nil, err
	}
	if r.fork, err = r.programs.Start(ctx, "shop-fork-5f6b-9k2lm", true); err != nil {
		r.baseline.Close()
		return nil, err
	}
	return r, nil
}

// Close ends the applications.
func (r *Real) Close() {
	r.baseline.Close()
	r.fork.Close()
}

func (r *Real) options() comparison.Options {
	return comparison.Options{BaselineNames: []string{r.baseline.Host}, ForkNames: []string{r.fork.Host}}
}

// Unmodified compares n times, each with runs of its own, and returns the explanations of red findings by comparison.
func (r *Real) Unmodified(ctx context.Context, n int) (red map[int][]string, err error) {
	red = map[int][]string{}
	for i := range n {
		baseline, fork, err := live.Record(ctx, r.set.Requests, r.k, r.baseline, r.fork)
		if err != nil {
			return nil, err
		}
		result := comparison.Compare(baseline, fork, r.options())
		if len(result.Unpaired) > 0 {
			return nil, fmt.Errorf("%d unpaired exchanges", len(result.Unpaired))
		}
		if found := explained(result); len(found) > 0 {
			red[i] = found
		}
	}
	return red, nil
}

// explained returns the explanations of red findings.
func explained(result comparison.Result) (red []string) {
	for _, call := range result.Calls {
		for _, f := range slices.Concat(call.Request, call.Response) {
			if f.Colour == noise.Red {
				red = append(red, call.Baseline[0].Name+" "+f.Explain())
			}
		}
	}
	return red
}

// Changes compares each change, and returns the explanations of red findings by its name; none for a change that was missed.
func (r *Real) Changes(ctx context.Context) (red map[string][]string, err error) {
	red = map[string][]string{}
	for _, c := range r.set.Changes {
		at := slices.IndexFunc(r.set.Requests, func(q changes.Request) bool { return q.Name == c.Request })
		requests := r.set.Requests[at : at+1]
		baseline, fork, err := r.changed(ctx, c, requests)
		if err != nil {
			return nil, err
		}
		red[c.Name] = explained(comparison.Compare(baseline, fork, r.options()))
	}
	return red, nil
}

func (r *Real) changed(ctx context.Context, c changes.Change, requests []changes.Request) (baseline, fork []exchange.Run, err error) {
	side := r.fork
	if len(c.Args) > 0 {
		if side, err = r.programs.Start(ctx, r.fork.Host, false, c.Args...); err != nil {
			return nil, nil, err
		}
		defer side.Close()
	}
	if baseline, fork, err = live.Record(ctx, requests, r.k, r.baseline, side); err != nil {
		return nil, nil, err
	}
	for i := range fork {
		if fork[i][0], err = c.Apply(fork[i][0]); err != nil {
			return nil, nil, err
		}
	}
	return baseline, fork, nil
}

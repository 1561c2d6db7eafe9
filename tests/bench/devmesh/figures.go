package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// findings are all that was measured.
type findings struct {
	settings settings
	pairs    []*pair
	// weights are what the Envoys of sidecars hold, by number of sandboxes.
	weights map[int]memory
	boots   []boots
}

// boots are how long restarts took, in seconds.
type boots struct {
	sandboxes int
	took      []float64
}

// weigh reads the memory of the sidecars' Envoys.
func (f *findings) weigh(ctx context.Context, n *node) error {
	f.weights = map[int]memory{}
	for _, p := range n.places {
		if !p.sidecar {
			continue
		}
		m, err := p.memory(ctx)
		if err != nil {
			return err
		}
		f.weights[p.sandboxes] = m
	}
	return nil
}

func (f *findings) print(w io.Writer) {
	f.table(w)
	fmt.Fprintln(w)
	for _, p := range f.pairs {
		p.figures(w)
	}
	for _, k := range []kind{plain, other, known} {
		f.flat(w, k)
	}
	least, most := f.weights[sizes[0]], f.weights[sizes[len(sizes)-1]]
	rules := float64(sizes[len(sizes)-1]) * 1024
	atMost(w, "devmesh-memory-per-rule-resident", (most.resident-least.resident)/rules, "KiB", 4)
	atMost(w, "devmesh-memory-per-rule-allocated", (most.allocated-least.allocated)/rules, "KiB", 4)
	for _, b := range f.boots {
		name := fmt.Sprintf("devmesh-restart-%d", b.sandboxes)
		atMost(w, name+"-median", median(b.took), "s", 1)
		atMost(w, name+"-worst", slices.Max(b.took), "s", 1)
	}
}

// table is for people.
func (f *findings) table(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tsandboxes\trequests\tCPU µs\tover the floor\t(10–90 % of rounds)\tat rest\trequests/s\tp50 ms\tadded\tp99 ms")
	for _, p := range f.pairs {
		cpu, rate := p.medians()
		over := p.cpu()
		fmt.Fprintf(t, "%s\t%d\t%s\t%.1f\t%+.1f %%\t%+.1f … %+.1f\t%+.1f %%\t%.0f", p.spot.name, p.spot.sandboxes, p.spot.kind,
			cpu, percent(median(over)), percent(quantile(over, 0.1)), percent(quantile(over, 0.9)), percent(p.atRest()), rate)
		if len(p.took) > 0 {
			fmt.Fprintf(t, "\t%.3f\t%+.3f\t%.3f", median(p.p50), median(p.added()), p.p99())
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
}

func percent(times float64) float64 { return 100 * (times - 1) }

func (p *pair) medians() (cpu, rate float64) {
	return median(each(p.floods, func(_ int, v flooded) float64 { return v.cpu })),
		median(each(p.floods, func(_ int, v flooded) float64 { return v.rate }))
}

func (p *pair) p99() float64 {
	slices.Sort(p.took)
	return at(p.took, 0.99)
}

// figures prints those of one pair.
func (p *pair) figures(w io.Writer) {
	name := fmt.Sprintf("%s-%s", p.spot.figures, p.spot.kind)
	cpu, rate := p.medians()
	if p.spot.process != nil {
		figure(w, name+"-cpu", cpu, "us-per-request")
	}
	figure(w, name+"-throughput", rate, "requests-per-s")
	if len(p.took) > 0 {
		figure(w, name+"-p50", median(p.p50), "ms")
		figure(w, name+"-p99", p.p99(), "ms")
	}
	if p.spot.sidecar {
		atMost(w, name+"-cpu-over-bare", percent(median(p.cpu())), "%", 20)
		atMost(w, name+"-p50-over-bare", median(p.added()), "ms", 0.03)
	}
}

// flat prints how much more the most sandboxes cost than the least, for one kind
// of requests. Both are taken as multiples of the floor beside them, in the same
// round.
func (f *findings) flat(w io.Writer, k kind) {
	var least, most *pair
	for _, p := range f.pairs {
		if p.spot.sidecar && p.spot.kind == k {
			if least == nil {
				least = p
			}
			most = p
		}
	}
	name := fmt.Sprintf("devmesh-%s-from-%d-to-%d", k, least.spot.sandboxes, most.spot.sandboxes)
	grown := func(small, large []float64) float64 {
		return percent(median(each(small, func(i int, v float64) float64 { return large[i] / v })))
	}
	atMost(w, name+"-cpu-growth", grown(least.cpu(), most.cpu()), "%", 5)
	atMost(w, name+"-throughput-loss", grown(most.rate(), least.rate()), "%", 5)
	over := func(p *pair) []float64 {
		return each(p.p50, func(i int, v float64) float64 { return v / p.floorP50[i] })
	}
	atMost(w, name+"-p50-growth", grown(over(least), over(most)), "%", 5)
}

func figure(w io.Writer, name string, value float64, unit string) {
	fmt.Fprintf(w, "%s %.4g %s\n", name, value, unit)
}

func atMost(w io.Writer, name string, value float64, unit string, target float64) {
	verdict := "holds"
	if value > target {
		verdict = "short"
	}
	fmt.Fprintf(w, "%s %.3g %s (target at most %g): %s\n", name, value, unit, target, verdict)
}

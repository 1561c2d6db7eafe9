package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"switchyard.dev/tests/figures"
)

// findings are all that was measured.
type findings struct {
	settings settings
	pairs    []*pair
	// weights are what the Envoys hold, and their keepers.
	weights []weight
	boots   []boots
}

// weight is the memory of a place.
type weight struct {
	*place
	envoy memory
	// keeper is what the process that has started the Envoy holds, in bytes.
	keeper float64
}

// boots are how long restarts took, in seconds.
type boots struct {
	sandboxes int
	took      []float64
}

// weigh reads the memory of all places that have an Envoy.
func (f *findings) weigh(ctx context.Context, n *node) error {
	for _, p := range n.places {
		if p.process == nil {
			continue
		}
		m, err := p.memory(ctx)
		if err != nil {
			return err
		}
		keeper, err := resident(p.process.PID())
		if err != nil {
			return err
		}
		f.weights = append(f.weights, weight{p, m, keeper})
	}
	return nil
}

// perRule returns what each sandbox adds to a measure, in KiB: the most of them
// compared with none.
func (f *findings) perRule(sidecar bool, measure func(weight) float64) float64 {
	none, most := 0.0, 0.0
	for _, w := range f.weights {
		switch {
		case w.sandboxes == 0 && w.sidecar == sidecar:
			none = measure(w)
		case w.sidecar == sidecar:
			most = measure(w)
		}
	}
	return (most - none) / 1024 / float64(sizes[len(sizes)-1])
}

func (f *findings) print(w io.Writer) error {
	if err := f.table(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, p := range f.pairs {
		p.figures(w)
	}
	for _, k := range []kind{plain, other, known} {
		f.flat(w, k)
	}
	resident := func(w weight) float64 { return w.envoy.resident }
	figures.AtMost(w, "devmesh-memory-per-rule-resident", f.perRule(true, resident), "KiB", 4)
	figures.AtMost(w, "devmesh-memory-per-rule-allocated", f.perRule(true, func(w weight) float64 { return w.envoy.allocated }), "KiB", 4)
	figures.Print(w, "devmesh-memory-per-rule-keeper", f.perRule(true, func(w weight) float64 { return w.keeper }), "KiB")
	figures.Print(w, "devmesh-memory-per-rule-regex", f.perRule(false, resident), "KiB")
	for _, b := range f.boots {
		name := fmt.Sprintf("devmesh-restart-%d", b.sandboxes)
		figures.AtMost(w, name+"-median", figures.Median(b.took), "s", 1)
		figures.AtMost(w, name+"-worst", slices.Max(b.took), "s", 1)
	}
	return nil
}

// table prints the findings as a table.
func (f *findings) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tsandboxes\trequests\tCPU µs\tover the floor\t(10–90 % of rounds)\tat rest\trequests/s\tp50 ms\tadded\tp99 ms")
	for _, p := range f.pairs {
		cpu, rate := p.medians()
		over := p.cpu()
		fmt.Fprintf(t, "%s\t%d\t%s", p.spot.name, p.spot.sandboxes, p.spot.kind)
		if p.spot.envoy == 0 {
			fmt.Fprint(t, "\t\t\t\t")
		} else {
			fmt.Fprintf(t, "\t%.1f\t%+.1f %%\t%+.1f … %+.1f\t%+.1f %%", cpu, percent(figures.Median(over)),
				percent(figures.Quantile(over, 0.1)), percent(figures.Quantile(over, 0.9)), percent(p.atRest()))
		}
		fmt.Fprintf(t, "\t%.0f", rate)
		if len(p.took) > 0 {
			fmt.Fprintf(t, "\t%.3f\t%+.3f\t%.3f", figures.Median(p.p50), figures.Median(p.added()), p.p99())
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func percent(times float64) float64 { return 100 * (times - 1) }

func (p *pair) medians() (cpu, rate float64) {
	return figures.Median(each(p.floods, func(_ int, v flooded) float64 { return v.cpu })),
		figures.Median(each(p.floods, func(_ int, v flooded) float64 { return v.rate }))
}

func (p *pair) p99() float64 {
	return figures.Millis(p.took, 0.99)
}

// figures prints those of one pair.
func (p *pair) figures(w io.Writer) {
	name := fmt.Sprintf("%s-%s", p.spot.figures, p.spot.kind)
	cpu, rate := p.medians()
	if p.spot.envoy != 0 {
		figures.Print(w, name+"-cpu", cpu, "us-per-request")
	}
	figures.Print(w, name+"-throughput", rate, "requests-per-s")
	if len(p.took) > 0 {
		figures.Print(w, name+"-p50", figures.Median(p.p50), "ms")
		figures.Print(w, name+"-p99", p.p99(), "ms")
	}
	if p.spot.process == p.floor.process {
		// How far the floor is from itself is how far to trust all of this.
		figures.Print(w, name+"-cpu-beside-itself", percent(figures.Median(p.cpu())), "%")
		figures.Print(w, name+"-p50-beside-itself", figures.Median(p.added()), "ms")
	}
	if p.spot.sidecar {
		figures.AtMost(w, name+"-cpu-over-bare", percent(figures.Median(p.cpu())), "%", 20)
		figures.AtMost(w, name+"-p50-over-bare", figures.Median(p.added()), "ms", 0.03)
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
		return percent(figures.Median(each(small, func(i int, v float64) float64 { return large[i] / v })))
	}
	figures.AtMost(w, name+"-cpu-growth", grown(least.cpu(), most.cpu()), "%", 5)
	figures.AtMost(w, name+"-throughput-loss", grown(most.rate(), least.rate()), "%", 5)
	if len(least.p50) != len(most.p50) {
		return // one was too slow for it
	}
	over := func(p *pair) []float64 {
		return each(p.p50, func(i int, v float64) float64 { return v / p.floorP50[i] })
	}
	figures.AtMost(w, name+"-p50-growth", grown(over(least), over(most)), "%", 5)
}

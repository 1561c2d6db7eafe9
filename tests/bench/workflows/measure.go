package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"time"

	"switchyard.dev/tests/figures"
)

// measure measures, and prints the figures.
func measure(ctx context.Context, out io.Writer, rounds, resources int) error {
	c, err := open()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\none script at a time, %d times each, in turn\n", rounds)
	all, err := c.turns(ctx, rounds)
	if err != nil {
		return err
	}
	for _, w := range alone {
		fmt.Fprintf(out, "  %-9s median %5.0f ms, a quarter below %5.0f, a quarter above %5.0f\n", w,
			figures.Millis(all[w].times, 0.5), figures.Millis(all[w].times, 0.25), figures.Millis(all[w].times, 0.75))
		table(out, all[w].writes, rounds)
	}
	fmt.Fprintf(out, "\n%d resources of three units at once\n", resources)
	many, err := c.crowd(ctx, out, resources)
	if err != nil {
		return err
	}
	table(out, many.writes, 3*resources)
	fmt.Fprintln(out)
	if err := script(out); err != nil {
		return err
	}
	report(out, all, rounds)
	figures.Print(out, "resources-all-ready", many.ready.Seconds(), "s")
	figures.Print(out, "resources-units-per-second", float64(2*resources)/many.ready.Seconds(), "/s")
	figures.Print(out, "resources-all-gone", many.gone.Seconds(), "s")
	figures.Print(out, "resources-pods-running-at-most", float64(many.running), "pods")
	figures.Print(out, "resources-pods-waiting-at-most", float64(many.waiting), "pods")
	figures.Print(out, "resources-writes-per-unit", total(many.writes)/float64(3*resources), "writes")
	figures.Print(out, "resources-writes-per-unit-beside-the-node", besideNode(many.writes)/float64(3*resources), "writes")
	figures.Print(out, "manager-memory-at-most", many.manager, "MiB")
	figures.Print(out, "io-context-server-memory-at-most", many.server, "MiB")
	return nil
}

// report prints the figures of scripts that ran alone.
func report(out io.Writer, all map[way]*took, rounds int) {
	median := func(w way) float64 { return figures.Millis(all[w].times, 0.5) }
	for _, w := range alone {
		figures.Print(out, string(w)+"-median", median(w), "ms")
	}
	for _, w := range alone {
		figures.Print(out, string(w)+"-writes", total(all[w].writes)/float64(rounds), "writes")
		figures.Print(out, string(w)+"-writes-beside-the-node", besideNode(all[w].writes)/float64(rounds), "writes")
	}
	figures.Print(out, "unit-beside-a-job", median(unit)/median(job), "times")
	figures.AtMost(out, "unit-beside-a-job-with-sidecar", median(unit)/median(sidecar), "times", 1.2)
	figures.AtMost(out, "unit-beside-argo-workflows", median(unit)/median(workflow), "times", 0.7)
}

// script prints what the script itself takes on this machine.
func script(out io.Writer) error {
	var times []time.Duration
	for range 50 {
		begun := time.Now()
		if err := exec.Command("sh", "-c", "exit 0").Run(); err != nil {
			return err
		}
		times = append(times, time.Since(begun))
	}
	figures.Print(out, "script-median", figures.Millis(times, 0.5), "ms")
	return nil
}

// table prints the writes for each of n, most frequent first.
func table(out io.Writer, writes tally, n int) {
	for _, what := range slices.SortedFunc(maps.Keys(writes), func(a, b string) int {
		return cmp.Or(cmp.Compare(writes[b], writes[a]), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(out, "    %5.2f %s\n", writes[what]/float64(n), what)
	}
}

// total returns how many writes there are.
func total(t tally) (sum float64) {
	for _, n := range t {
		sum += n
	}
	return sum
}

// node are the writes of the kubelet and the scheduler for any pod, and events.
var node = []string{"patch pods/status", "create pods/binding", "create events", "patch events"}

// besideNode returns how many writes there are but for those.
func besideNode(t tally) float64 {
	sum := total(t)
	for _, what := range node {
		sum -= t[what]
	}
	return sum
}

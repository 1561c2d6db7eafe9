package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"switchyard.dev/tests/figures"
)

// silent is how many connections of each kind are silent at once: five times as
// many in all.
const silent = 100

// Pods is how many pods a cluster needs for Measure.
const Pods = honestPods + atOnce

// Measure attacks a target with n requests of all kinds, and then with silence, and prints the
// cost: as a table, and a line for each figure.
func Measure(ctx context.Context, w io.Writer, n int) (err error) {
	c, err := StartCluster(ctx, Pods)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	floods := append(append(Refused(), Held()...), Floods()...)
	all := Cost{Name: "all", Slowest: 0}
	var costs []Cost
	for i, a := range append(floods, Silence()) {
		requests := n / len(floods)
		if i == len(floods) {
			requests = min(requests, silent)
		}
		cost, err := alone(ctx, c, a, requests)
		if err != nil {
			return err
		}
		costs = append(costs, cost)
		all.Requests += cost.Requests
		all.Most, all.Within, all.Slowest = max(all.Most, cost.Most), max(all.Within, cost.Within), max(all.Slowest, cost.Slowest)
	}
	printCosts(w, costs)
	fmt.Fprintf(w, "hostile-requests %d requests\n", all.Requests)
	figures.AtMost(w, "hostile-memory", all.Most, "MiB", MostMiB)
	figures.AtMost(w, "hostile-freed", all.Within.Seconds(), "s", FreedWithin.Seconds())
	figures.Print(w, "hostile-slowest-change-to-the-honest", all.Slowest.Seconds()*1e3, "ms")
	return rejected(ctx, w, c)
}

// alone runs one attack on a separate target.
func alone(ctx context.Context, c *Cluster, a Attack, n int) (cost Cost, err error) {
	site, err := Open(ctx, c)
	if err != nil {
		return cost, err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	return site.Suffer(ctx, a.Name, n, a)
}

func rejected(ctx context.Context, w io.Writer, c *Cluster) (err error) {
	site, err := Open(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.Close()) }()
	for i, form := range []Form{Whole, InParts} {
		r, err := site.RejectEverything(ctx, i, form, 100, 0)
		if err != nil {
			return err
		}
		figures.AtMost(w, []string{"hostile-rejected-whole", "hostile-rejected-parts"}[i], float64(r.Responses)/float64(r.Versions), "responses-per-version", 1)
	}
	return nil
}

func printCosts(w io.Writer, costs []Cost) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "attack\trequests\tmore memory\tkept\tafter\tlasted\tslowest of honest changes\t")
	for _, c := range costs {
		fmt.Fprintf(t, "%s\t%d\t%.1f MiB\t%.1f MiB\t%s\t%s\t%s of %d\t\n", c.Name, c.Requests, c.Most, c.Kept,
			c.Within.Round(time.Millisecond), c.Lasted.Round(time.Millisecond), c.Slowest.Round(time.Millisecond), c.Changes)
	}
	_ = t.Flush() // it writes to the standard output
	fmt.Fprintln(w)
}

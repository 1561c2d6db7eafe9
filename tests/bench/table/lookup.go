package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"switchyard.dev/routeserver/table"
)

// lookups measures the lookup of every rule of tables of growing size, in an
// order that has nothing to do with their place in memory.
func lookups(w io.Writer) {
	var first, last float64
	for _, rules := range []int{10, 100, 1_000, 10_000, 100_000} {
		c := ordinary(rules)
		t := table.Table{}.Apply(c.facts()...)
		plain := make(map[identity]*table.Rule)
		for r := range t.All() {
			plain[identity{r.Baseline, r.RoutingKey}] = r
		}
		q := newRequests(c, t.Len())
		last = q.measure(func(id *identity) bool { _, ok := t.Lookup(id.baseline, id.key); return ok })
		beside := q.measure(func(id *identity) bool { return plain[*id] != nil })
		if first == 0 {
			first = last
		}
		report(w, fmt.Sprintf("lookup-%d", rules), last, "ns", 100, beside)
		if rules == 100_000 {
			unknown := q.measure(func(id *identity) bool { _, ok := t.Lookup(id.baseline, "unknown"); return !ok })
			beside := q.measure(func(id *identity) bool { return plain[identity{id.baseline, "unknown"}] == nil })
			report(w, "lookup-of-an-unknown-key-100000", unknown, "ns", 100, beside)
			q.allocations(w, t)
		}
	}
	report(w, "lookup-growth-10-to-100000", last/first, "times", 4, 0)
}

// requests generates lookups of the rules of a cluster. A batch of them is generated at a time,
// outside the measurement, without data of the table: the names in a request were just read from
// its headers and are in the cache, and the table is not.
type requests struct {
	cluster cluster
	order   []int32
	next    int
	batch   []identity
}

const batch = 256

func newRequests(c cluster, rules int) *requests {
	q := &requests{cluster: c, batch: make([]identity, batch)}
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(rules) {
		q.order = append(q.order, int32(i))
	}
	return q
}

// fill makes the next batch. Its texts lie one after the other.
func (q *requests) fill() {
	var text []byte
	var ends [batch][2]int
	for i := range q.batch {
		rule := int(q.order[q.next%len(q.order)])
		q.next++
		text = append(text, "Deploymentshop"...)
		text = q.cluster.appendBaseline(text, rule)
		ends[i][0] = len(text)
		text = q.cluster.appendKey(text, rule)
		ends[i][1] = len(text)
	}
	all, begin := string(text), 0
	for i, end := range ends {
		w := all[begin:end[0]]
		q.batch[i] = identity{table.Workload{Kind: w[:10], Namespace: w[10:14], Name: w[14:]}, all[end[0]:end[1]]}
		begin = end[1]
	}
}

// measure returns the nanoseconds of one lookup: the best of many runs, since this
// machine does other work too. It panics when a rule is not found: then there is
// nothing to measure.
func (q *requests) measure(lookup func(*identity) bool) float64 {
	const runs, batches = 40, 100
	best := 0.0
	for range runs {
		var took time.Duration
		for range batches {
			q.fill()
			start := time.Now()
			found := 0
			for i := range q.batch {
				if lookup(&q.batch[i]) {
					found++
				}
			}
			took += time.Since(start)
			if found != batch {
				panic("a rule is not found")
			}
		}
		if ns := float64(took.Nanoseconds()) / (batches * batch); best == 0 || ns < best {
			best = ns
		}
	}
	return best
}

func (q *requests) allocations(w io.Writer, t table.Table) {
	q.fill()
	i := 0
	report(w, "lookup-allocations", testing.AllocsPerRun(1000, func() {
		id := &q.batch[i%batch]
		t.Lookup(id.baseline, id.key)
		i++
	}), "per-lookup", 0, 0)
}

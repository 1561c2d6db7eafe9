package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"time"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/tests/bench/frame"
)

// spent returns what one of n runs of f costs in processor time, all threads of the
// process with the collection of garbage included: the smallest of five such
// measurements. Other work on the machine counts only as far as it empties the
// caches; on a quiet one the clock shows the same or less.
func spent(n int, f func(i int)) time.Duration {
	var best time.Duration
	for range 5 {
		start := processor()
		for i := range n {
			f(i)
		}
		if took := (processor() - start) / time.Duration(n); best == 0 || took < best {
			best = took
		}
	}
	return best
}

func processor() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it has no way to fail
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// changes measures one fact folded into a table, and the difference it makes.
func changes(w io.Writer, name string, c cluster, target float64) {
	facts := c.facts()
	t := table.Table{}.Apply(facts...)
	seq, n := t.Pos().Seq, c.sandboxes()
	next := func(i int) event.Recorded {
		seq++
		return event.Recorded{
			Pos:  event.Pos{Epoch: "bench", Seq: seq},
			Fact: event.Fact{Data: c.observed(i*7919%n, i/n%2 == 1)},
		}
	}
	const runs = 3000
	stating := spent(runs, func(i int) { next(i) })
	apply := spent(runs, func(i int) { t = t.Apply(next(i)) })
	both := spent(runs, func(i int) {
		newer := t.Apply(next(i))
		table.Diff(t, newer)
		t = newer
	})
	plain := naiveOf(facts)
	copying := spent(20, func(i int) { plain = plain.changed(sandboxKey(i%n), c.observed(i%n, false)) })
	micros := func(took time.Duration) float64 { return float64((took - stating).Nanoseconds()) / 1e3 }
	report(w, "change-"+name, micros(apply), "us", target, micros(copying))
	report(w, "change-and-diff-"+name, micros(both), "us", target, micros(copying))
}

// coldStart folds 100,000 facts in batches as a follower of the log gets them.
func coldStart(w io.Writer) {
	facts := ordinary(95_000).facts()[:100_000]
	var t table.Table
	wall := time.Hour
	took := spent(1, func(int) {
		start := time.Now()
		t = table.Table{}
		for batch := range slices.Chunk(facts, 2000) {
			t = t.Apply(batch...)
		}
		wall = min(wall, time.Since(start))
	})
	plain := spent(1, func(int) { naiveOf(facts) })
	name := fmt.Sprintf("cold-start-100000-facts-%d-rules", t.Len())
	report(w, name, wall.Seconds(), "s", 2, 0)
	report(w, name+"-processor-time", took.Seconds(), "s", 2, plain.Seconds())
}

// size measures the heap of a table alone, after its facts are released. The naive form keeps its
// facts.
func size(w io.Writer) {
	before := frame.Heap()
	t := table.Table{}.Apply(ordinary(100_000).facts()...)
	after := frame.Heap()
	n := naiveOf(ordinary(100_000).facts())
	beside := frame.Heap()
	report(w, "bytes-per-rule", float64(after-before)/float64(t.Len()), "B", 400, float64(beside-after)/float64(len(n.rules)))
	runtime.KeepAlive(t)
	runtime.KeepAlive(n)
}

// memory measures the cost of one step to a random place in a stretch of memory, on this machine
// and now: it explains slow lookups.
func memory(w io.Writer) {
	for _, megabytes := range []int{1, 4, 16, 64} {
		lines := make([]struct {
			next int
			_    [56]byte
		}, megabytes<<20/64)
		order := rand.New(rand.NewPCG(1, 1)).Perm(len(lines))
		for i, at := range order {
			lines[at].next = order[(i+1)%len(order)]
		}
		at, best := 0, 0.0
		for range 20 {
			const steps = 50_000
			start := time.Now()
			for range steps {
				at = lines[at].next
			}
			if ns := float64(time.Since(start).Nanoseconds()) / steps; best == 0 || ns < best {
				best = ns
			}
		}
		fmt.Fprintf(w, "memory-step-within-%d-MB %.4g ns (at line %d)\n", megabytes, best, at)
	}
}

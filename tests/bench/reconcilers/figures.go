package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"switchyard.dev/tests/figures"
)

// churned is the result of the time in which the cluster changed.
type churned struct {
	objects       int
	before, after Standing
	lasted        time.Duration
	// managers and all are how many processors the manager and all processes kept busy.
	managers, all float64
	// toAgree is from the last change of a user until all agreed, lastChange from
	// the last change of all.
	toAgree, lastChange time.Duration
}

// tallied is the sum of the requests.
type tallied struct {
	writes, own, reads, lists int
	of                        map[Asked]int
}

// since adds up what the manager has asked since an earlier standing.
func (s Standing) since(before Standing) tallied {
	t := tallied{of: map[Asked]int{}}
	for a, n := range s.Asked {
		if n -= before.Asked[a]; n == 0 {
			continue
		}
		t.of[a] = n
		switch {
		case a.writes() && a.own():
			t.own += n
		case a.writes():
			t.writes += n
		case a.Verb == "list":
			t.lists += n
		case a.Verb == "get":
			t.reads += n
		}
	}
	return t
}

// report prints the result of the time in which the cluster changed.
func (m *measurement) report(c churned) error {
	t := c.after.since(c.before)
	changes := m.play.Total()
	m.count("there-are", c.objects, "objects")
	m.count("made", changes, "changes")
	m.print("changes-per-second", float64(changes)/min(c.lasted.Seconds(), m.load.lasting.Seconds()), "/s")
	for _, kind := range slices.Sorted(maps.Keys(m.play.Made)) {
		fmt.Fprintf(m.out, "  %-28s %d\n", kind, m.play.Made[kind])
	}
	figures.AtMost(m.out, "converged-after-the-last-change", c.lastChange.Seconds(), "s", 10)
	figures.AtMost(m.out, "converged-after-the-last-user", c.toAgree.Seconds(), "s", 10)
	now, most, err := m.rig.manager.Memory()
	if err != nil {
		return err
	}
	figures.AtMost(m.out, "memory-at-most", most, "MiB", 300)
	m.print("memory-now", now, "MiB")
	m.print("heap-in-use", c.after.Heap, "MiB")
	figures.AtMost(m.out, "writes-per-change", float64(t.writes+t.own)/float64(changes), "writes", 1.2)
	m.print("writes-per-least-possible", float64(t.writes)/float64(max(1, m.play.Least)), "writes")
	m.count("written", t.writes, "writes")
	m.count("written-of-its-own-books", t.own, "writes")
	m.count("read-past-the-cache", t.reads, "objects")
	m.count("listed-past-the-cache", t.lists, "lists")
	m.table(t.of)
	for _, name := range slices.Sorted(maps.Keys(c.after.Reconciled)) {
		m.count("looked-"+name, c.after.Reconciled[name]-c.before.Reconciled[name], "times")
	}
	m.print("processors-of-the-manager", c.managers, "busy")
	m.print("processors-of-all", c.all, "busy")
	return nil
}

// reportResync prints what a manager asked that was started in a cluster where
// nothing changes.
func (m *measurement) reportResync(s Standing) error {
	t := s.since(Standing{})
	figures.Text(m.out, "writes-in-a-resync", t.writes, "writes", "0", t.writes == 0)
	m.count("writes-of-its-own-books-in-a-resync", t.own, "writes")
	most := 0
	for a, n := range t.of {
		if a.Verb == "list" {
			most = max(most, n)
		}
	}
	figures.Text(m.out, "lists-of-a-kind-at-start", most, "lists", "at most 1", most <= 1)
	m.table(t.of)
	now, peak, err := m.rig.manager.Memory()
	if err != nil {
		return err
	}
	m.print("memory-after-start", now, "MiB")
	m.print("memory-at-most-at-start", peak, "MiB")
	return nil
}

// reportKind prints what changes of one kind cost.
func (m *measurement) reportKind(kind string, t tallied) {
	begun := float64(max(1, m.play.Begun[kind]))
	fmt.Fprintf(m.out, "writes-for %-26s %5.1f each, at least %.1f; of its own books %.1f\n",
		kind, float64(t.writes)/begun, float64(m.play.Least)/begun, float64(t.own)/begun)
	for a := range t.of {
		if !a.writes() {
			delete(t.of, a)
		}
	}
	m.table(t.of)
}

// count prints how many there are of something.
func (m *measurement) count(name string, n int, unit string) {
	fmt.Fprintf(m.out, "%s %d %s\n", name, n, unit)
}

// print prints a number without a target.
func (m *measurement) print(name string, value float64, unit string) {
	figures.Print(m.out, name, value, unit)
}

// table prints the requests by kind, most frequent first.
func (m *measurement) table(of map[Asked]int) {
	kinds := slices.SortedFunc(maps.Keys(of), func(a, b Asked) int {
		return cmp.Or(cmp.Compare(of[b], of[a]), strings.Compare(a.Verb+a.Resource, b.Verb+b.Resource))
	})
	for _, a := range kinds {
		fmt.Fprintf(m.out, "  %-7s %-36s %d\n", a.Verb, a.Resource, of[a])
	}
}

package record_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/record"
)

func TestSamplesAreOfTracesAndOfTheirSize(t *testing.T) {
	n, both := 0, 0
	for i := range 20000 {
		trace := fmt.Sprintf("%032x", i)
		is := record.Sampled(trace, 0.3)
		if is != record.Sampled(trace, 0.3) || is && !record.Sampled(trace, 0.5) {
			t.Fatalf("trace %s is in the sample of 0.3 once, or not in that of 0.5", trace)
		}
		if is {
			n++
		}
		if record.Sampled(trace, 0) || !record.Sampled(trace, 1) {
			both++
		}
	}
	if n < 5700 || n > 6300 || both > 0 { // more than four standard deviations
		t.Errorf("%d of 20000 are in a sample of 0.3", n)
	}
}

func TestACaptureOfTracesRecordsThemAlone(t *testing.T) {
	c := &trafficv1.Capture{Traces: "0123456789abcdef"} // sample is 0: containers that do not know traces record nothing
	for trace, want := range map[string]bool{"0123456789abcdef0000000000000001": true, "0123456789abcdee0000000000000001": false, "": false} {
		if record.Selects(c, trace) != want {
			t.Errorf("trace %q: %t", trace, !want)
		}
	}
}

func TestKeysOfCaptures(t *testing.T) {
	only, except := &trafficv1.Capture{RoutingKeys: []string{"a", "b"}}, &trafficv1.Override{ExceptRoutingKeys: []string{"a"}}
	for key, want := range map[string][2]bool{"a": {true, false}, "b": {true, true}, "c": {false, true}, "": {false, true}} {
		if got := [2]bool{record.Keyed(only, key), record.Keyed(except, key)}; got != want {
			t.Errorf("key %q: %v", key, got)
		}
	}
}

func TestATraceComesFromTheHeaderOrIsOwn(t *testing.T) {
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for _, c := range []struct{ header, trace, parent string }{
		{"00-" + trace + "-" + parent + "-01", trace, parent},
		{" 00-0AF7651916CD43DD8448EB211C80319C-" + parent + "-01-later", trace, parent},
		{"", "own", ""}, {"00-" + trace + "-" + parent, "own", ""}, {"ff-" + trace + "-" + parent + "-01", "own", ""},
		{"00-00000000000000000000000000000000-" + parent + "-01", "own", ""}, {"00-" + trace + "-0000000000000000-01", "own", ""},
		{"00-" + trace[1:] + "x-" + parent + "-01", "own", ""},
	} {
		if got, from := record.Trace(c.header, "own"); got != c.trace || from != c.parent {
			t.Errorf("%q: %s, %s", c.header, got, from)
		}
	}
}

func TestBytesInFlightAreBoundedForAllCaptures(t *testing.T) {
	b, one, two := record.New(100), &trafficv1.Capture{Uid: "1", Sample: 1}, &trafficv1.Capture{Uid: "2", Sample: 1}
	begin := func(c *trafficv1.Capture, bytes int64) *record.Entry {
		b.Seen(c)
		return b.Begin(c, "t", bytes)
	}
	first := begin(one, 60)
	if begin(two, 41) != nil {
		t.Error("101 bytes are in flight")
	}
	second := begin(two, 20)
	if !second.Grow(20) || first.Grow(1) {
		t.Error("the exchanges have not 100 bytes together")
	}
	if !second.Grow(60) || second.Grow(1) || second.Finish() != 0 {
		t.Error("what the lost exchange had is not free, or a lost one has a number")
	}
	third := begin(two, 100)
	if third == nil || third.Finish() != 1 || third.Finish() != 1 || b.Forget("2") {
		t.Error("an exchange in flight has no number, or its capture can be forgotten")
	}
	third.Delivered()
	third.Lost("late")
	third.Delivered()
	got := b.Counts()
	if len(got) != 2 || got[1].Seen != 3 || got[1].Delivered != 1 || got[1].Lost[record.Budget] != 2 || len(got[1].Lost) != 1 {
		t.Errorf("the counters are %v", got)
	}
	if !b.Forget("2") || len(b.Counts("1", "2")) != 1 {
		t.Error("the capture is not forgotten")
	}
}

func TestSetsOfNumbersAgreeWithTheDumbVersion(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a seed
		var set []*trafficv1.Span
		dumb := map[uint64]bool{}
		for range 60 {
			first := 1 + random.Uint64N(60)
			last := first + random.Uint64N(1+random.Uint64N(8))
			want := false
			for n := first; n <= last; n++ {
				want = want || !dumb[n]
				dumb[n] = true
			}
			var added bool
			if set, added = record.Add(set, first, last); added != want {
				t.Fatalf("seed %d: %d to %d is new: %t", seed, first, last, added)
			}
			for i, s := range set {
				if s.First > s.Last || i > 0 && set[i-1].Last+1 >= s.First {
					t.Fatalf("seed %d: %v", seed, set)
				}
			}
			if record.Size(set) != uint64(len(dumb)) {
				t.Fatalf("seed %d: %v has not %d numbers", seed, set, len(dumb))
			}
		}
	}
}

// exchange is the fate of one exchange, as only the test knows it.
type exchange struct {
	entry    *record.Entry
	of       *container
	number   uint64
	fate     string // sampled, lost, flight
	replicas map[*replica]bool
	acked    bool
}

type container struct {
	name  string
	books *record.Books
	alive bool
	at    *replica
}

// replica is a traffic-manager: the newest report of each container, and the stored exchanges.
type replica struct {
	pods    map[string]*trafficv1.PodCounts
	order   []*exchange
	evicted uint64
	deleted bool
}

// sim is a world of containers and replicas.
type sim struct {
	*rand.Rand
	capture    *trafficv1.Capture
	containers []*container
	replicas   []*replica
	exchanges  []*exchange
}

func (s *sim) report(c *container) {
	n := s.pod(c)
	for _, counts := range c.books.Counts() {
		n.Seen, n.SampledOut, n.Delivered, n.Lost = counts.Seen, counts.SampledOut, counts.Delivered, maps.Clone(counts.Lost)
	}
}

func (s *sim) pod(c *container) *trafficv1.PodCounts {
	if c.at.pods[c.name] == nil {
		c.at.pods[c.name] = &trafficv1.PodCounts{Pod: "pod", Incarnation: c.name}
	}
	return c.at.pods[c.name]
}

func (s *sim) living() *container {
	var some []*container
	for _, c := range s.containers {
		if c.alive {
			some = append(some, c)
		}
	}
	if len(some) == 0 || len(s.containers) < 2 {
		c := &container{name: fmt.Sprint(len(s.containers)), books: record.New(40), alive: true, at: s.replica()}
		s.containers = append(s.containers, c)
		return c
	}
	return some[s.IntN(len(some))]
}

func (s *sim) replica() *replica { return s.replicas[s.IntN(len(s.replicas))] }

func (s *sim) step() {
	c := s.living()
	var flight []*exchange
	for _, e := range s.exchanges {
		if e.of == c && e.fate == "flight" {
			flight = append(flight, e)
		}
	}
	switch n := s.IntN(100); {
	case n < 40:
		e := &exchange{of: c, fate: "flight", replicas: map[*replica]bool{}}
		trace := fmt.Sprint(s.Uint64())
		c.books.Seen(s.capture)
		if e.entry = c.books.Begin(s.capture, trace, int64(s.IntN(8))); e.entry == nil {
			e.fate = "lost"
			if !record.Sampled(trace, s.capture.Sample) {
				e.fate = "sampled"
			}
		}
		s.exchanges = append(s.exchanges, e)
	case n < 80 && len(flight) > 0:
		s.deliver(flight[s.IntN(len(flight))])
	case n < 85:
		c.at = s.replica()
	case n < 90:
		s.report(c)
	case n < 92: // the last report is as new as the kill
		s.report(c)
		c.alive = false
	case n < 93:
		s.replace(s.IntN(len(s.replicas)))
	case n < 97:
		if r := c.at; len(r.order) > 0 {
			r.order, r.evicted = r.order[1:], r.evicted+1
		}
	}
}

// replace deletes a replica. Its containers report to another one; the last report of one that was killed is on disk nowhere
// else, so that replica stays.
func (s *sim) replace(i int) {
	old := s.replicas[i]
	if slices.ContainsFunc(s.containers, func(c *container) bool { return !c.alive && c.at == old }) {
		return
	}
	old.deleted, s.replicas[i] = true, &replica{pods: map[string]*trafficv1.PodCounts{}}
	for _, c := range s.containers {
		if c.at == old {
			c.at = s.replica()
			s.report(c)
		}
	}
}

func (s *sim) deliver(e *exchange) {
	c := e.of
	if e.number == 0 {
		if !e.entry.Grow(int64(s.IntN(8))) {
			e.fate = "lost"
			return
		}
		e.number = e.entry.Finish()
	}
	p, fresh := s.pod(c), false
	if p.Numbers, fresh = record.Add(p.Numbers, e.number, e.number); fresh {
		c.at.order = append(c.at.order, e)
	}
	s.report(c)
	e.replicas[c.at] = true
	if s.IntN(4) > 0 { // else the answer is lost, and it is delivered again, anywhere
		e.entry.Delivered()
		e.fate, e.acked = "delivered", true
	}
}

// The identity holds for what the test knows of each exchange, however containers and replicas terminate.
func TestTheIdentityHolds(t *testing.T) {
	for seed := range uint64(200) {
		s := &sim{Rand: rand.New(rand.NewPCG(seed, 7)), capture: &trafficv1.Capture{Uid: "c", Sample: 0.8}} //nolint:gosec // a seed
		for range 2 {
			s.replicas = append(s.replicas, &replica{pods: map[string]*trafficv1.PodCounts{}})
		}
		for range 400 {
			s.step()
		}
		s.check(t, seed)
	}
}

func (s *sim) check(t *testing.T, seed uint64) {
	t.Helper()
	var reports []*trafficv1.Counts
	var evicted uint64
	for _, c := range s.containers {
		if c.alive {
			s.report(c)
			s.pod(c).Attached = true
		}
	}
	for _, r := range s.replicas {
		evicted += r.evicted
		one := &trafficv1.Counts{Evicted: r.evicted, Pods: slices.Collect(maps.Values(r.pods))}
		reports = append(reports, one)
	}
	want := map[string]uint64{}
	for _, e := range s.exchanges {
		stored := false
		for r := range e.replicas {
			stored = stored || !r.deleted
		}
		switch {
		case e.fate == "lost", e.fate == "sampled":
			want[e.fate]++
		case stored:
			want["stored"]++
		case e.acked, !e.of.alive:
			want["restart"]++
		default:
			want["pending"]++
		}
	}
	got := record.Merge(reports...)
	if again := record.Merge(got); again.Seen != got.Seen || again.Lost[record.Restart] != got.Lost[record.Restart] {
		t.Errorf("seed %d: merged twice: %v, once: %v", seed, again, got)
	}
	sum := got.Stored + got.SampledOut + got.Evicted + got.Pending
	for _, n := range got.Lost {
		sum += n
	}
	if got.Seen != sum || got.Seen != uint64(len(s.exchanges)) {
		t.Errorf("seed %d: seen %d, in all %d, the application %d", seed, got.Seen, sum, len(s.exchanges))
	}
	// An exchange that is stored but not acknowledged can make another one pending that is lost.
	if got.SampledOut != want["sampled"] || got.Lost[record.Budget] != want["lost"] || got.Stored+got.Evicted != want["stored"] ||
		got.Lost[record.Restart]+got.Pending != want["restart"]+want["pending"] {
		t.Errorf("seed %d: %v, want %v", seed, got, want)
	}
}

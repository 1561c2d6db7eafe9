package manager

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/record"
	"switchyard.dev/sidecars/traffic/ring"
)

// Bounds of what containers report, and how long it counts.
const (
	// grace is how long a pod can deliver for a capture after it was detached.
	grace = time.Minute
	// closing is how long followers of a capture wait for late exchanges after it has ended, and keep how long its counts
	// and exchanges can be read after its object was deleted.
	closing = 5 * time.Second
	keep    = 10 * time.Minute

	maxSources = 1024
	maxSpans   = 4096
	maxReasons = 16
	maxName    = 64
	maxNumber  = 1 << 62
)

// source is one incarnation of the traffic container of a pod.
type source struct{ pod, uid, incarnation string }

func (s source) String() string { return s.pod + "/" + s.uid + "/" + s.incarnation }

func sourceOf(text string) source {
	parts := append(strings.SplitN(text, "/", 3), "", "", "")
	return source{parts[0], parts[1], parts[2]}
}

// capture has the reports of a capture's sources, the pods that it is or was attached to, with the last
// time, and since when it has ended or its object does not exist.
type capture struct {
	uid, namespace, name string
	sources              map[source]*trafficv1.PodCounts
	granted              map[string]time.Time
	ended, deleted       time.Time
}

// attachment is a stream of a pod, with its last state.
type attachment struct {
	// replaced is closed when the pod has opened a newer stream.
	replaced chan struct{}
	state
}

// state is what a pod has reported: the captures that it has applied, and what keeps all of them from being applied.
type state struct {
	source  source
	applied []string
	problem string
	// unknown are the captures that the container does not know. problems are those of single captures, by UID.
	unknown  map[string]bool
	problems map[string]string
}

// books are those of all captures. They are safe for concurrent use.
type books struct {
	clock func() time.Time

	saving   sync.Mutex // one file at a time
	mu       sync.Mutex
	captures map[string]*capture
	// attached has the newest stream of each pod, by UID.
	attached map[string]*attachment
	dirty    bool
}

func newBooks(clock func() time.Time) *books {
	return &books{clock: clock, captures: map[string]*capture{}, attached: map[string]*attachment{}}
}

// grant records the captures that a pod is attached to now; without a pod, captures that exist. It reports whether one of them is new.
func (b *books) grant(pod string, all ...*trafficv1.Capture) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range all {
		of := b.captures[c.GetUid()]
		if of == nil {
			of = newCapture(c.GetUid(), c.GetNamespace(), c.GetName())
			b.captures[of.uid], b.dirty, first = of, true, true
		}
		if pod != "" {
			of.granted[pod] = b.clock()
		}
	}
	return first
}

func newCapture(uid, namespace, name string) *capture {
	return &capture{uid: uid, namespace: namespace, name: name, sources: map[source]*trafficv1.PodCounts{}, granted: map[string]time.Time{}}
}

// of returns the counts of a source that can report and deliver for a capture now; nil: it cannot. b.mu is held.
func (b *books) of(uid string, s source) *trafficv1.PodCounts {
	c := b.captures[uid]
	if c == nil || b.clock().Sub(c.granted[s.uid]) > grace {
		return nil
	}
	return c.source(s)
}

func (c *capture) source(s source) *trafficv1.PodCounts {
	if c.sources[s] == nil {
		if len(c.sources) >= maxSources || len(s.incarnation) > maxName || s.incarnation == "" {
			return nil
		}
		c.sources[s] = &trafficv1.PodCounts{Pod: s.pod, PodUid: s.uid, Incarnation: s.incarnation, Lost: map[string]uint64{}}
	}
	return c.sources[s]
}

// report takes the counters of a source, which grow.
func (b *books) report(s source, all []*trafficv1.CaptureCounts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, counts := range all {
		p := b.of(counts.GetCaptureUid(), s)
		if p == nil {
			continue
		}
		p.Seen, p.SampledOut, p.Delivered = max(p.Seen, counts.GetSeen()), max(p.SampledOut, counts.GetSampledOut()), max(p.Delivered, counts.GetDelivered())
		for reason, n := range counts.GetLost() {
			if _, known := p.Lost[reason]; known || len(p.Lost) < maxReasons && len(reason) <= maxName {
				p.Lost[reason] = max(p.Lost[reason], n)
			}
		}
		b.dirty = true
	}
}

// attach records the state of a pod's stream, and its source in its captures.
func (b *books) attach(a *attachment, s state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.state = s
	for _, uid := range slices.AppendSeq(slices.AppendSeq(slices.Clone(s.applied), maps.Keys(s.unknown)), maps.Keys(s.problems)) {
		b.of(uid, s.source)
	}
}

// begin makes a stream the newest of a pod, and end ends it.
func (b *books) begin(pod string) *attachment {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.attached[pod]; old != nil {
		close(old.replaced)
	}
	a := &attachment{replaced: make(chan struct{})}
	b.attached[pod] = a
	return a
}

func (b *books) end(pod string, a *attachment) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.attached[pod] == a {
		delete(b.attached, pod)
	}
}

// connected returns how many pods have a stream.
func (b *books) connected() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.attached)
}

// fresh reports whether an exchange can be stored, and whether it is not stored yet.
func (b *books) fresh(uid string, s source, number uint64) (permitted, fresh bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.of(uid, s)
	if p == nil || number < 1 || number > maxNumber || len(p.Numbers) >= maxSpans {
		return false, false
	}
	i, _ := slices.BinarySearchFunc(p.Numbers, number, func(s *trafficv1.Span, n uint64) int { return cmp.Compare(s.GetLast(), n) })
	return true, i == len(p.Numbers) || p.Numbers[i].GetFirst() > number
}

// stored records exchanges that are in the ring.
func (b *books) stored(all ...ring.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range all {
		c := b.captures[one.Capture]
		if c == nil {
			continue // forgotten since then
		}
		if p := c.source(sourceOf(one.Source)); p != nil {
			p.Numbers, _ = record.Add(p.Numbers, one.Number, one.Number)
		}
	}
	b.dirty = true
}

// sync compares with the captures of the cluster, and returns those that were forgotten.
func (b *books) sync(all []crdv1.TrafficCapture) (forgotten []string) {
	exist := map[string]*crdv1.TrafficCapture{}
	for i := range all {
		exist[string(all[i].UID)] = &all[i]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	for uid, c := range b.captures {
		maps.DeleteFunc(c.granted, func(_ string, at time.Time) bool { return now.Sub(at) > grace })
		object := exist[uid]
		if c.ended.IsZero() && (object == nil || ended(object)) {
			c.ended, b.dirty = now, true
		}
		if c.deleted.IsZero() && object == nil {
			c.deleted, b.dirty = now, true
		}
		if !c.deleted.IsZero() && now.Sub(c.deleted) > keep {
			delete(b.captures, uid)
			forgotten, b.dirty = append(forgotten, uid), true
		}
	}
	return forgotten
}

// find returns the UID of the capture with a name, of several that of the last one; "": none is known.
func (b *books) find(namespace, name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var last *capture
	for _, c := range b.captures {
		if c.namespace == namespace && c.name == name && (last == nil || c.deleted.IsZero() || !last.deleted.IsZero() && c.deleted.After(last.deleted)) {
			last = c
		}
	}
	if last == nil {
		return ""
	}
	return last.uid
}

// closed reports whether nothing is expected of a capture any more.
func (b *books) closed(uid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.captures[uid]
	return c == nil || !c.ended.IsZero() && b.clock().Sub(c.ended) > closing
}

// pods returns the reports of a capture, by source.
func (b *books) pods(uid string) (all []*trafficv1.PodCounts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.captures[uid] == nil {
		return nil
	}
	for s, p := range b.captures[uid].sources {
		one := proto.CloneOf(p)
		one.Stored = record.Size(one.Numbers)
		if a := b.attached[s.uid]; a != nil && a.source == s {
			one.Attached, one.Applied, one.Problem = true, a.problem == "" && slices.Contains(a.applied, uid), cmp.Or(a.problem, clip(a.problems[uid]))
			one.Unknown = a.unknown[uid]
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(x, y *trafficv1.PodCounts) int {
		return cmp.Compare(fmt.Sprint(x.Pod, x.Incarnation), fmt.Sprint(y.Pod, y.Incarnation))
	})
	return all
}

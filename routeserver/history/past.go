package history

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/history/fold"
)

// past is the in-memory record of one epoch of the log. It has no lock; the lock of History guards
// it.
type past struct {
	bounds
	epoch string
	// first is the sequence of the first event that the log keeps, as far as is
	// known, and times when each from there on was recorded.
	first uint64
	times []int64
	// completes are the Completes from there on, oldest first.
	completes []complete
	// checkpoints are tables by their place, oldest first. Some are not whole.
	checkpoints []fold.Fold
	places      *places
}

type bounds struct {
	checkpoints, rules, every int
}

type complete struct{ seq, floor uint64 }

func newPast(epoch string, b bounds) *past {
	return &past{bounds: b, epoch: epoch, places: newPlaces()}
}

// tip is the place of the newest event taken, 0 before the first.
func (p *past) tip() uint64 {
	if p.first == 0 {
		return 0
	}
	return p.first + uint64(len(p.times)) - 1
}

// take records events, the last of which produced a Fold.
func (p *past) take(events []event.Recorded, reached fold.Fold) {
	for _, e := range events {
		p.first = cmp.Or(p.first, e.Pos.Seq)
		p.times = append(p.times, e.At.UnixNano())
		p.places.take(e)
		if c, ok := e.Fact.Data.(*factv1.Complete); ok {
			p.completes = append(p.completes, complete{e.Pos.Seq, c.GetFloor()})
		}
	}
	if p.due(events) {
		p.keep(reached)
	}
}

// due reports whether to keep a checkpoint after these events: when the last one is far enough
// away, and at each Complete, since the oldest available version is one.
func (p *past) due(events []event.Recorded) bool {
	if len(events) == 0 {
		return false
	}
	newest := events[len(events)-1]
	_, isComplete := newest.Fact.Data.(*factv1.Complete)
	last := p.first
	if n := len(p.checkpoints); n > 0 {
		last = p.checkpoints[n-1].Mark().Seq
	}
	return isComplete || newest.Pos.Seq >= last+uint64(p.every)
}

// keep adds a checkpoint, and drops others while there are too many or they have
// too many rules.
func (p *past) keep(reached fold.Fold) {
	p.checkpoints = append(p.checkpoints, reached)
	rules := 0
	for _, f := range p.checkpoints {
		rules += f.Table().Len()
	}
	for n := len(p.checkpoints); n > p.bounds.checkpoints || n > 1 && rules > p.bounds.rules; n-- {
		drop := p.leastMissed()
		rules -= p.checkpoints[drop].Table().Len()
		p.checkpoints = slices.Delete(p.checkpoints, drop, drop+1)
	}
}

// leastMissed returns the index of the checkpoint with the smallest distance between its neighbours:
// dropping it keeps the distances about even. It is the newest one only if there is no other,
// because reading continues there.
func (p *past) leastMissed() int {
	at := func(i int) uint64 {
		if i < 0 {
			return p.first
		}
		return p.checkpoints[i].Mark().Seq
	}
	least := 0
	for i := range len(p.checkpoints) - 1 {
		if at(i+1)-at(i-1) < at(least+1)-at(least-1) {
			least = i
		}
	}
	return least
}

// forget drops what lies before the first event that the log keeps.
func (p *past) forget(floor uint64) {
	if p.first == 0 || floor <= p.first {
		return
	}
	gone := min(floor-p.first, uint64(len(p.times)))
	p.times = slices.Clone(p.times[gone:])
	p.first += gone
	p.completes = slices.DeleteFunc(p.completes, func(c complete) bool { return c.seq < floor })
	oldest, _ := p.oldest()
	p.checkpoints = slices.DeleteFunc(p.checkpoints, func(f fold.Fold) bool {
		return f.Mark().Seq < max(floor, oldest)
	})
	p.places.forget(floor)
}

// oldest returns the position of the oldest version for which a reader of the retained log has a
// whole table; false when there is none.
func (p *past) oldest() (uint64, bool) {
	for _, c := range p.completes {
		if fold.Counts(&factv1.Complete{Floor: c.floor}, p.first) {
			return c.seq, true
		}
	}
	return 0, false
}

// nearest returns the newest checkpoint at or below a place, the zero Fold when
// there is none.
func (p *past) nearest(seq uint64) fold.Fold {
	i := sort.Search(len(p.checkpoints), func(i int) bool { return p.checkpoints[i].Mark().Seq > seq })
	if i == 0 {
		return fold.Fold{}
	}
	return p.checkpoints[i-1]
}

// recordedAt returns when the event at a place was recorded; the zero time when
// that is not known.
func (p *past) recordedAt(seq uint64) time.Time {
	if p.first == 0 || seq < p.first || seq > p.tip() {
		return time.Time{}
	}
	return time.Unix(0, p.times[seq-p.first]).UTC()
}

// newestAt returns the place of the newest event that had been recorded at a
// moment, 0 when there is none.
func (p *past) newestAt(t time.Time) uint64 {
	n := sort.Search(len(p.times), func(i int) bool { return p.times[i] > t.UnixNano() })
	if n == 0 {
		return 0
	}
	return p.first + uint64(n) - 1
}

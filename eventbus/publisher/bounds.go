package publisher

import (
	"errors"
	"math"
	"time"

	"switchyard.dev/eventbus"
)

// Bounds limit the history that the log keeps. The oldest events are forgotten first, and only
// as whole ranges between two floors, so it keeps somewhat more: up to a quarter more events,
// or time, and the facts that are stated again at each floor.
type Bounds struct {
	// Events is how many of the newest events are kept, if they are not too old
	// and have room: 100,000 when it is 0.
	Events uint64
	// Age is after how long an event is forgotten; 0: never for its age.
	Age time.Duration
}

// DefaultEvents and DefaultAge bound the history when nothing else is asked for.
const (
	DefaultEvents = 100_000
	DefaultAge    = 7 * 24 * time.Hour
)

// Validate returns an error if the bounds are not valid.
func (b Bounds) Validate() error {
	if b.Age < 0 {
		return errors.New("publisher: the age of history is negative; give 0 to keep events however old they are")
	}
	return nil
}

// doubt is how long a floor has to be found too old, at every look and by a clock that
// only goes forward, before what lies before it is forgotten for its age; a quarter of
// the age where that is less. A clock that jumps ahead and is set right again within that
// time costs no history.
const doubt = 2 * time.Hour

// strides is into how many ranges the promised history is divided by floors. More of them keep
// less beyond the promise, and state every fact again more often.
const strides = 4

// Why a floor is stated.
const (
	floorCount = "count"
	floorAge   = "age"
	floorSize  = "size"
)

// Floor is a Floor that the log keeps.
type Floor struct {
	Seq uint64
	At  time.Time
}

// History is what counts for the bounds of what a log keeps.
type History struct {
	// Kept is the stretch that the log keeps, and how much it is.
	Kept eventbus.Kept
	// Floors are those that it keeps, oldest first.
	Floors []Floor
	// Aged is the floor that every look has found too old since Aged.At (see Aged); the zero
	// Floor when the last look found none.
	Aged Floor
	// Whole is the newest floor that a Complete names; 0 when none does.
	Whole uint64
	// Live is how many facts count: what stating every fact again costs.
	Live uint64
	// Since is when the epoch began.
	Since time.Time
	// Full reports whether the log has refused an event because it is full.
	Full bool
	// Foreign reports whether facts count that this version of the program cannot read,
	// and so cannot state again.
	Foreign bool
}

// Step is the next action to keep a log within its bounds; the zero Step is none. At most one
// field but Reason is set.
type Step struct {
	// Forget is the floor that the log is to begin with.
	Forget uint64
	// Resume is a floor that was stated and is not whole: state the facts before it again, and
	// then Complete.
	Resume uint64
	// Raise asks for a new floor.
	Raise bool
	// Reason is "count", "age" or "size".
	Reason string
}

// Plan returns the next action to keep a log within its bounds. It never forgets promised
// history, unless the log would take half of its room or more.
func Plan(h History, b Bounds, now time.Time) Step {
	if seq, reason := forgettable(h, b, now); seq > 0 {
		return Step{Forget: seq, Reason: reason}
	}
	last := Floor{Seq: 0, At: h.Since}
	if n := len(h.Floors); n > 0 {
		last = h.Floors[n-1]
	}
	events := h.behind(last.Seq)
	switch {
	case h.Foreign:
		return Step{}
	case last.Seq > h.Whole:
		return Step{Resume: last.Seq}
	case events == 0:
		return Step{}
	case h.Full, h.tooLarge(events):
		return Step{Raise: true, Reason: floorSize}
	case events >= max(b.Events/strides, h.Live, 1):
		return Step{Raise: true, Reason: floorCount}
	case b.Age > 0 && now.Sub(last.At) >= b.Age/strides:
		return Step{Raise: true, Reason: floorAge}
	}
	return Step{}
}

// forgettable returns the newest floor before which nothing is promised any more,
// and why; 0 when there is none. A floor will do when it is whole, or one behind
// it is.
func forgettable(h History, b Bounds, now time.Time) (seq uint64, reason string) {
	oldest := uint64(0)
	for i := len(h.Floors) - 1; i >= 0; i-- {
		f := h.Floors[i]
		switch {
		case f.Seq > h.Whole || f.Seq <= h.Kept.Floor.Seq:
			continue
		case h.Full:
			return f.Seq, floorSize
		case h.behind(f.Seq) >= b.Events:
			return f.Seq, floorCount
		case f.Seq <= h.Aged.Seq && now.Sub(h.Aged.At) >= min(doubt, b.Age/strides):
			return f.Seq, floorAge
		}
		oldest = f.Seq
	}
	if h.half() > 0 && h.Kept.Bytes >= h.half() {
		return oldest, floorSize
	}
	return 0, ""
}

// Aged returns the floor that every look up to this one has found too old, and since when:
// was, which is what the look before returned, while that floor still is; otherwise the
// newest that is too old now. It is the zero Floor when none is. now is the time of this
// look by a clock with a monotonic reading, as time.Now gives it.
func Aged(h History, b Bounds, was Floor, now time.Time) Floor {
	for i := len(h.Floors) - 1; i >= 0; i-- {
		f := h.Floors[i]
		if f.Seq > h.Whole || f.Seq <= h.Kept.Floor.Seq || b.Age == 0 || now.Sub(f.At) < b.Age {
			continue
		}
		if was.Seq > h.Kept.Floor.Seq && was.Seq <= f.Seq {
			return was
		}
		return Floor{Seq: f.Seq, At: now}
	}
	return Floor{}
}

// behind counts the events behind a floor, without those that state again what
// was before it, and their Complete.
func (h History) behind(floor uint64) uint64 {
	first := floor + h.Live + 1
	if floor == 0 {
		first = h.Kept.Floor.Seq - min(1, h.Kept.Floor.Seq)
	}
	if h.Kept.Tip.Seq <= first {
		return 0
	}
	return h.Kept.Tip.Seq - first
}

// half is how many bytes the log may take: half of its room, so that every fact
// can be stated again in the other half. 0 when there is no bound.
func (h History) half() uint64 { return h.Kept.MaxBytes / 2 }

// checkAfter returns after how many events the bounds must be checked again: well before a step
// can be due.
func (h History) checkAfter(b Bounds) uint64 {
	after := max(b.Events/strides/4, 1)
	if h.half() > 0 {
		after = min(after, max(1, uint64(float64(h.half())/strides/4/h.size())))
	}
	return after
}

// room is how many more events may come before those that state facts wait: what
// is left then is for a floor, and for stating again all that counts.
func (h History) room() uint64 {
	if h.half() == 0 {
		return math.MaxUint64
	}
	most := h.Kept.MaxBytes / 8 * 7
	return uint64(float64(most-min(h.Kept.Bytes, most)) / h.size())
}

// size is how large an event is: the average, and the largest there may be while
// there is none.
func (h History) size() float64 {
	kept := h.Kept.Tip.Seq + 1 - min(h.Kept.Floor.Seq, h.Kept.Tip.Seq+1)
	if kept == 0 || h.Kept.Bytes == 0 {
		return eventbus.MaxEvent
	}
	return float64(h.Kept.Bytes) / float64(kept)
}

// tooLarge reports whether so many events are too much for one stretch between two
// floors. Their size is taken from that of all.
func (h History) tooLarge(events uint64) bool {
	return h.half() > 0 && h.size()*float64(events) >= float64(h.half())/strides
}

package audit

import (
	"fmt"

	"switchyard.dev/eventbus/event"
)

// far is how many events are read ahead of a place that fails verification. An event that was
// moved further than this is reported where it is missing.
const far = 1 << 16

// How far numbers are tried that were made to fit: this many more events dropped
// than there seem to be, at this many pairs of events, and at this many places
// that an event may have come from.
const (
	farShift = 1 << 14
	pairs    = 8
	origins  = 64
)

// scene is a place that fails verification, with the events after it.
type scene struct {
	last place
	// rest are the events behind it; the first is the one that does not fit.
	rest []event.Stored
	tip  uint64
}

// examine determines the change at the place of s, which failed verification.
func (a *auditor) examine(s event.Stored) {
	for n, b := range a.before {
		it, fits := b.place.then(s)
		if was, _ := b.place.then(b.event); fits && it == was {
			a.find(Inserted, s, "it is a copy of event %d, which came before", it.seq)
			return
		}
		if fits {
			// The events since then are sealed well, and it does not know them.
			a.last, a.report.Events = b.place, a.report.Events-uint64(n)-1
			a.find(Inserted, b.event, "its checksum was made to fit, and event %d follows the one before it", b.place.seq+1)
			return
		}
	}
	seen := scene{last: a.last, rest: []event.Stored{s}, tip: a.cfg.Tip}
	for len(seen.rest) < far {
		more, err := a.next()
		if err != nil {
			// The end, or an unreadable event, which matters less than the defect at this
			// place: judge by the events read so far.
			break
		}
		seen.rest = append(seen.rest, more)
	}
	kind, reason := seen.judge()
	if kind == Dropped {
		s = event.Stored{}
	}
	a.find(kind, s, "%s", reason)
}

func (c scene) judge() (Kind, string) {
	want := c.last.seq + 1
	for later, s := range c.rest[1:] {
		if _, fits := c.last.then(s); fits {
			return c.displaced(later + 1)
		}
	}
	first, shown := c.rest[0], c.rest[0].Pos.Seq
	shift, at, found := c.shift()
	switch {
	case found && shift > 0 && at == 0:
		return Dropped, fmt.Sprintf("%s missing: the next one is event %d by its checksum%s", span(want, want+uint64(shift)-1), want+uint64(shift), renumbered(shown, want+uint64(shift)))
	case found && shift > 0 || !found && shown > want:
		return Dropped, fmt.Sprintf("event %d is missing, and later events were changed as well", want)
	case found && shift < 0 || !found && shown < want:
		return Inserted, fmt.Sprintf("it is numbered %d, and does not follow event %d", shown, c.last.seq)
	case !found && want+uint64(len(c.rest))-1 < c.tip:
		return Dropped, fmt.Sprintf("event %d is missing: the log declares events up to %d, and has fewer", want, c.tip)
	case !found && want+uint64(len(c.rest))-1 > c.tip:
		return Inserted, fmt.Sprintf("the log declares event %d as its last one, and has more", c.tip)
	case !event.Identified(first.Message):
		return Altered, "neither its checksum nor its id matches its content"
	case want == 1 || !c.last.known:
		return Altered, "its checksum does not match"
	}
	return Altered, fmt.Sprintf("its checksum does not match after event %d: it was altered, or event %d was and its checksum recomputed", c.last.seq, c.last.seq)
}

// displaced returns how the first event comes to stand before the one that belongs
// there, which is found at an index further on.
func (c scene) displaced(later int) (Kind, string) {
	want, first := c.last.seq+1, c.rest[0]
	own, err := event.ChainOf(first.Message)
	for _, s := range c.rest[1:] {
		if chain, other := event.ChainOf(s.Message); err == nil && other == nil && chain == own {
			return Inserted, "it is a copy of an event that comes later"
		}
	}
	from, genuine := c.origin(later)
	switch {
	case genuine && later == 1:
		return Reordered, fmt.Sprintf("event %d by its checksum stands before event %d%s", from, want, renumbered(first.Pos.Seq, from))
	case genuine:
		return Reordered, fmt.Sprintf("event %d comes only %s later%s", want, count(later, "event"), renumbered(c.rest[later].Pos.Seq, want))
	case first.Pos.Seq < want:
		return Inserted, fmt.Sprintf("it is numbered %d, an event that came before; event %d follows it", first.Pos.Seq, want)
	}
	return Inserted, fmt.Sprintf("its checksum continues nothing, and the event that belongs here follows it%s", renumbered(c.rest[later].Pos.Seq, want))
}

// origin finds the place that the first event was recorded at: behind which of
// the others its checksum comes out. later is where the event is that belongs
// where it stands.
func (c scene) origin(later int) (uint64, bool) {
	first := c.rest[0]
	for i, s := range c.rest[1:] {
		chain, err := event.ChainOf(s.Message)
		if err != nil {
			continue
		}
		seqs := []uint64{first.Pos.Seq}
		for n := uint64(1); i < origins && n <= origins; n++ {
			seqs = append(seqs, c.last.seq+n)
		}
		for _, seq := range seqs {
			if _, fits := (place{seq: seq - 1, chain: chain, known: true}).then(first); fits {
				return seq, true
			}
		}
	}
	// Numbers were made to fit and it came from far: put the log in order again,
	// and see where the event belongs.
	at, _ := c.last.then(c.rest[later])
	for _, s := range append(c.rest[later+1:len(c.rest):len(c.rest)], event.Stored{}) {
		if next, fits := at.then(first); fits {
			return next.seq, true
		}
		if next, fits := at.then(s); fits {
			at = next
		}
	}
	return 0, false
}

// shift finds by how many places the events behind the first one were moved: how many more
// events, or fewer, there were before them. It uses the first two events that follow each
// other, and returns their index.
func (c scene) shift() (by int64, at int, found bool) {
	for at := range min(pairs, len(c.rest)-1) {
		chain, err := event.ChainOf(c.rest[at].Message)
		if err != nil {
			continue
		}
		stands := c.last.seq + 2 + uint64(at)
		fits := func(seq uint64) bool {
			_, fits := (place{seq: seq - 1, chain: chain, known: true}).then(c.rest[at+1])
			return fits
		}
		if seq := c.rest[at+1].Pos.Seq; seq > 0 && fits(seq) {
			return int64(seq - stands), at, true
		}
		for seq := c.last.seq + 1; seq < stands+farShift; seq++ {
			if fits(seq) {
				return int64(seq - stands), at, true
			}
		}
	}
	return 0, 0, false
}

func renumbered(shown, is uint64) string {
	if shown == is {
		return ""
	}
	return fmt.Sprintf("; it was renumbered to %d", shown)
}

func span(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("event %d is", from)
	}
	return fmt.Sprintf("events %d to %d are", from, to)
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Package fold replays a log: it takes the events of one epoch, in order and as they were written,
// and returns the state at each position.
//
// A Fold is a value, like the table it contains: taking more events returns a new one and leaves
// the old one unchanged, so each can be kept as a checkpoint. The same events produce the same
// Fold, on any machine: the hash of its table and the bytes of Text are equal.
//
// Where a table is whole. A log retains a range of an epoch. When that begins with event number 1,
// the first Complete marks that every object has been published. When it begins with a Floor, only
// a Complete that names this Floor, or a later one, counts: events before an older one may lie
// outside the range. So a position at which another reader once had a whole table may not be whole
// for a reader that begins at the floor; such a version is no longer available.
//
// Callers must pass events without gaps. One that does not link to its predecessor is rejected, and
// the Fold is unchanged.
package fold

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/table"
)

// Fold is what a stretch of a log amounts to. The zero value has taken nothing.
type Fold struct {
	table table.Table
	mark  event.Mark
	// first is the place at which the stretch begins.
	first    uint64
	recorded time.Time
	whole    bool
}

// Table is the table at the place that was reached.
func (f Fold) Table() table.Table { return f.table }

// Mark is the place that was reached, with the checksum there. The zero Mark
// when nothing was taken.
func (f Fold) Mark() event.Mark { return f.mark }

// Recorded is when the newest event was recorded.
func (f Fold) Recorded() time.Time { return f.recorded }

// Whole reports whether everything that counted at that place is in the table.
func (f Fold) Whole() bool { return f.whole }

// Take returns the Fold with these events taken. An error means that one of them
// does not follow the one before it, or does not read; it names the event.
func (f Fold) Take(events ...event.Stored) (Fold, error) {
	opened, err := f.Read(events...)
	if err != nil {
		return Fold{}, err
	}
	return f.Apply(opened...), nil
}

// Read decodes events and verifies that they follow the last one taken, but does not take them. An
// event of an unknown, newer kind is read as one without data.
func (f Fold) Read(events ...event.Stored) ([]event.Recorded, error) {
	opened := make([]event.Recorded, 0, len(events))
	last := f.mark
	for _, e := range events {
		mark, err := follows(e, last)
		if err != nil {
			return nil, err
		}
		r, err := event.Open(e)
		if err != nil && !errors.Is(err, event.ErrUnknownType) {
			return nil, fmt.Errorf("event %d: %w", e.Pos.Seq, err)
		}
		opened, last = append(opened, r), mark
	}
	return opened, nil
}

// follows verifies that an event is the next one behind last.
func follows(e event.Stored, last event.Mark) (event.Mark, error) {
	switch {
	case last == (event.Mark{}):
		return event.CheckFirst(e)
	case e.Pos.Epoch != last.Epoch || e.Pos.Seq != last.Seq+1:
		return event.Mark{}, fmt.Errorf("event %d of epoch %s comes behind event %d of epoch %s: the events between them are missing",
			e.Pos.Seq, e.Pos.Epoch, last.Seq, last.Epoch)
	}
	return event.Check(e, last.Chain)
}

// Apply takes events that Read gave.
func (f Fold) Apply(events ...event.Recorded) Fold {
	if len(events) == 0 {
		return f
	}
	f.first = cmp.Or(f.first, events[0].Pos.Seq)
	for _, e := range events {
		if c, ok := e.Fact.Data.(*factv1.Complete); ok {
			f.whole = f.whole || Counts(c, f.first)
		}
	}
	f.table = f.table.Apply(events...)
	newest := events[len(events)-1]
	f.mark, f.recorded = newest.Mark(), newest.At
	return f
}

// Counts reports whether a Complete marks a table as whole that was folded from first, the sequence
// of the first event of a log.
func Counts(c *factv1.Complete, first uint64) bool {
	if c.GetFloor() == 0 {
		return first == 1
	}
	return c.GetFloor() >= first
}

// Text writes a table down: a line for each rule, sorted, a line with the custom
// headers that carry keys if there are any, and the hash last.
// Equal tables have equal bytes on any machine. Names are quoted as Go does, so
// that no name can look like another line.
func Text(t table.Table) string {
	var b strings.Builder
	for r := range t.All() {
		fmt.Fprintf(&b, "%s %q %q -> %q by %s %q %q %q ready=%t",
			r.Baseline.Kind, r.Baseline.Namespace+"/"+r.Baseline.Name, r.RoutingKey, r.Sandbox,
			r.Member.Kind, r.Member.Namespace, r.Member.Name, r.Member.UID, r.Ready)
		for _, m := range r.Mappings {
			fmt.Fprintf(&b, " %d:", m.WorkloadPort)
			for _, d := range m.Destinations {
				fmt.Fprintf(&b, "[%q %d %q]", d.Host, d.Port, d.Address)
			}
		}
		b.WriteByte('\n')
	}
	if names := t.KeyHeaders(); len(names) > 0 {
		fmt.Fprintf(&b, "key headers %q\n", names)
	}
	fmt.Fprintf(&b, "hash %s\n", t.Hash())
	return b.String()
}

package jetstream

import (
	"fmt"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
)

// sealed is a fact as it is to be recorded.
type sealed struct {
	*waiting
	event event.Stored
	mark  event.Mark
	at    time.Time
}

// decide returns what of a batch is to be recorded, in order and each sealed behind
// the one before it, and answers the rest.
func (l *Log) decide(batch []*waiting) []sealed {
	at := l.replica.now(time.Now())
	tip, newest := l.replica.tip, make(map[string]uint64, len(batch))
	out := make([]sealed, 0, len(batch))
	for _, w := range batch {
		if err := l.refuse(w, newest); err != nil {
			w.answer(event.Mark{}, err)
			continue
		}
		m, mark := event.Seal(w.m, tip, at)
		if size := m.Size(); size > eventbus.MaxEvent {
			w.answer(event.Mark{}, fmt.Errorf("%w: the fact on %s takes %d bytes, more than %d", eventbus.ErrRefused, w.m.Subject, size, eventbus.MaxEvent))
			continue
		}
		out = append(out, sealed{w, event.Stored{Pos: mark.Pos, Message: m}, mark, at})
		tip, newest[m.Subject] = mark, mark.Seq
	}
	return out
}

// waitingOf returns those who wait for facts that were sealed.
func waitingOf(todo []sealed) []*waiting {
	return lists.Map(todo, func(s sealed) *waiting { return s.waiting })
}

// refuse returns why a fact is not to be recorded, if so. The newest events of the
// batch so far count before those of the log.
func (l *Log) refuse(w *waiting, batch map[string]uint64) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if w.epoch != l.replica.tip.Epoch {
		return epochEnded(w.epoch, l.replica.tip.Epoch)
	}
	newest, ok := batch[w.m.Subject]
	if !ok {
		newest = l.replica.newest[w.m.Subject]
	}
	if newest != w.last {
		return fmt.Errorf("%w: %s is at %d, not at %d", eventbus.ErrConflict, w.m.Subject, newest, w.last)
	}
	return nil
}

// stale reports whether the one who states a fact has seen another event of its key
// than we have: it may be one that we have not read yet, so that a conflict is
// not certain.
func (l *Log) stale(batch []*waiting) bool {
	first := make(map[string]bool, len(batch))
	for _, w := range batch {
		if !first[w.m.Subject] && l.replica.newest[w.m.Subject] != w.last {
			return true
		}
		first[w.m.Subject] = true
	}
	return false
}

// replica is what a writer knows of its epoch: the tip, and where the newest
// event of each key is. Taking every event of the log in turn gives the same
// replica to every writer.
type replica struct {
	tip event.Mark
	// at is when the event at the tip was recorded.
	at time.Time
	// newest is the sequence of the newest event of each subject, the log's
	// prefix left out.
	newest map[string]uint64
}

func newReplica(epoch string) replica {
	return replica{tip: event.Before(epoch), newest: map[string]uint64{}}
}

// take takes the next event, which others recorded: ErrDamaged when it does not
// follow the tip.
func (r *replica) take(s event.Stored) error {
	if s.Pos.Epoch != r.tip.Epoch || s.Pos.Seq != r.tip.Seq+1 {
		return fmt.Errorf("%w: event %d is followed by event %d", eventbus.ErrDamaged, r.tip.Seq, s.Pos.Seq)
	}
	mark, err := event.Check(s, r.tip.Chain)
	if err != nil {
		return fmt.Errorf("%w: %w", eventbus.ErrDamaged, err)
	}
	return r.add(s, mark)
}

// add takes an event that is known to be right, with its Mark.
func (r *replica) add(s event.Stored, mark event.Mark) error {
	at, err := event.RecordedAt(s.Message)
	if err != nil {
		return fmt.Errorf("%w: event %d: %w", eventbus.ErrDamaged, s.Pos.Seq, err)
	}
	if at.After(r.at) {
		r.at = at
	}
	r.tip = mark
	r.newest[s.Message.Subject] = mark.Seq
	return nil
}

// own takes an event that was sealed behind the tip and has been recorded.
func (r *replica) own(s sealed) {
	r.tip, r.at = s.mark, s.at
	r.newest[s.event.Message.Subject] = s.mark.Seq
}

// now returns the time of recording for a new event: the clock's, but never before that of the
// tip.
func (r *replica) now(clock time.Time) time.Time {
	if clock.After(r.at) {
		return clock
	}
	return r.at
}

// forget leaves out what lies below a floor.
func (r *replica) forget(floor uint64) {
	for subject, seq := range r.newest {
		if seq < floor {
			delete(r.newest, subject)
		}
	}
}

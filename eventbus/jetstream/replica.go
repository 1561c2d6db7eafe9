package jetstream

import (
	"fmt"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

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

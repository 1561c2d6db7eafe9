package eventbus

import (
	"fmt"

	"switchyard.dev/eventbus/event"
)

// Verifier verifies the events that a log keeps, from its floor to its tip, as
// they are read. Make one with NewVerifier; give Take every event in turn, then
// ask Done.
type Verifier struct {
	known, last event.Mark
	// begun is false until the first event has been taken.
	begun bool
}

// NewVerifier returns a Verifier of the log of an epoch. It holds the log against
// a Mark that was kept elsewhere; give the zero Mark, or one of another epoch,
// when there is none to hold it against.
func NewVerifier(epoch string, known event.Mark) *Verifier {
	if known.Epoch != epoch {
		known = event.Mark{}
	}
	return &Verifier{known: known, last: event.Before(epoch)}
}

// Take verifies the next event. ErrDamaged, with the reason, when it does not follow the one
// before it, or differs from the known one, or is the first one and is not a valid beginning of
// a log.
func (v *Verifier) Take(s event.Stored) error {
	if v.begun && s.Pos.Seq != v.last.Seq+1 {
		return fmt.Errorf("%w: event %d is followed by event %d", ErrDamaged, v.last.Seq, s.Pos.Seq)
	}
	mark, err := v.check(s)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	v.last, v.begun = mark, true
	if v.last.Seq == v.known.Seq && v.last.Chain != v.known.Chain {
		return fmt.Errorf("%w: event %d is not the one that is known to have been there", ErrDamaged, v.last.Seq)
	}
	return nil
}

func (v *Verifier) check(s event.Stored) (event.Mark, error) {
	if s.Pos.Epoch != v.last.Epoch {
		return event.Mark{}, fmt.Errorf("event %d is of epoch %s, not of %s", s.Pos.Seq, s.Pos.Epoch, v.last.Epoch)
	}
	if v.begun {
		return event.Check(s, v.last.Chain)
	}
	return event.CheckFirst(s)
}

// Done returns the Mark of the tip when the log that was taken is whole up to it. ErrDamaged
// when events are missing at its end: before tip, which is the end that the log declares, or
// before the known place.
func (v *Verifier) Done(tip event.Pos) (event.Mark, error) {
	switch {
	case v.begun && v.last.Seq < tip.Seq:
		return event.Mark{}, fmt.Errorf("%w: the events behind %d up to %d are missing", ErrDamaged, v.last.Seq, tip.Seq)
	case !v.begun && tip.Seq > 0:
		return event.Mark{}, fmt.Errorf("%w: none of its %d events is left", ErrDamaged, tip.Seq)
	case v.last.Seq < v.known.Seq:
		return event.Mark{}, fmt.Errorf("%w: it ends at %d and is known to have reached %d; its store was rewound", ErrDamaged, v.last.Seq, v.known.Seq)
	}
	return v.last, nil
}

// Verify verifies all events of a log at once. See Verifier.
func Verify(events []event.Stored, tip, known event.Mark) error {
	v := NewVerifier(tip.Epoch, known)
	for _, e := range events {
		if err := v.Take(e); err != nil {
			return err
		}
	}
	_, err := v.Done(tip.Pos)
	return err
}

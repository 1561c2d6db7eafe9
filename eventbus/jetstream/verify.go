package jetstream

import (
	"errors"
	"fmt"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// Verification verifies a log as it is read, and makes the replica of it. Make one
// with NewVerification; give Take every event in turn, then ask Done.
//
// The server deletes the beginning of a stream file by file, so a crash on the way leaves a log
// that begins neither with its first event nor with a floor. It is not damaged if those events
// were about to be forgotten anyway: if a Complete confirms that all live facts were stated
// again after a later floor.
type Verification struct {
	verifier *eventbus.Verifier
	replica  replica
	// headless is the reason why the log cannot begin where it does; nil when it can. Otherwise
	// first is the first floor since then, and floor the one that a Complete confirmed; both
	// are 0 while there is none.
	headless     error
	last         event.Mark
	first, floor uint64
}

// NewVerification returns a Verification of the log of an epoch, against a Mark that was kept
// elsewhere; see eventbus.NewVerifier.
func NewVerification(epoch string, known event.Mark) *Verification {
	return &Verification{verifier: eventbus.NewVerifier(epoch, known), replica: newReplica(epoch)}
}

// Take verifies the next event. ErrDamaged, with the reason, when it does not fit.
func (v *Verification) Take(s event.Stored) error {
	if v.last == (event.Mark{}) {
		_, err := event.CheckFirst(s)
		if err != nil && (s.Pos.Seq == 1 || !errors.Is(err, event.ErrUnsealed)) {
			return fmt.Errorf("%w: %w", eventbus.ErrDamaged, err) // it is not the beginning that is missing
		}
		v.headless = err
	}
	if v.headless != nil && v.first == 0 {
		return v.skip(s)
	}
	if err := v.verifier.Take(s); err != nil {
		return err
	}
	if err := v.add(s); err != nil {
		return err
	}
	if v.headless != nil && s.Message.Subject == event.Log.Subject() {
		v.confirm(s)
	}
	return nil
}

// skip passes over an event before the first floor of a headless log. They must
// fit together all the same.
func (v *Verification) skip(s event.Stored) error {
	if v.last != (event.Mark{}) {
		if _, err := event.Check(s, v.last.Chain); err != nil || s.Pos.Seq != v.last.Seq+1 {
			return fmt.Errorf("%w: event %d does not follow event %d: %w", eventbus.ErrDamaged, s.Pos.Seq, v.last.Seq, v.headless)
		}
	}
	if _, err := event.CheckFirst(s); err == nil {
		v.first = s.Pos.Seq
		return v.Take(s)
	}
	return v.add(s)
}

func (v *Verification) add(s event.Stored) error {
	chain, err := event.ChainOf(s.Message)
	if err != nil {
		return fmt.Errorf("%w: event %d: %w", eventbus.ErrDamaged, s.Pos.Seq, err)
	}
	v.last = event.Mark{Pos: s.Pos, Chain: chain}
	return v.replica.add(s, v.last)
}

// confirm takes in a Complete, which may name a floor. One that lies before the
// first that was met does not explain why events behind it are missing.
func (v *Verification) confirm(s event.Stored) {
	r, err := event.Open(s)
	if err != nil {
		return // of a newer kind; what does not read is found by the follower
	}
	if c, ok := r.Fact.Data.(*factv1.Complete); ok && c.GetFloor() >= max(v.first, v.floor) && v.replica.newest[event.LogFloor.Subject()] >= c.GetFloor() {
		v.floor = c.GetFloor()
	}
}

// Done returns the Mark of the tip when the log is valid up to it, and otherwise an error.
func (v *Verification) Done(tip event.Pos) (event.Mark, error) {
	if v.headless != nil && v.floor == 0 {
		return event.Mark{}, fmt.Errorf("%w: %w", eventbus.ErrDamaged, v.headless)
	}
	return v.verifier.Done(tip)
}

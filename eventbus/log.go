// Package eventbus keeps the log of facts and delivers it to its followers.
//
// This package defines a log; eventbus/memory and eventbus/jetstream implement it, and
// eventbus/logtest is the suite that both must pass. The log keeps order and history; the truth
// is in Kubernetes, so a log that is lost is filled again from the objects (eventbus/publisher)
// under a new epoch.
//
// A log keeps one unbroken range of an epoch, from its floor to its tip: every event of it,
// each linked to the one before by a running checksum (event.Chain). It grows at the tip;
// Forget raises the floor. Events below the floor are deleted, and reading them returns
// ErrGone. Before a writer forgets, it records a Floor and states every live fact again after
// it (publisher), so that the newest fact of each key is always kept, and a table can be folded
// from the floor. So a log begins with its event number 1 or with a Floor; a log with any other
// beginning has lost events.
//
// The other packages: event defines facts and their encoding; projection keeps a fold of a log
// up to date; archive keeps a log in a file; readers bounds concurrent reads; audit detects
// tampering with a log; embedded is the NATS server that keeps a JetStream log; connect reaches
// it from another pod; wake wakes goroutines that wait for a change; callers separates and
// bounds the callers of a listener, and callers/tokens authenticates them; program is shared by
// the main functions of all programs of the operator; server, with cmd/eventbus, is the program
// of the event bus pod.
package eventbus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"switchyard.dev/eventbus/event"
)

// MaxEvent is the largest event a log takes, headers included, in bytes.
const MaxEvent = 64 << 10

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrConflict: the newest fact of the key is not the one the caller had seen. Read it again
	// and decide again.
	ErrConflict = errors.New("a newer fact of this key is in the log")
	// ErrNoLog: there is no log (yet). Its writer begins one; a reader waits.
	ErrNoLog = errors.New("the routing log has not begun")
	// ErrEpochEnded: the log that was being followed or written has ended, and another may have
	// begun. A reader follows again from the start, a writer calls Begin.
	ErrEpochEnded = errors.New("this epoch of the routing log has ended")
	// ErrGone: the place asked for lies before what the log keeps. A reader that
	// needs the present follows again from the start.
	ErrGone = errors.New("this part of the routing log is no longer kept")
	// ErrFull: the log has reached its size limit. Its writer forgets old events, or calls
	// Restart: a new epoch contains only current facts.
	ErrFull = errors.New("the routing log is full")
	// ErrDamaged: the log differs from the recorded one: an event cannot be read, does not
	// match its checksum or is missing, or the log ends before a place that it had reached. Its
	// writer calls Restart; a reader keeps its table until then.
	ErrDamaged = errors.New("the routing log is damaged")
	// ErrBusy: as many read the log as may at once, and none of them was done in
	// time. Try again.
	ErrBusy = errors.New("too many read the routing log at once")
	// ErrRefused: this fact can never be recorded as it is (larger than the log
	// takes, or not well formed). Trying again does not help.
	ErrRefused = errors.New("the fact cannot be recorded")
)

// Reader is a log as those see it who only read.
type Reader interface {
	// Tip returns the epoch and the sequence of the last event. ErrNoLog when
	// there is no log.
	Tip(ctx context.Context) (event.Pos, error)
	// Follow returns the newest fact of each key, in log order, and then each new
	// fact as it is recorded. ErrNoLog when there is no log.
	//
	// What a follower has given is the whole present only from the Tip on that
	// is read after Follow returned: a key that was stated before a Complete and
	// again after it is given after it.
	//
	// An event of a newer kind comes as a fact that has a Key and no Data, so
	// that every place up to the Tip is reached. Pass over it.
	Follow(ctx context.Context) (Follower, error)
	// Read returns every event behind a place, in order and as it was written, and
	// then each new one. Give Pos{} to read from the floor. ErrNoLog when there
	// is no log, ErrEpochEnded when the place is of another epoch, ErrGone when
	// the event behind it is no longer kept.
	Read(ctx context.Context, behind event.Pos) (Cursor, error)
	// HistoryOf returns every event of one key that is kept, oldest first; none
	// when there is none. ErrNoLog when there is no log.
	HistoryOf(ctx context.Context, key event.Key) ([]event.Recorded, error)
	// Kept returns what the log keeps. ErrNoLog when there is no log.
	Kept(ctx context.Context) (Kept, error)
}

// Kept is the stretch that a log keeps, and how much it is.
type Kept struct {
	// Floor is the place of the first event kept, Tip that of the last. When
	// nothing is kept, Floor is one behind Tip.
	Floor, Tip event.Pos
	// Bytes is the size of the events, MaxBytes their limit; MaxBytes is 0 when there is none.
	Bytes, MaxBytes uint64
}

// Follower reads forward through one epoch. One goroutine at a time uses it;
// Close may come from any.
type Follower interface {
	// Next waits for at least one fact and returns all that are there, in log
	// order, at most a few thousand. ErrEpochEnded when the log began again;
	// ErrGone when the follower is so far behind that the log has forgotten what
	// it needs; ErrDamaged when an event does not read; ctx.Err() when ctx ends;
	// any other error means: follow again.
	Next(ctx context.Context) ([]event.Recorded, error)
	// Close ends the reading. Safe to call twice.
	Close()
}

// Cursor is a Follower that gives events as they were written, without gaps.
type Cursor interface {
	// Next is like Follower.Next.
	Next(ctx context.Context) ([]event.Stored, error)
	// Close ends the reading. Safe to call twice.
	Close()
}

// Log is a log as its writer sees it.
//
// Each value believes in one epoch, the one that Begin or Restart gave it last,
// and writes to no other: this is the fence against writing into a log that
// began again behind the writer's back.
type Log interface {
	Reader
	// Begin starts the log when there is none, under a new epoch. When there is
	// one it is verified from floor to tip: ErrDamaged when an event is missing
	// or does not fit its checksum, or when the log has the epoch of known and is
	// not the log that had that Mark: it ends earlier, or has another checksum
	// there. It returns the Mark of the tip.
	Begin(ctx context.Context, known event.Mark) (event.Mark, error)
	// Restart ends the epoch named, if it is still the present one, and begins an
	// empty new one, of which it returns the first Mark. With an empty name it ends
	// whichever there is. ErrEpochEnded when another one has begun already.
	Restart(ctx context.Context, epoch string) (event.Mark, error)
	// Append records a fact if the newest one of its key is still at sequence
	// last (0: there is none), and returns its Mark once it is on disk. Facts that
	// are appended at the same time share the wait for the disk.
	// ErrConflict when it is not, ErrNoLog when there is no log or Begin was not
	// called, ErrEpochEnded when another log has begun, ErrFull, ErrRefused; any
	// other error leaves open whether it was recorded. ErrGone among those means
	// that others have written and forgotten more than this value has ever read:
	// call Begin.
	Append(ctx context.Context, f event.Fact, last uint64) (event.Mark, error)
	// Newest returns the newest fact of a key, tombstones included; false when
	// the key has none that is kept. When the newest event is of a kind that this
	// version does not know, the fact has no Data and only Pos counts.
	Newest(ctx context.Context, key event.Key) (event.Recorded, bool, error)
	// Forget raises the floor to the place of a Floor: what lies before it is
	// gone. Every fact that counts must have been stated behind it. Nothing
	// happens when the floor is there already. ErrRefused when no Floor is at that
	// place; ErrEpochEnded when it is of another epoch than is believed in.
	Forget(ctx context.Context, floor event.Pos) error
}

// NewEpoch makes a name for a log that begins: 16 random letters and digits (80
// bits), so that no two logs ever have the same.
func NewEpoch() string { return strings.ToLower(rand.Text()[:16]) }

// Open reads events of a log, as a Follower gives them: those of a newer kind
// without data. ErrDamaged when one does not read; those before it are returned as well.
func Open(events []event.Stored) ([]event.Recorded, error) {
	facts := make([]event.Recorded, 0, len(events))
	for _, s := range events {
		r, err := OpenEvent(s)
		if err != nil {
			return facts, err
		}
		facts = append(facts, r)
	}
	return facts, nil
}

// OpenEvent is Open of one event.
func OpenEvent(s event.Stored) (event.Recorded, error) {
	r, err := event.Open(s)
	if err != nil && !errors.Is(err, event.ErrUnknownType) {
		return event.Recorded{}, fmt.Errorf("%w: event %d: %w", ErrDamaged, s.Pos.Seq, err)
	}
	return r, nil
}

// FollowerOf returns a Follower that reads what a Cursor gives.
func FollowerOf(c Cursor) Follower { return &follower{Cursor: c} }

type follower struct {
	Cursor
	// failed is given by the Next after the one that gave the facts before it.
	failed error
}

// Next implements Follower.
func (f *follower) Next(ctx context.Context) ([]event.Recorded, error) {
	if f.failed != nil {
		return nil, f.failed
	}
	events, err := f.Cursor.Next(ctx)
	if err != nil {
		return nil, err
	}
	facts, err := Open(events)
	if f.failed = err; len(facts) > 0 {
		return facts, nil
	}
	return nil, err
}

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

// Package audit finds where a log was tampered with.
//
// Every event carries a checksum of itself and of all before it (event.Chain), so a log that
// was changed fails verification from that place on. Run reads a log in sequence, from an
// archive or from the log itself, and verifies each event against the one before it. Where that
// fails it reads ahead to determine the kind of change:
//
//	observed after the last valid event                   kind of change
//	the event that belongs there comes later              inserted or reordered:
//	  ... and the event at its place belongs elsewhere      reordered
//	  ... and the event at its place belongs nowhere        inserted
//	the event that belongs there is missing               altered or dropped:
//	  ... and the next ones continue at their places        altered
//	  ... and the next ones are of later places             dropped
//
// Only the checksums count, not what can be forged without them: adapted sequence numbers and
// recomputed ids change neither the place nor the kind that is reported.
//
// Two changes cannot be found from the log alone: a log that was resealed in full after a
// change, and a truncated log without a record of its tip. Both are detected with a Mark that
// was kept elsewhere (Config.Known). If one event was altered and only that one resealed, the
// event after it is the first to fail, unless the altered one still has its old id; the reason
// then names both possibilities.
package audit

import (
	"errors"
	"fmt"
	"io"

	"switchyard.dev/eventbus/archive"
	"switchyard.dev/eventbus/event"
)

// Kind is the kind of change that was made to a log.
type Kind string

// The kinds of tampering.
const (
	// Altered: the event at this place is not the one that was recorded there.
	Altered Kind = "altered"
	// Dropped: the event of this place is missing, and perhaps more behind it.
	Dropped Kind = "dropped"
	// Inserted: at this place stands an event that was never recorded there.
	Inserted Kind = "inserted"
	// Reordered: at this place stands the event of another one.
	Reordered Kind = "reordered"
	// Resealed: an event up to this place was changed and all events after it were resealed:
	// the checksum differs from the known one.
	Resealed Kind = "resealed"
	// Unreadable: this place in an archive does not contain an event.
	Unreadable Kind = "unreadable"
)

// Finding is the first place at which a log was tampered with.
type Finding struct {
	Kind Kind
	// Seq is the place in the log: of the event that is missing, or where the
	// event stands that does not belong there.
	Seq uint64
	// Index is how many events were read before that place.
	Index uint64
	// Found is the event at that place, zero when there is none.
	Found event.Stored
	// Reason describes the evidence for people.
	Reason string
}

// Config describes the log that is audited.
type Config struct {
	// Epoch, Floor and Tip are those that the log declares: an archive's header, or
	// eventbus.Kept.
	Epoch      string
	Floor, Tip uint64
	// Known is a Mark that was kept elsewhere; the zero Mark when there is none.
	// It must be of this epoch.
	Known event.Mark
}

// Validate returns an error if the Config is not valid.
func (c Config) Validate() error {
	if c.Known.Epoch != "" && c.Known.Epoch != c.Epoch {
		return fmt.Errorf("the mark is of epoch %s and the log of epoch %s: they cannot be compared", c.Known.Epoch, c.Epoch)
	}
	return (archive.Header{Epoch: c.Epoch, Floor: c.Floor, Tip: c.Tip}).Validate()
}

// Report is the result of an audit.
type Report struct {
	// Events is how many events came out right, Last the Mark of the last one.
	Events uint64
	Last   event.Mark
	// Held reports whether the log reached the known Mark and has it.
	Held bool
	// Finding is nil when nothing was found.
	Finding *Finding
}

// Run audits a log. next gives its events in the order in which it keeps them,
// and io.EOF behind the last one; any other error, but for an *archive.Error,
// ends the audit and comes back.
func Run(next func() (event.Stored, error), cfg Config) (Report, error) {
	if err := cfg.Validate(); err != nil {
		return Report{}, err
	}
	a := &auditor{cfg: cfg, next: next, last: place{seq: cfg.Floor - 1}}
	if cfg.Floor == 1 {
		a.last = place{chain: event.Genesis(cfg.Epoch), known: true}
	}
	for {
		s, err := next()
		var unreadable *archive.Error
		switch {
		case errors.Is(err, io.EOF):
			a.end()
			return a.done(), nil
		case errors.As(err, &unreadable):
			a.find(Unreadable, event.Stored{}, "%v", unreadable)
			return a.done(), nil
		case err != nil:
			return a.done(), err
		}
		if a.take(s); a.report.Finding != nil {
			return a.done(), nil
		}
	}
}

// place is where the verified part of a log ends.
type place struct {
	seq   uint64
	chain event.Chain
	// known is false before the first event of a log that begins at a Floor: that event itself
	// carries the checksum of its predecessor.
	known bool
}

// then returns the place of an event when it is the next one behind p.
func (p place) then(s event.Stored) (place, bool) {
	s.Pos.Seq = p.seq + 1
	var mark event.Mark
	var err error
	if p.known {
		mark, err = event.Check(s, p.chain)
	} else {
		mark, err = event.CheckFirst(s)
	}
	return place{seq: mark.Seq, chain: mark.Chain, known: true}, err == nil
}

type auditor struct {
	cfg  Config
	next func() (event.Stored, error)
	last place
	// before are the places before the last one, the nearest first, with the
	// event that followed each.
	before []behind
	// tip is the declared end of the log, once an event came after it, and over is that event.
	tip    place
	over   event.Stored
	report Report
}

// behind is a place, and the event that came out behind it.
type behind struct {
	place place
	event event.Stored
}

// back is how many places are remembered: up to as many inserted events, each sealed after the
// one before it, are located at the first of them.
const back = 64

// done returns the report.
func (a *auditor) done() Report {
	if a.report.Events > 0 {
		a.report.Last = event.Mark{Pos: event.Pos{Epoch: a.cfg.Epoch, Seq: a.last.seq}, Chain: a.last.chain}
	}
	return a.report
}

func (a *auditor) find(kind Kind, found event.Stored, reason string, args ...any) {
	a.report.Finding = &Finding{
		Kind: kind, Seq: a.last.seq + 1, Index: a.report.Events, Found: found, Reason: fmt.Sprintf(reason, args...),
	}
}

// take verifies the next event.
func (a *auditor) take(s event.Stored) {
	want := a.last.seq + 1
	here, fits := a.last.then(s)
	switch {
	case s.Pos.Epoch != a.cfg.Epoch:
		a.find(Inserted, s, "it is of another epoch, %s", s.Pos.Epoch)
	case !fits:
		a.examine(s)
	case s.Pos.Seq != want:
		a.find(Altered, s, "it is event %d by its checksum, and its number was changed to %d", want, s.Pos.Seq)
	case !event.Identified(s.Message):
		a.find(Altered, s, "its id does not match its content: it was altered and its checksum recomputed")
	case want == a.cfg.Known.Seq && here.chain != a.cfg.Known.Chain:
		a.find(Resealed, s, "its checksum is %s and was %s when the mark was taken: an event up to this one was changed, and all later events were resealed",
			here.chain, a.cfg.Known.Chain)
	default:
		a.before = append([]behind{{a.last, s}}, a.before[:min(len(a.before), back-1)]...)
		if a.last.seq == a.cfg.Tip {
			a.tip, a.over = a.last, s
		}
		a.last = here
		a.report.Events++
		a.report.Held = a.report.Held || want == a.cfg.Known.Seq
	}
}

// end checks for events that are missing after the last one.
func (a *auditor) end() {
	switch want := a.last.seq + 1; {
	case a.last.seq > a.cfg.Tip:
		a.report.Events -= a.last.seq - a.cfg.Tip
		a.last = a.tip
		a.find(Inserted, a.over, "the log declares event %d as its last one", a.cfg.Tip)
	case want < a.cfg.Tip:
		a.find(Dropped, event.Stored{}, "the log ends here, and declares events up to %d", a.cfg.Tip)
	case want == a.cfg.Tip:
		a.find(Dropped, event.Stored{}, "the log ends before it, and declares it as its last event")
	case want <= a.cfg.Known.Seq:
		a.find(Dropped, event.Stored{}, "the log ends here, and had reached event %d when the mark was taken", a.cfg.Known.Seq)
	}
}

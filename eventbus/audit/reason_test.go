package audit_test

import (
	"fmt"
	"slices"
	"testing"

	"switchyard.dev/eventbus/event"
)

// long is a log of 300 events, more than are tried one by one.
func long() *log {
	var messages []event.Message
	for n := range 300 {
		messages = append(messages, fact(fmt.Sprint("k", n%7), n))
	}
	l := &log{events: seal(event.Before(epoch), messages...)}
	l.cfg.Epoch, l.cfg.Floor, l.cfg.Tip = epoch, 1, 300
	return l
}

// move moves an event from one place to another and renumbers all.
func (l *log) move(from, to int) {
	s := l.events[from-1]
	l.events = slices.Insert(slices.Delete(l.events, from-1, from), to-1, s)
}

// drop removes events, and the log declares that it never had them.
func (l *log) drop(from, to int) {
	l.events = slices.Delete(l.events, from-1, to)
	l.cfg.Tip -= uint64(to - from + 1)
}

func TestReasonDescribesDetection(t *testing.T) {
	for name, c := range map[string]struct {
		tamper func(l *log)
		want   string
	}{
		"altered": {func(l *log) { l.events[4].Message.Header["ce-causemanager"] = "mallory" },
			"altered at 5: neither its checksum nor its id matches its content"},
		"altered where ids do not show it": {func(l *log) { l.events[4].Message.Header["ce-recordedtime"] = "2026-11-21T15:00:00Z" },
			"altered at 5: its checksum does not match after event 4: it was altered, or event 4 was and its checksum recomputed"},
		"the first was altered": {func(l *log) { l.events[0].Message.Header["ce-recordedtime"] = "2026-11-21T15:00:00Z" },
			"altered at 1: its checksum does not match"},
		"the number was altered": {func(l *log) { l.events[4].Pos.Seq = 99 },
			"altered at 5: it is event 5 by its checksum, and its number was changed to 99"},
		"sealed again with its old id": {func(l *log) {
			m := l.events[4].Message
			m.Header["ce-causemanager"] = "mallory"
			l.events[4] = seal(event.Mark{Pos: l.events[3].Pos, Chain: chain(l.events[3])}, m)[0]
		}, "altered at 5: its id does not match its content: it was altered and its checksum recomputed"},
		"dropped": {func(l *log) { l.drop(5, 5) },
			"dropped at 5: event 5 is missing: the next one is event 6 by its checksum"},
		"many dropped and numbered anew": {func(l *log) { l.drop(5, 280); l.renumber() },
			"dropped at 5: events 5 to 280 are missing: the next one is event 281 by its checksum; it was renumbered to 5"},
		"dropped at the beginning": {func(l *log) { l.events = l.events[2:] },
			"dropped at 1: events 1 to 2 are missing: the next one is event 3 by its checksum"},
		"dropped before an altered one": {func(l *log) { l.drop(5, 6); delete(l.events[4].Message.Header, "ce-chain") },
			"dropped at 5: event 5 is missing, and later events were changed as well"},
		"cut off": {func(l *log) { l.events = l.events[:290] },
			"dropped at 291: the log ends here, and declares events up to 300"},
		"the last was cut off": {func(l *log) { l.events = l.events[:299] },
			"dropped at 300: the log ends before it, and declares it as its last event"},
		"the last but one was dropped": {func(l *log) { l.events = slices.Delete(l.events, 298, 299); l.renumber() },
			"dropped at 299: event 299 is missing: the log declares events up to 300, and has fewer"},
		"another epoch": {func(l *log) {
			l.events = slices.Insert(l.events, 4, seal(event.Before("elsewhere"), fact("x", 1))...)
		}, "inserted at 5: it is of another epoch, elsewhere"},
		"a copy of an earlier one": {func(l *log) { l.events = slices.Insert(l.events, 4, l.events[1]) },
			"inserted at 5: it is a copy of event 2, which came before"},
		"a copy of a later one": {func(l *log) { l.events = slices.Insert(l.events, 4, l.events[250]); l.renumber() },
			"inserted at 5: it is a copy of an event that comes later"},
		"a copy of one that is long past": {func(l *log) { l.events = slices.Insert(l.events, 150, l.events[1]) },
			"inserted at 151: it is numbered 2, an event that came before; event 151 follows it"},
		"inserted and numbered anew": {func(l *log) {
			s := seal(event.Before("elsewhere"), fact("x", 1))[0]
			s.Pos.Epoch = epoch
			l.events = slices.Insert(l.events, 4, s)
			l.renumber()
		}, "inserted at 5: its checksum continues nothing, and the event that belongs here follows it; it was renumbered to 6"},
		"inserted and sealed": {func(l *log) {
			l.events = slices.Insert(l.events, 4, seal(event.Mark{Pos: l.events[3].Pos, Chain: chain(l.events[3])}, fact("x", 1), fact("x", 2))...)
		}, "inserted at 5: its checksum was made to fit, and event 5 follows the one before it"},
		"behind the end": {func(l *log) {
			l.events = append(l.events, seal(event.Mark{Pos: l.events[299].Pos, Chain: chain(l.events[299])}, fact("x", 1))...)
		}, "inserted at 301: the log declares event 300 as its last one"},
		"behind the end, of elsewhere": {func(l *log) {
			s := seal(event.Mark{Pos: event.Pos{Epoch: epoch, Seq: 300}}, fact("x", 1))[0]
			l.events = append(l.events, s)
		}, "inserted at 301: the log declares event 300 as its last one, and has more"},
		"moved to the front": {func(l *log) { l.move(250, 5) },
			"reordered at 5: event 250 by its checksum stands before event 5"},
		"moved to the front and numbered anew": {func(l *log) { l.move(250, 5); l.renumber() },
			"reordered at 5: event 250 by its checksum stands before event 5; it was renumbered to 5"},
		"moved to the back": {func(l *log) { l.move(5, 250) },
			"reordered at 5: event 5 comes only 245 events later"},
		"moved to the back and numbered anew": {func(l *log) { l.move(5, 250); l.renumber() },
			"reordered at 5: event 5 comes only 245 events later; it was renumbered to 250"},
		"a long stretch was turned round": {func(l *log) { slices.Reverse(l.events[4:250]) },
			"reordered at 5: event 5 comes only 245 events later"},
		"neighbours changed places": {func(l *log) { l.move(5, 6) },
			"reordered at 5: event 6 by its checksum stands before event 5"},
	} {
		t.Run(name, func(t *testing.T) {
			l := long()
			c.tamper(l)
			f := l.audit(t).Finding
			if f == nil {
				t.Fatalf("nothing was found, want %s", c.want)
			}
			if got := fmt.Sprintf("%s at %d: %s", f.Kind, f.Seq, f.Reason); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

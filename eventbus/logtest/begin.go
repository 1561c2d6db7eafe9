package logtest

import (
	"fmt"
	"testing"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// begunKnowing checks Begin of a valid log, with various known Marks.
func begunKnowing(t *testing.T, s Store) {
	log, begin := begun(t, s)
	first := mustRecord(t, log, Fact("a", 1), 0)
	tip := mustRecord(t, log, Fact("a", 2), 1)
	for what, known := range map[string]event.Mark{
		"nothing": {}, "its beginning": event.Before(begin.Epoch), "its first event": first, "its tip": tip,
		"another epoch": {Pos: event.Pos{Epoch: "another", Seq: 99}},
	} {
		if mark, err := s.Open(t).Begin(timed(t), known); err != nil || mark != tip {
			t.Errorf("Begin knowing %s: %v, %v, want %v", what, mark, err, tip)
		}
	}
	ahead := tip
	ahead.Seq++
	altered := first
	altered.Chain[0]++
	for what, known := range map[string]event.Mark{"more than there is": ahead, "another first event": altered} {
		refusesToBegin(t, s, "Begin knowing "+what, known)
	}
	mustAppend(t, log, Fact("a", 3), 2) // which does not disturb writers that had begun
}

// refusesToBegin checks that Begin returns ErrDamaged, and that nothing can be written without
// it.
func refusesToBegin(t *testing.T, s Store, what string, known event.Mark) {
	t.Helper()
	log := s.Open(t)
	_, err := log.Begin(timed(t), known)
	expectError(t, what, err, eventbus.ErrDamaged)
	_, err = log.Append(timed(t), Fact("new", 1), 0)
	expectError(t, what+" and append all the same", err, eventbus.ErrNoLog)
}

// some records a few facts, and gives their Marks.
func some(t *testing.T, log eventbus.Log, n int) []event.Mark {
	t.Helper()
	marks := []event.Mark{}
	for i := range n {
		marks = append(marks, mustRecord(t, log, Fact(fmt.Sprint("k", i), i), 0))
	}
	return marks
}

func rewound(t *testing.T, s Store) {
	log, _ := begun(t, s)
	marks := some(t, log, 5)
	s.Rewind(t, marks[2])
	refusesToBegin(t, s, "Begin of a rewound log, knowing its tip", marks[4])
	for what, known := range map[string]event.Mark{"nothing": {}, "an older place": marks[1]} {
		again := s.Open(t)
		if mark, err := again.Begin(timed(t), known); err != nil || mark != marks[2] {
			t.Errorf("Begin of a rewound log, knowing %s: %v, %v", what, mark, err)
		}
	}
	// Written again beyond the known place: it is another log there.
	again, _ := begun(t, s)
	for i := range 5 {
		mustAppend(t, again, Fact(fmt.Sprint("other", i), i), 0)
	}
	refusesToBegin(t, s, "Begin of a log that was rewound and written again", marks[4])
	second, err := again.Restart(timed(t), marks[0].Epoch)
	if err != nil || second.Epoch == marks[0].Epoch {
		t.Errorf("Restart of a rewound log: %v, %v", second, err)
	}
}

// changed returns the test of a log in which one event has been changed.
func changed(seq uint64, change func(*event.Message)) func(*testing.T, Store) {
	return func(t *testing.T, s Store) {
		log, _ := begun(t, s)
		some(t, log, 4)
		s.Damage(t, seq, change)
		refusesToBegin(t, s, "Begin", event.Mark{})
	}
}

func dropped(t *testing.T, s Store) {
	log, _ := begun(t, s)
	marks := some(t, log, 5)
	s.Drop(t, 3)
	refusesToBegin(t, s, "Begin of a log with a gap", event.Mark{})
	err := endOf(t, 0, mustRead(t, s.Open(t), event.Pos{}))
	expectError(t, "Next of a cursor at the gap", err, eventbus.ErrDamaged)
	if _, err := s.Open(t).Restart(timed(t), marks[0].Epoch); err != nil {
		t.Errorf("Restart: %v", err)
	}
}

func beheaded(t *testing.T, s Store) {
	log, _ := begun(t, s)
	some(t, log, 5)
	s.Drop(t, 1)
	refusesToBegin(t, s, "Begin of a log without its first event", event.Mark{})
}

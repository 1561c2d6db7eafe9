package audit_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/eventbus/archive"
	"switchyard.dev/eventbus/audit"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

const epoch = "4y2kq7m9x1v3tz8b"

// log is a log after tampering.
type log struct {
	events []event.Stored
	cfg    audit.Config
}

func (l log) next() func() (event.Stored, error) {
	rest := l.events
	return func() (event.Stored, error) {
		if len(rest) == 0 {
			return event.Stored{}, io.EOF
		}
		s := rest[0]
		rest = rest[1:]
		return s, nil
	}
}

func (l log) audit(t testing.TB) audit.Report {
	t.Helper()
	got, err := audit.Run(l.next(), l.cfg)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// at returns the place of the event at an index.
func (l log) at(i int) uint64 { return l.cfg.Floor + uint64(i) }

// fact returns the nth version of one of a few facts.
func fact(key string, n int) event.Message {
	m, err := event.Encode(event.Fact{
		Key: event.RoutingKey(key), Time: time.Unix(int64(n), 0).UTC(), Cause: event.Cause{Manager: "kubectl", Generation: int64(n)},
		Data: &factv1.RoutingDeclared{RoutingKey: key, Members: []*factv1.Member{{Name: fmt.Sprint("w", n)}}},
	})
	if err != nil {
		panic(err)
	}
	return m
}

func floor() event.Message {
	m, err := event.Encode(event.Fact{Key: event.LogFloor, Data: &factv1.Floor{Reason: "age"}})
	if err != nil {
		panic(err)
	}
	return m
}

func seal(last event.Mark, messages ...event.Message) []event.Stored {
	var out []event.Stored
	for _, m := range messages {
		m, last = event.Seal(m, last, time.Date(2026, 11, 21, 14, 3, 0, int(last.Seq), time.UTC))
		out = append(out, event.Stored{Pos: last.Pos, Message: m})
	}
	return out
}

func chain(s event.Stored) event.Chain {
	c, err := event.ChainOf(s.Message)
	if err != nil {
		panic(err)
	}
	return c
}

// draw returns a log of some events, from event 1 or from a floor.
func draw(t *rapid.T, least int) log {
	n := rapid.IntRange(least, 40).Draw(t, "events")
	var messages []event.Message
	for i := range n {
		messages = append(messages, fact(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), i))
	}
	last := event.Before(epoch)
	if from := rapid.Uint64Range(0, 500).Draw(t, "floor"); from > 0 {
		last = event.Mark{Pos: event.Pos{Epoch: epoch, Seq: from}, Chain: event.Chain{7}}
		messages[0] = floor()
	}
	return log{seal(last, messages...), audit.Config{Epoch: epoch, Floor: last.Seq + 1, Tip: last.Seq + uint64(n)}}
}

// renumber makes the places follow each other again.
func (l *log) renumber() {
	l.events = slices.Clone(l.events)
	for i := range l.events {
		l.events[i].Pos.Seq = l.at(i)
	}
}

// edit returns the event at an index to change, without changing the log it was
// drawn from.
func (l *log) edit(i int) *event.Stored {
	l.events = slices.Clone(l.events)
	l.events[i].Message.Header = maps.Clone(l.events[i].Message.Header)
	return &l.events[i]
}

// tampering changes a log and returns the expected finding.
type tampering func(t *rapid.T, l *log) (audit.Kind, uint64)

var tamperings = map[string]tampering{
	"an event was altered": func(t *rapid.T, l *log) (audit.Kind, uint64) {
		i := rapid.IntRange(0, len(l.events)-1).Draw(t, "place")
		switch s := l.edit(i); rapid.IntRange(0, 5).Draw(t, "what") {
		case 0:
			s.Message.Data = append(slices.Clone(s.Message.Data), ' ')
		case 1:
			s.Message.Header["ce-causemanager"] = "mallory"
		case 2:
			s.Message.Header["ce-recordedtime"] = "2026-11-21T15:00:00Z"
		case 3:
			s.Message.Header["ce-chain"] = strings.Repeat("ab", 32)
		case 4:
			delete(s.Message.Header, "ce-chain")
		default:
			s.Message.Subject = "key.other"
		}
		return audit.Altered, l.at(i)
	},
	"an event was altered and its id computed again": func(t *rapid.T, l *log) (audit.Kind, uint64) {
		i := rapid.IntRange(0, len(l.events)-1).Draw(t, "place")
		s := l.edit(i)
		other := fact("mallory", 99)
		for _, name := range []string{"ce-chain", "ce-recordedtime"} {
			other.Header[name] = s.Message.Header[name]
		}
		s.Message = other
		return audit.Altered, l.at(i)
	},
	"an event was altered and sealed again with its old id": func(t *rapid.T, l *log) (audit.Kind, uint64) {
		i := rapid.IntRange(1, len(l.events)-1).Draw(t, "place")
		m := fact("a", 99)
		m.Header["ce-id"] = l.events[i].Message.Header["ce-id"]
		l.events = slices.Clone(l.events)
		l.events[i] = seal(event.Mark{Pos: l.events[i-1].Pos, Chain: chain(l.events[i-1])}, m)[0]
		return audit.Altered, l.at(i)
	},
	"the number of an event was altered": func(t *rapid.T, l *log) (audit.Kind, uint64) {
		i := rapid.IntRange(0, len(l.events)-1).Draw(t, "place")
		l.edit(i).Pos.Seq = rapid.Uint64Range(l.cfg.Tip+1, l.cfg.Tip+9).Draw(t, "number")
		return audit.Altered, l.at(i)
	},
	"events were dropped": func(t *rapid.T, l *log) (audit.Kind, uint64) {
		i := rapid.IntRange(0, len(l.events)-1).Draw(t, "place")
		n := rapid.IntRange(1, len(l.events)-i).Draw(t, "how many")
		l.events = slices.Delete(slices.Clone(l.events), i, i+n)
		return audit.Dropped, l.at(i)
	},
	"events were inserted": func(t *rapid.T, l *log) (audit.Kind, uint64) {
		i := rapid.IntRange(0, len(l.events)-1).Draw(t, "place")
		var more []event.Stored
		for range rapid.IntRange(1, 4).Draw(t, "how many") {
			s := seal(event.Before("elsewhere"), fact("mallory", 99))[0]
			s.Pos = event.Pos{Epoch: epoch, Seq: rapid.Uint64Range(1, l.cfg.Tip+3).Draw(t, "number")}
			more = append(more, s)
		}
		l.events = slices.Insert(slices.Clone(l.events), i, more...)
		return audit.Inserted, l.at(i)
	},
	"events were inserted and sealed behind those before": func(t *rapid.T, l *log) (audit.Kind, uint64) {
		i := rapid.IntRange(1, len(l.events)-1).Draw(t, "place")
		last := event.Mark{Pos: l.events[i-1].Pos, Chain: chain(l.events[i-1])}
		var messages []event.Message
		for n := range rapid.IntRange(1, 20).Draw(t, "how many") {
			messages = append(messages, fact("mallory", n))
		}
		l.events = slices.Insert(slices.Clone(l.events), i, seal(last, messages...)...)
		return audit.Inserted, l.at(i)
	},
	"an event was inserted behind the end": func(_ *rapid.T, l *log) (audit.Kind, uint64) {
		last := l.events[len(l.events)-1]
		l.events = append(slices.Clone(l.events), seal(event.Mark{Pos: last.Pos, Chain: chain(last)}, fact("mallory", 1))...)
		return audit.Inserted, l.cfg.Tip + 1
	},
	"an event of another epoch was inserted": func(t *rapid.T, l *log) (audit.Kind, uint64) {
		i := rapid.IntRange(0, len(l.events)).Draw(t, "place")
		l.events = slices.Insert(slices.Clone(l.events), i, seal(event.Before("elsewhere"), fact("mallory", 1))...)
		return audit.Inserted, l.at(i)
	},
	"an event was copied": func(t *rapid.T, l *log) (audit.Kind, uint64) {
		from := rapid.IntRange(0, len(l.events)-1).Draw(t, "from")
		to := rapid.IntRange(0, len(l.events)).Filter(func(n int) bool { return n != from }).Draw(t, "to")
		if to == from+1 && to == len(l.events) {
			to = 0 // behind the end it would only be one too many
		}
		l.events = slices.Insert(slices.Clone(l.events), to, l.events[from])
		if to == from {
			to++
		}
		return audit.Inserted, l.at(to)
	},
	"an event was moved": func(t *rapid.T, l *log) (audit.Kind, uint64) {
		from := rapid.IntRange(0, len(l.events)-1).Draw(t, "from")
		to := rapid.IntRange(0, len(l.events)-1).Filter(func(n int) bool { return n != from }).Draw(t, "to")
		s := l.events[from]
		l.events = slices.Insert(slices.Delete(slices.Clone(l.events), from, from+1), to, s)
		return audit.Reordered, l.at(min(from, to))
	},
	"two events changed places": func(t *rapid.T, l *log) (audit.Kind, uint64) {
		a := rapid.IntRange(0, len(l.events)-2).Draw(t, "one")
		b := rapid.IntRange(a+1, len(l.events)-1).Draw(t, "other")
		l.events = slices.Clone(l.events)
		l.events[a], l.events[b] = l.events[b], l.events[a]
		return audit.Reordered, l.at(a)
	},
	"a stretch was turned round": func(t *rapid.T, l *log) (audit.Kind, uint64) {
		a := rapid.IntRange(0, len(l.events)-2).Draw(t, "from")
		b := rapid.IntRange(a+2, len(l.events)).Draw(t, "to")
		l.events = slices.Clone(l.events)
		slices.Reverse(l.events[a:b])
		return audit.Reordered, l.at(a)
	},
}

func TestEachKindOfTamperingIsFoundAtItsPlace(t *testing.T) {
	for name, tamper := range tamperings {
		for _, renumber := range []bool{false, true} {
			if renumber && strings.HasPrefix(name, "the number") {
				continue // it would be put right
			}
			t.Run(fmt.Sprintf("%s, renumbered %v", name, renumber), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					l := draw(t, 4)
					kind, seq := tamper(t, &l)
					if renumber {
						l.renumber()
					}
					got, err := audit.Run(l.next(), l.cfg)
					if err != nil {
						t.Fatal(err)
					}
					switch f := got.Finding; {
					case f == nil:
						t.Fatalf("nothing was found; want %s at %d", kind, seq)
					case f.Kind != kind || f.Seq != seq:
						t.Fatalf("found %s at %d (%s), want %s at %d", f.Kind, f.Seq, f.Reason, kind, seq)
					case f.Index != seq-l.cfg.Floor || got.Events != f.Index || got.Last.Seq != 0 && got.Last.Seq != seq-1:
						t.Fatalf("found behind %d events, and %d came out; want %d", f.Index, got.Events, seq-l.cfg.Floor)
					case f.Reason == "":
						t.Fatal("without a reason")
					}
				})
			})
		}
	}
}

func TestALogThatNobodyTouchedComesOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := draw(t, 1)
		i := rapid.IntRange(0, len(l.events)-1).Draw(t, "known")
		l.cfg.Known = event.Mark{Pos: l.events[i].Pos, Chain: chain(l.events[i])}
		last := l.events[len(l.events)-1]
		got, err := audit.Run(l.next(), l.cfg)
		if err != nil || got.Finding != nil {
			t.Fatalf("%+v, %v", got.Finding, err)
		}
		if got.Events != uint64(len(l.events)) || got.Last != (event.Mark{Pos: last.Pos, Chain: chain(last)}) || !got.Held {
			t.Fatalf("got %+v", got)
		}
	})
}

func TestALogSealedAnewShowsAgainstAMarkOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := draw(t, 3)
		i := rapid.IntRange(1, len(l.events)-1).Draw(t, "altered")
		k := rapid.IntRange(i, len(l.events)-1).Draw(t, "known")
		known := event.Mark{Pos: l.events[k].Pos, Chain: chain(l.events[k])}
		var messages []event.Message
		for n := range l.events[i:] {
			messages = append(messages, fact("mallory", n))
		}
		l.events = append(slices.Clone(l.events[:i]), seal(event.Mark{Pos: l.events[i-1].Pos, Chain: chain(l.events[i-1])}, messages...)...)
		got, err := audit.Run(l.next(), l.cfg)
		if err != nil || got.Finding != nil || got.Held {
			t.Fatalf("without a mark: %+v, %v", got.Finding, err)
		}
		l.cfg.Known = known
		got, err = audit.Run(l.next(), l.cfg)
		if err != nil || got.Finding == nil || got.Finding.Kind != audit.Resealed || got.Finding.Seq != known.Seq {
			t.Fatalf("with a mark at %d: %+v, %v", known.Seq, got.Finding, err)
		}
	})
}

func TestALogThatWasRewoundShowsAgainstAMark(t *testing.T) {
	l := log{events: seal(event.Before(epoch), fact("a", 1), fact("b", 2), fact("a", 3)), cfg: audit.Config{Epoch: epoch, Floor: 1, Tip: 2}}
	l.cfg.Known = event.Mark{Pos: l.events[2].Pos, Chain: chain(l.events[2])}
	l.events = l.events[:2]
	got := l.audit(t)
	if f := got.Finding; f == nil || f.Kind != audit.Dropped || f.Seq != 3 || !strings.Contains(f.Reason, "had reached event 3") || got.Held {
		t.Errorf("got %+v", got)
	}
}

// Resealing a single altered event, id and all, leaves two events of which one is wrong; no
// more can be known.
func TestAnEventSealedAnewIsNamedWithTheOneBehindIt(t *testing.T) {
	l := log{events: seal(event.Before(epoch), fact("a", 1), fact("b", 2), fact("a", 3), fact("b", 4)), cfg: audit.Config{Epoch: epoch, Floor: 1, Tip: 4}}
	l.events[1] = seal(event.Mark{Pos: l.events[0].Pos, Chain: chain(l.events[0])}, fact("mallory", 2))[0]
	got := l.audit(t)
	if f := got.Finding; f == nil || f.Kind != audit.Altered || f.Seq != 3 || !strings.Contains(f.Reason, "or event 2 was and its checksum recomputed") {
		t.Errorf("got %+v", got.Finding)
	}
}

func TestAMarkBelowTheFloorIsNotHeld(t *testing.T) {
	l := log{events: seal(event.Mark{Pos: event.Pos{Epoch: epoch, Seq: 10}}, floor(), fact("a", 1)), cfg: audit.Config{Epoch: epoch, Floor: 11, Tip: 12}}
	l.cfg.Known = event.Mark{Pos: event.Pos{Epoch: epoch, Seq: 4}}
	if got := l.audit(t); got.Finding != nil || got.Held || got.Events != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestALineThatIsNoEventIsFound(t *testing.T) {
	whole := seal(event.Before(epoch), fact("a", 1), fact("b", 2))
	file := `{"switchyard":"log","version":1,"epoch":"` + epoch + `","floor":1,"tip":2}` + "\n" +
		string(event.AppendStructured(nil, whole[0])) + "\nhello\n"
	a, err := archive.NewReader(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	got, err := audit.Run(a.Next, audit.Config{Epoch: epoch, Floor: 1, Tip: 2})
	if f := got.Finding; err != nil || f == nil || f.Kind != audit.Unreadable || f.Seq != 2 || !strings.Contains(f.Reason, "line 3") {
		t.Errorf("got %+v, %v", f, err)
	}
}

func TestALogThatCannotBeReadIsAnError(t *testing.T) {
	gone := errors.New("gone")
	_, err := audit.Run(func() (event.Stored, error) { return event.Stored{}, gone }, audit.Config{Epoch: epoch, Floor: 1, Tip: 2})
	if !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestAMarkOfAnotherEpochIsRefused(t *testing.T) {
	_, err := audit.Run(log{}.next(), audit.Config{Epoch: epoch, Floor: 1, Known: event.Mark{Pos: event.Pos{Epoch: "other", Seq: 1}}})
	if err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("got %v", err)
	}
}

package eventbus_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// recorded returns a log of n events, of which the third is a Floor, and its marks.
func recorded(t *testing.T, n int) ([]event.Stored, []event.Mark) {
	t.Helper()
	last := event.Before("e")
	var events []event.Stored
	var marks []event.Mark
	for i := range n {
		f := event.Fact{Key: event.RoutingKey("k"), Data: &factv1.RoutingDeclared{RoutingKey: "k"}}
		if i == 2 {
			f = event.Fact{Key: event.LogFloor, Data: &factv1.Floor{Reason: "count"}}
		}
		m, err := event.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		m, last = event.Seal(m, last, time.Unix(int64(i), 0))
		events, marks = append(events, event.Stored{Pos: last.Pos, Message: m}), append(marks, last)
	}
	return events, marks
}

func TestALogIsVerified(t *testing.T) {
	events, marks := recorded(t, 6)
	tip := marks[5]
	other := event.Mark{Pos: marks[3].Pos, Chain: event.Genesis("other")}
	cases := map[string]struct {
		events     []event.Stored
		tip, known event.Mark
		whole      bool
	}{
		"as it was recorded":                      {events, tip, event.Mark{}, true},
		"empty, when it has just begun":           {nil, event.Before("e"), event.Mark{}, true},
		"against a place that it passed":          {events, tip, marks[3], true},
		"against its tip":                         {events, tip, tip, true},
		"against a place of another epoch":        {events, tip, event.Mark{Pos: event.Pos{Epoch: "d", Seq: 99}}, true},
		"from a floor":                            {events[2:], tip, marks[3], true},
		"from a floor, against a place before it": {events[2:], tip, marks[0], true},
		"without its first event":                 {events[1:], tip, event.Mark{}, false},
		"without its floor":                       {events[3:], tip, event.Mark{}, false},
		"without one in the middle":               {slices.Delete(slices.Clone(events), 3, 4), tip, event.Mark{}, false},
		"with two in each other's place":          {[]event.Stored{events[0], events[2], events[1]}, marks[2], event.Mark{}, false},
		"without its last event":                  {events[:5], tip, event.Mark{}, false},
		"without any event":                       {nil, tip, event.Mark{}, false},
		"rewound behind a known place":            {events[:3], marks[2], marks[4], false},
		"emptied behind a known place":            {nil, event.Before("e"), marks[4], false},
		"with another event at a known place":     {events, tip, other, false},
		"with an event of another epoch":          {slices.Concat(events[:5], []event.Stored{{Pos: event.Pos{Epoch: "d", Seq: 6}, Message: events[5].Message}}), tip, event.Mark{}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := eventbus.Verify(c.events, c.tip, c.known)
			if c.whole && err != nil || !c.whole && !errors.Is(err, eventbus.ErrDamaged) {
				t.Errorf("whole: %v, but: %v", c.whole, err)
			}
		})
	}
}

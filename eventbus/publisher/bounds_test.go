package publisher_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/publisher"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// hours is a time before noon.
func hours(n float64) time.Time { return noon.Add(-time.Duration(n * float64(time.Hour))) }

func kept(floor, tip uint64) eventbus.Kept {
	return eventbus.Kept{Floor: event.Pos{Epoch: "e", Seq: floor}, Tip: event.Pos{Epoch: "e", Seq: tip}}
}

func sized(k eventbus.Kept, bytes, most uint64) eventbus.Kept {
	k.Bytes, k.MaxBytes = bytes, most
	return k
}

func TestPlan(t *testing.T) {
	bounds := publisher.Bounds{Events: 1000, Age: 8 * time.Hour}
	floors := func(all ...publisher.Floor) []publisher.Floor { return all }
	tests := []struct {
		name    string
		history publisher.History
		want    publisher.Step
	}{
		{"an empty log needs nothing",
			publisher.History{Kept: kept(1, 0), Since: hours(100)}, publisher.Step{}},
		{"a young and short log needs nothing",
			publisher.History{Kept: kept(1, 249), Since: hours(1), Live: 10}, publisher.Step{}},
		{"a quarter of the promised events asks for a floor",
			publisher.History{Kept: kept(1, 250), Since: hours(1), Live: 10}, publisher.Step{Raise: true, Reason: "count"}},
		{"but not fewer events than are to be stated again",
			publisher.History{Kept: kept(1, 250), Since: hours(1), Live: 251}, publisher.Step{}},
		{"a quarter of the age asks for a floor",
			publisher.History{Kept: kept(1, 5), Since: hours(2)}, publisher.Step{Raise: true, Reason: "age"}},
		{"a floor begins the age anew",
			publisher.History{Kept: kept(1, 50), Floors: floors(publisher.Floor{Seq: 10, At: hours(1)}), Whole: 10, Since: hours(5)}, publisher.Step{}},
		{"nothing is forgotten for nothing: an idle log states no floor",
			publisher.History{Kept: kept(1, 20), Floors: floors(publisher.Floor{Seq: 10, At: hours(7)}), Whole: 10, Live: 10, Since: hours(70)}, publisher.Step{}},
		{"a floor that is not whole is made whole first",
			publisher.History{Kept: kept(1, 900), Floors: floors(publisher.Floor{Seq: 300, At: hours(1)}), Since: hours(2)}, publisher.Step{Resume: 300}},
		{"what is promised is not forgotten",
			publisher.History{Kept: kept(1, 1300), Floors: floors(publisher.Floor{Seq: 300, At: hours(1)}, publisher.Floor{Seq: 1200, At: hours(1)}), Whole: 1200, Since: hours(2)},
			publisher.Step{}},
		{"what is more than promised is forgotten",
			publisher.History{Kept: kept(1, 1301), Floors: floors(publisher.Floor{Seq: 300, At: hours(1)}, publisher.Floor{Seq: 1200, At: hours(1)}), Whole: 1200, Since: hours(2)},
			publisher.Step{Forget: 300, Reason: "count"}},
		{"facts that were stated again are no history",
			publisher.History{Kept: kept(1, 1301), Floors: floors(publisher.Floor{Seq: 300, At: hours(1)}, publisher.Floor{Seq: 1200, At: hours(1)}), Whole: 1200, Since: hours(2), Live: 1},
			publisher.Step{}},
		{"the newest floor that will do is taken",
			publisher.History{Kept: kept(1, 5000), Floors: floors(publisher.Floor{Seq: 300, At: hours(1)}, publisher.Floor{Seq: 3900, At: hours(1)}, publisher.Floor{Seq: 4900, At: hours(1)}), Whole: 4900, Since: hours(2)},
			publisher.Step{Forget: 3900, Reason: "count"}},
		{"nothing is forgotten before a floor that is not whole",
			publisher.History{Kept: kept(1, 5000), Floors: floors(publisher.Floor{Seq: 300, At: hours(1)}), Since: hours(2)},
			publisher.Step{Resume: 300}},
		{"a floor before one that is whole will do",
			publisher.History{Kept: kept(1, 1500), Floors: floors(publisher.Floor{Seq: 300, At: hours(1)}, publisher.Floor{Seq: 900, At: hours(1)}), Whole: 900, Since: hours(2)},
			publisher.Step{Forget: 300, Reason: "count"}},
		{"what is too old is forgotten however little it is",
			publisher.History{Kept: kept(1, 20), Floors: floors(publisher.Floor{Seq: 10, At: hours(10)}), Whole: 10, Live: 10, Since: hours(70), Aged: publisher.Floor{Seq: 10, At: hours(2)}},
			publisher.Step{Forget: 10, Reason: "age"}},
		{"but not at once: the clock may have jumped",
			publisher.History{Kept: kept(1, 20), Floors: floors(publisher.Floor{Seq: 10, At: hours(10)}), Whole: 10, Live: 10, Since: hours(70), Aged: publisher.Floor{Seq: 10, At: hours(1.9)}},
			publisher.Step{}},
		{"and not a floor that was found too old later",
			publisher.History{Kept: kept(1, 20), Floors: floors(publisher.Floor{Seq: 10, At: hours(10)}), Whole: 10, Live: 10, Since: hours(70), Aged: publisher.Floor{Seq: 9, At: hours(2)}},
			publisher.Step{}},
		{"the floor that the log begins with is not forgotten again",
			publisher.History{Kept: kept(10, 20), Floors: floors(publisher.Floor{Seq: 10, At: hours(80)}), Whole: 10, Live: 10, Since: hours(90)}, publisher.Step{}},
		{"an eighth of the room asks for a floor",
			publisher.History{Kept: sized(kept(1, 100), 125, 1000), Since: hours(1)}, publisher.Step{Raise: true, Reason: "size"}},
		{"half of the room is forgotten, floor by floor",
			publisher.History{Kept: sized(kept(1, 100), 500, 1000), Since: hours(1), Whole: 90, Floors: floors(publisher.Floor{Seq: 50, At: hours(1)}, publisher.Floor{Seq: 90, At: hours(1)})},
			publisher.Step{Forget: 50, Reason: "size"}},
		{"a full log forgets all that it can",
			publisher.History{Kept: sized(kept(1, 100), 300, 1000), Since: hours(1), Whole: 90, Full: true, Floors: floors(publisher.Floor{Seq: 50, At: hours(1)}, publisher.Floor{Seq: 90, At: hours(1)})},
			publisher.Step{Forget: 90, Reason: "size"}},
		{"a full log without a floor gets one",
			publisher.History{Kept: sized(kept(1, 100), 300, 10000), Since: hours(1), Full: true}, publisher.Step{Raise: true, Reason: "size"}},
		{"a full log that holds only what counts can do nothing",
			publisher.History{Kept: sized(kept(90, 100), 300, 10000), Since: hours(1), Whole: 90, Live: 10, Full: true, Floors: floors(publisher.Floor{Seq: 90, At: hours(1)})},
			publisher.Step{}},
		{"what cannot be read cannot be stated again, so no floor is stated",
			publisher.History{Kept: kept(1, 5000), Since: hours(100), Foreign: true}, publisher.Step{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := publisher.Plan(tt.history, bounds, noon); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
	t.Run("without an age nothing is too old", func(t *testing.T) {
		h := publisher.History{Kept: kept(1, 200), Since: hours(1e6), Whole: 10, Floors: floors(publisher.Floor{Seq: 10, At: hours(1e5)})}
		if got := publisher.Plan(h, publisher.Bounds{Events: 1000}, noon); got != (publisher.Step{}) {
			t.Errorf("%+v", got)
		}
	})
}

// TestAClockThatJumpsAheadCostsNoHistory plans for one log repeatedly, with a clock that is a
// month ahead for a while.
func TestAClockThatJumpsAheadCostsNoHistory(t *testing.T) {
	b := publisher.Bounds{Events: 1000, Age: 7 * 24 * time.Hour}
	h := publisher.History{Kept: kept(1, 20), Floors: []publisher.Floor{{Seq: 10, At: hours(1)}}, Whole: 10, Live: 10, Since: hours(2)}
	const month = 30 * 24 * time.Hour
	forgets := func(now time.Time) bool {
		h.Aged = publisher.Aged(h, b, h.Aged, now)
		return publisher.Plan(h, b, now).Forget > 0
	}
	for i := range 5 { // A month ahead for less than two hours, five times.
		jumped := noon.Add(time.Duration(3*i) * time.Hour).Add(month)
		for m := range 119 {
			if forgets(jumped.Add(time.Duration(m) * time.Minute)) {
				t.Fatalf("jump %d: it forgets after %d minutes", i, m)
			}
		}
		if forgets(noon.Add(time.Duration(3*i+2) * time.Hour)) {
			t.Fatalf("jump %d: it forgets when the clock is right again", i)
		}
	}
	if forgets(noon.Add(month)) {
		t.Error("it forgets at the first look")
	}
	if !forgets(noon.Add(month + 2*time.Hour)) {
		t.Error("it does not forget what is a month old")
	}
}

// TestAPlannedLogKeepsWhatIsPromisedAndNotMuchMore simulates random weeks of a log, one hour at
// a time, with a writer that executes the plan.
func TestAPlannedLogKeepsWhatIsPromisedAndNotMuchMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := publisher.Bounds{
			Events: rapid.Uint64Range(1, 2000).Draw(t, "events"),
			Age:    time.Duration(rapid.IntRange(0, 100).Draw(t, "age")) * time.Hour,
		}
		h := publisher.History{Kept: kept(1, 0), Since: noon, Live: rapid.Uint64Range(0, 300).Draw(t, "live")}
		// An idle log gets no floors, so its age means little.
		rests := rapid.Uint64Range(0, 1).Draw(t, "fewest events in an hour")
		at := map[uint64]time.Time{} // when each event was recorded
		record := func(now time.Time) uint64 {
			h.Kept.Tip.Seq++
			at[h.Kept.Tip.Seq] = now
			return h.Kept.Tip.Seq
		}
		for hour := range rapid.IntRange(1, 300).Draw(t, "hours") {
			now := noon.Add(time.Duration(hour) * time.Hour)
			burst := rapid.Uint64Range(rests, 400).Draw(t, "burst")
			for range burst {
				record(now)
			}
			steps := 0
			plan := func() publisher.Step {
				h.Aged = publisher.Aged(h, b, h.Aged, now)
				return publisher.Plan(h, b, now)
			}
			for step := plan(); step != (publisher.Step{}); step = plan() {
				if steps++; steps > 20 {
					t.Fatalf("it comes to no end with %+v", step)
				}
				switch {
				case step.Raise:
					h.Floors = append(h.Floors, publisher.Floor{Seq: record(now), At: now})
					if rapid.IntRange(0, 3).Draw(t, "dies") == 0 {
						continue // and another one goes on
					}
					fallthrough
				case step.Resume > 0:
					for range h.Live {
						record(now)
					}
					h.Whole = h.Floors[len(h.Floors)-1].Seq
					record(now) // Complete
				case step.Forget > 0:
					gone := step.Forget - 1 // the newest event that is forgotten
					left := h.Kept.Tip.Seq - gone
					old := b.Age > 0 && now.Sub(at[gone]) >= b.Age
					if left < b.Events && !old {
						t.Fatalf("%d events are left of %d, and the newest of the others is %s old", left, b.Events, now.Sub(at[gone]))
					}
					if step.Forget > h.Whole {
						t.Fatalf("floor %d is not whole", step.Forget)
					}
					h.Kept.Floor.Seq = step.Forget
					for len(h.Floors) > 0 && h.Floors[0].Seq < step.Forget {
						h.Floors = h.Floors[1:]
					}
				}
			}
			stride := max(b.Events/4, h.Live, 1) + h.Live + 2
			most := b.Events + h.Live + 2*(stride+burst) + 400
			if n := h.Kept.Tip.Seq + 1 - h.Kept.Floor.Seq; n > most {
				t.Fatalf("%d events are kept, of %d promised; at most %d are expected", n, b.Events, most)
			}
			oldest := now.Sub(at[h.Kept.Floor.Seq])
			const doubt = 3 * time.Hour // two, and the looks are an hour apart
			if rests > 0 && burst > h.Live && b.Age > 0 && oldest > b.Age+max(b.Age/4, time.Hour)+2*time.Hour+doubt {
				t.Fatalf("the oldest event kept is %s old, with an age of %s: %+v", oldest, b.Age, h)
			}
		}
	})
}

package history

import (
	"iter"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// untilComplete cuts events behind each Complete, where there is to be a
// checkpoint.
func untilComplete(events []event.Recorded) iter.Seq[[]event.Recorded] {
	return func(yield func([]event.Recorded) bool) {
		from := 0
		for i, e := range events {
			if _, ok := e.Fact.Data.(*factv1.Complete); ok || i == len(events)-1 {
				if !yield(events[from : i+1]) {
					return
				}
				from = i + 1
			}
		}
	}
}

// mentionsFloor reports whether the writer is about to forget, or has.
func mentionsFloor(events []event.Recorded) bool {
	for _, e := range events {
		if c, ok := e.Fact.Data.(*factv1.Complete); ok && c.GetFloor() > 0 {
			return true
		}
	}
	return false
}

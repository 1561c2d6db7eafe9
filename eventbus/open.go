package eventbus

import (
	"errors"
	"fmt"

	"switchyard.dev/eventbus/event"
)

// Open reads events of a log, as a Follower gives them: those of a newer kind
// without data. ErrDamaged when one does not read.
func Open(events []event.Stored) ([]event.Recorded, error) {
	facts := make([]event.Recorded, 0, len(events))
	for _, s := range events {
		r, err := event.Open(s)
		if err != nil && !errors.Is(err, event.ErrUnknownType) {
			return nil, fmt.Errorf("%w: event %d: %w", ErrDamaged, s.Pos.Seq, err)
		}
		facts = append(facts, r)
	}
	return facts, nil
}

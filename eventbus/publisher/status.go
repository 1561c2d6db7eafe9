package publisher

import (
	"fmt"
	"maps"
	"slices"

	"switchyard.dev/eventbus/event"
)

// Status is how the log fares, for metrics and people.
type Status struct {
	// Why is the reason why the log cannot be written or is not whole; nil when it is.
	Why error
	// Witness is the known state of the log; the zero one before Run knows any.
	Witness Witness
	// Begins is the first event that the log keeps, Floors are how many Floors it
	// keeps.
	Begins uint64
	Floors int
	// Live are how many facts count.
	Live uint64
	// Bytes and MaxBytes are the size and the limit of the log; Crowded means that it takes
	// half of it or did recently. All are of the last check of the bounds.
	Bytes, MaxBytes uint64
	Crowded         bool
	// Ended counts the epochs that ended while this process led, by reason: EndedDamaged,
	// EndedFull, EndedLost.
	Ended map[string]uint64
	// Unsettled are the objects that the last round did not wait for.
	Unsettled []event.Key
}

// Status returns how the log fares.
func (p *Publisher) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{
		Why: p.ready(), Witness: p.known, Begins: max(p.mirror.begins, 1), Floors: len(p.mirror.floors),
		Ended: maps.Clone(p.ended), Unsettled: slices.Clone(p.unsettled),
		Bytes: p.kept.Bytes, MaxBytes: p.kept.MaxBytes, Crowded: p.crowded,
	}
	s.Live, _ = p.mirror.live()
	return s
}

// Ready returns why the log cannot be written or is not whole, nil when it is.
func (p *Publisher) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready()
}

// ready is Ready for one that holds mu.
func (p *Publisher) ready() error {
	switch {
	case p.mirror.epoch == "" && p.why != nil:
		return fmt.Errorf("%w: %w", ErrAway, p.why)
	case p.mirror.epoch == "":
		return ErrAway
	case !p.mirror.whole():
		return fmt.Errorf("the routing log is being filled: %d objects are stated so far", len(p.round.settled))
	}
	return nil
}

// Position is how far the publisher knows the log; the zero Pos while it is
// away.
func (p *Publisher) Position() event.Pos {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mirror.position()
}

package publisher

import (
	"context"
	"maps"
	"slices"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// mirror is what the publisher knows of the log. Its epoch is empty while the
// log is away.
type mirror struct {
	epoch string
	// last is the newest event that is known, followed the newest that was read from the log in
	// order, checkAt the one at which to check the bounds again.
	last, followed, checkAt uint64
	// reach is up to where facts may be stated; the rest of the room is for keeping
	// the log within its bounds. 0 means anywhere.
	reach  uint64
	newest map[event.Key]event.Recorded
	// begins is the Floor that the log begins with; 0 when it begins with its first
	// event. floors are those that it keeps, in order.
	begins uint64
	floors []event.Recorded
	// busy are the keys that are being stated.
	busy map[event.Key]struct{}
}

func (m *mirror) position() event.Pos {
	if m.epoch == "" {
		return event.Pos{}
	}
	return event.Pos{Epoch: m.epoch, Seq: m.last}
}

// lock locks a key for a goroutine that states it, and reports whether that is possible now.
func (m *mirror) lock(key event.Key) bool {
	if _, busy := m.busy[key]; busy || m.epoch == "" {
		return false
	}
	m.busy[key] = struct{}{}
	return true
}

// roomy reports whether there is room for facts.
func (m *mirror) roomy() bool { return m.reach == 0 || m.last < m.reach }

// take takes a fact of the log in, and reports whether it was news.
func (m *mirror) take(r event.Recorded) bool {
	if r.Pos.Epoch != m.epoch {
		return false
	}
	m.last = max(m.last, r.Pos.Seq)
	if r.Pos.Seq <= m.newest[r.Fact.Key].Pos.Seq {
		return false
	}
	m.newest[r.Fact.Key] = r
	if n := len(m.floors); r.Fact.Key == event.LogFloor && (n == 0 || m.floors[n-1].Pos.Seq < r.Pos.Seq) {
		m.floors = append(m.floors, r)
	}
	return true
}

// expected reports whether a fact of this key that is read back from the log causes no
// round: a call here is stating it, or it is about the log itself. (Otherwise two leaders
// that both write Complete would wake each other for ever.)
func (m *mirror) expected(key event.Key) bool {
	_, busy := m.busy[key]
	return busy || ofLog(key)
}

// ofLog reports whether facts of this key are about the log itself.
func ofLog(key event.Key) bool { return key == event.Log || key == event.LogFloor }

// whole reports whether the log has a Complete that speaks for all that it keeps.
func (m *mirror) whole() bool {
	c, ok := m.newest[event.Log].Fact.Data.(*factv1.Complete)
	return ok && c.GetFloor() >= m.begins
}

// floor returns the newest floor that a Complete names; 0 when none does.
func (m *mirror) floor() uint64 {
	c, _ := m.newest[event.Log].Fact.Data.(*factv1.Complete)
	return c.GetFloor()
}

// live counts the facts that count, and reports whether some of them are of a kind
// that is not known here.
func (m *mirror) live() (n uint64, foreign bool) {
	for key, r := range m.newest {
		switch {
		case ofLog(key), r.Fact.Tombstone():
		case r.Fact.Data == nil:
			foreign = true
		default:
			n++
		}
	}
	return n, foreign
}

// forget leaves out what the log has forgotten.
func (m *mirror) forget(floor uint64) {
	m.begins = max(m.begins, floor)
	maps.DeleteFunc(m.newest, func(_ event.Key, r event.Recorded) bool { return r.Pos.Seq < floor })
	m.floors = slices.DeleteFunc(m.floors, func(r event.Recorded) bool { return r.Pos.Seq < floor })
}

// stated returns the places of all live facts of objects.
func (m *mirror) stated() map[event.Key]event.Pos {
	all := make(map[event.Key]event.Pos, len(m.newest))
	for key, r := range m.newest {
		// A fact without data is of a newer kind; a newer leader wrote it.
		if !ofLog(key) && r.Fact.Data != nil && !r.Fact.Tombstone() {
			all[key] = r.Pos
		}
	}
	return all
}

// complete returns a Complete with the counts of the log. It names the newest floor that an
// earlier one has named, from which on the log is still whole; or the one that the log begins
// with.
func (m *mirror) complete(reason string) *factv1.Complete {
	c := &factv1.Complete{Reason: reason, Floor: max(m.floor(), m.begins)}
	for _, r := range m.newest {
		switch r.Fact.Data.(type) {
		case *factv1.RoutingDeclared:
			c.RoutingKeys++
		case *factv1.WorkloadObserved:
			c.Workloads++
		}
	}
	return c
}

// learn takes a fact of the log in and reports whether it was news. The caller
// holds mu.
func (p *Publisher) learn(r event.Recorded) bool {
	news := p.mirror.take(r)
	if r.Pos.Epoch == p.known.Mark.Epoch && r.Pos.Seq > p.known.Mark.Seq {
		p.known.Mark = r.Mark()
	}
	if p.mirror.last >= p.mirror.checkAt {
		p.outgrow()
	}
	return news
}

// outgrow triggers a check of the bounds. The caller holds mu.
func (p *Publisher) outgrow() {
	wake.Notify(p.outgrown)
}

// awaitFollowed waits until everything up to a place was read from the log.
func (p *Publisher) awaitFollowed(ctx context.Context, seq uint64) error {
	return p.changed.Until(ctx, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.mirror.followed >= seq
	})
}

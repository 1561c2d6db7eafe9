package publisher

import (
	"maps"
	"slices"
	"time"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// mirror is what the publisher knows of the log. Its epoch is empty while the
// log is away.
type mirror struct {
	epoch string
	// last is the newest event that is known, followed the newest that was read
	// from the log in order, lookAt the one at which to look at the bounds again.
	last, followed, lookAt uint64
	// reach is up to where facts may be stated; the rest of the room is for keeping
	// the log within its bounds. 0 means anywhere.
	reach  uint64
	newest map[event.Key]event.Recorded
	// begins is the Floor that the log begins with; 0 when it begins with its first
	// event. floors are those that it keeps, in order.
	begins uint64
	floors []event.Recorded
	// busy are the keys that somebody is stating.
	busy map[event.Key]struct{}
}

func (m *mirror) position() event.Pos {
	if m.epoch == "" {
		return event.Pos{}
	}
	return event.Pos{Epoch: m.epoch, Seq: m.last}
}

// free reports whether the key can be stated now.
func (m *mirror) free(key event.Key) bool {
	_, busy := m.busy[key]
	return m.epoch != "" && !busy
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

// ours reports whether it is no wonder that a fact of this key comes from following
// the log: somebody here is stating it, or it is about the log itself. (Two
// leaders that both write Complete must not wake each other for ever.)
func (m *mirror) ours(key event.Key) bool {
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

// stated returns the places of all facts that say that something is there.
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

// complete returns a Complete that counts what the log says. It names the newest
// floor that one has named before, from which on the log is still whole; or the
// one that the log begins with.
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

// Why a round is due, or a Complete is said. The first four are said in it.
const (
	reasonFirst   = "first"   // there was no log before
	reasonEpoch   = "epoch"   // the log began again
	reasonLeader  = "leader"  // this process has just become the writer
	reasonFloor   = "floor"   // all that counts has been stated again behind a floor
	reasonForeign = "foreign" // somebody else has written
	reasonMissed  = "missed"  // facts could not be stated for a while
)

// round is one filling of the log: from asking for every object to Complete.
type round struct {
	// number counts the rounds, so that what was stated before one began does
	// not count for it.
	number int
	// due is why another round is to begin; empty when none is.
	due string
	// settled are the keys that were stated or settled in this round, moved is
	// when the last of them was.
	settled map[event.Key]struct{}
	moved   time.Time
	// filling is true from the beginning of a round to its Complete.
	filling bool
}

// request asks for a round. Of two reasons the first counts.
func (r *round) request(reason string) {
	if r.due == "" {
		r.due = reason
	}
}

// begin begins the round that is due.
func (r *round) begin() (reason string) {
	reason, r.due = r.due, ""
	r.number++
	r.filling, r.settled, r.moved = true, map[event.Key]struct{}{}, time.Now()
	return reason
}

// settle counts a key for the round, if it is still that one.
func (r *round) settle(key event.Key, number int) {
	if r.number != number || r.settled == nil {
		return
	}
	if _, ok := r.settled[key]; !ok {
		r.settled[key], r.moved = struct{}{}, time.Now()
	}
}

// missing returns the keys that are not settled.
func (r *round) missing(keys []event.Key) []event.Key {
	var missing []event.Key
	for _, key := range keys {
		if _, ok := r.settled[key]; !ok {
			missing = append(missing, key)
		}
	}
	return missing
}

package publisher

import (
	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// mirror is what the publisher knows of the log. Its epoch is empty while the
// log is away.
type mirror struct {
	epoch  string
	last   uint64
	newest map[event.Key]event.Recorded
	// busy are the keys that somebody is stating.
	busy map[event.Key]struct{}
}

func (m *mirror) position() event.Pos {
	if m.epoch == "" {
		return event.Pos{}
	}
	return event.Pos{Epoch: m.epoch, Seq: m.last}
}

// free says whether the key can be stated now.
func (m *mirror) free(key event.Key) bool {
	_, busy := m.busy[key]
	return m.epoch != "" && !busy
}

// take takes a fact of the log in, and says whether it was news.
func (m *mirror) take(r event.Recorded) bool {
	if r.Pos.Epoch != m.epoch {
		return false
	}
	m.last = max(m.last, r.Pos.Seq)
	if r.Pos.Seq <= m.newest[r.Fact.Key].Pos.Seq {
		return false
	}
	m.newest[r.Fact.Key] = r
	return true
}

// follow takes a fact in that came from following the log, and says whether
// somebody else wrote it: it is news, and nobody here is stating its key. (Two
// leaders that both write Complete must not wake each other for ever.)
func (m *mirror) follow(r event.Recorded) (foreign bool) {
	_, busy := m.busy[r.Fact.Key]
	return m.take(r) && !busy && r.Fact.Key != event.Log
}

// whole says whether the log has a Complete.
func (m *mirror) whole() bool {
	_, ok := m.newest[event.Log].Fact.Data.(*factv1.Complete)
	return ok
}

// stated gives the places of all facts that say that something is there.
func (m *mirror) stated() map[event.Key]event.Pos {
	all := make(map[event.Key]event.Pos, len(m.newest))
	for key, r := range m.newest {
		// A fact without data is of a newer kind; a newer leader wrote it.
		if key != event.Log && r.Fact.Data != nil && !r.Fact.Tombstone() {
			all[key] = r.Pos
		}
	}
	return all
}

// complete counts what the log says, for a Complete.
func (m *mirror) complete(reason string) *factv1.Complete {
	c := &factv1.Complete{Reason: reason}
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

// Why a round is due. The first three are said in Complete.
const (
	reasonFirst   = "first"   // there was no log before
	reasonEpoch   = "epoch"   // the log began again
	reasonLeader  = "leader"  // this process has just become the writer
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
	// settled are the keys that were stated or settled in this round.
	settled map[event.Key]struct{}
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
	r.filling, r.settled = true, map[event.Key]struct{}{}
	return reason
}

// settle counts a key for the round, if it is still that one.
func (r *round) settle(key event.Key, number int) {
	if r.number == number && r.settled != nil {
		r.settled[key] = struct{}{}
	}
}

// missing gives the keys that are not settled.
func (r *round) missing(keys []event.Key) []event.Key {
	var missing []event.Key
	for _, key := range keys {
		if _, ok := r.settled[key]; !ok {
			missing = append(missing, key)
		}
	}
	return missing
}

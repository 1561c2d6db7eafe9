package publisher

import (
	"cmp"
	"time"

	"switchyard.dev/eventbus/event"
)

// Reasons for a round or a Complete. The first four are recorded in it.
const (
	reasonFirst   = "first"   // there was no log before
	reasonEpoch   = "epoch"   // the log began again
	reasonLeader  = "leader"  // this process has just become the writer
	reasonFloor   = "floor"   // all that counts has been stated again behind a floor
	reasonForeign = "foreign" // another process has written
	reasonMissed  = "missed"  // facts could not be stated for a while
)

// round is one filling of the log: from asking for every object to Complete.
type round struct {
	// number counts the rounds, so that facts stated before a round began do not count for it.
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
	r.due = cmp.Or(r.due, reason)
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

// request asks for a round.
func (p *Publisher) request(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.round.request(reason)
	p.changed.Send()
}

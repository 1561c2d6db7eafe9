package jetstream

import (
	"fmt"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/lists"
)

// sealed is a fact as it is to be recorded.
type sealed struct {
	*waiting
	event event.Stored
	mark  event.Mark
	at    time.Time
}

// decide returns what of a batch is to be recorded, in order and each sealed behind
// the one before it, and answers the rest.
func (l *Log) decide(batch []*waiting) []sealed {
	at := l.replica.now(time.Now())
	tip, newest := l.replica.tip, make(map[string]uint64, len(batch))
	out := make([]sealed, 0, len(batch))
	for _, w := range batch {
		if err := l.refuse(w, newest); err != nil {
			w.answer(event.Mark{}, err)
			continue
		}
		m, mark := event.Seal(w.m, tip, at)
		if size := m.Size(); size > eventbus.MaxEvent {
			w.answer(event.Mark{}, fmt.Errorf("%w: the fact on %s takes %d bytes, more than %d", eventbus.ErrRefused, w.m.Subject, size, eventbus.MaxEvent))
			continue
		}
		out = append(out, sealed{w, event.Stored{Pos: mark.Pos, Message: m}, mark, at})
		tip, newest[m.Subject] = mark, mark.Seq
	}
	return out
}

// waitingOf returns those who wait for facts that were sealed.
func waitingOf(todo []sealed) []*waiting {
	return lists.Map(todo, func(s sealed) *waiting { return s.waiting })
}

// refuse returns why a fact is not to be recorded, if so. The newest events of the
// batch so far count before those of the log.
func (l *Log) refuse(w *waiting, batch map[string]uint64) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	if w.epoch != l.replica.tip.Epoch {
		return epochEnded(w.epoch, l.replica.tip.Epoch)
	}
	newest, ok := batch[w.m.Subject]
	if !ok {
		newest = l.replica.newest[w.m.Subject]
	}
	if newest != w.last {
		return fmt.Errorf("%w: %s is at %d, not at %d", eventbus.ErrConflict, w.m.Subject, newest, w.last)
	}
	return nil
}

// stale reports whether the one who states a fact has seen another event of its key
// than we have: it may be one that we have not read yet, so that a conflict is
// not certain.
func (l *Log) stale(batch []*waiting) bool {
	first := make(map[string]bool, len(batch))
	for _, w := range batch {
		if !first[w.m.Subject] && l.replica.newest[w.m.Subject] != w.last {
			return true
		}
		first[w.m.Subject] = true
	}
	return false
}

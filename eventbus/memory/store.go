package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
)

// Store holds the events of one log at a time. It is safe for concurrent use.
type Store struct {
	mu  sync.Mutex
	tip event.Mark // its epoch is empty while there is no log
	at  time.Time  // when the last event was recorded
	// events is the stretch that is kept: places without gaps, up to the tip.
	events []event.Stored
	bytes  uint64
	// newest is the place of the newest event of each key, of those kept.
	newest map[event.Key]uint64
	// changed is sent whenever anything above changes.
	changed wake.Signal
}

// NewStore returns an empty store: no log has begun.
func NewStore() *Store { return &Store{} }

// Holding returns a store with a log in it: the events up to a tip, which have been
// verified.
func Holding(tip event.Mark, events []event.Stored) *Store {
	s := NewStore()
	s.replace(tip, events)
	return s
}

// Open returns a log on this store.
func (s *Store) Open() *Log { return &Log{store: s} }

// Lose forgets the log, as if its disk were gone.
func (s *Store) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(event.Mark{}, nil)
}

// Damage changes the event at a place behind the log's back, as a bad disk or a
// person would.
func (s *Store) Damage(seq uint64, change func(*event.Message)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.events[s.index(seq)].Message)
}

// Rewind cuts the log off behind a place, as a store that came back from an
// older copy.
func (s *Store) Rewind(to event.Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replace(to, s.events[:s.index(to.Seq+1)])
}

// AppendMessage records a message as it is, whatever its type and whatever is
// there already: what a newer version of the program may have written.
func (s *Store) AppendMessage(m event.Message) (pos event.Pos, err error) {
	key, err := event.KeyOf(m.Subject)
	if err != nil {
		return event.Pos{}, err
	}
	err = s.withLog(context.Background(), func() error {
		pos = s.record(key, m).Pos
		return nil
	})
	return pos, err
}

// withLog calls f with the store locked; ErrNoLog when there is no log in it.
func (s *Store) withLog(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tip.Epoch == "" {
		return eventbus.ErrNoLog
	}
	return f()
}

// The methods below require that mu is locked.

// replace replaces the log in the store.
func (s *Store) replace(tip event.Mark, events []event.Stored) {
	s.tip, s.events, s.bytes, s.newest = tip, events, 0, map[event.Key]uint64{}
	for _, e := range events {
		s.bytes += uint64(e.Message.Size())
		if key, err := event.KeyOf(e.Message.Subject); err == nil {
			s.newest[key] = e.Pos.Seq
		}
	}
	s.changed.Send()
}

// present returns nil when the epoch is the present one.
func (s *Store) present(epoch string) error {
	switch epoch {
	case s.tip.Epoch:
		return nil
	case "":
		return eventbus.ErrNoLog
	}
	return fmt.Errorf("%w: %s, now it is %s", eventbus.ErrEpochEnded, epoch, s.tip.Epoch)
}

// reaches returns nil when the event behind a place is kept, or is to come.
func (s *Store) reaches(behind event.Pos) error {
	if err := s.present(behind.Epoch); err != nil {
		return err
	}
	if behind.Seq+1 < s.floor() {
		return fmt.Errorf("%w: %d is below the floor %d", eventbus.ErrGone, behind.Seq+1, s.floor())
	}
	return nil
}

func (s *Store) record(key event.Key, m event.Message) event.Mark {
	if now := time.Now(); now.After(s.at) {
		s.at = now
	}
	m, s.tip = event.Seal(m, s.tip, s.at)
	s.events = append(s.events, event.Stored{Pos: s.tip.Pos, Message: m})
	s.bytes += uint64(m.Size())
	s.newest[key] = s.tip.Seq
	s.changed.Send()
	return s.tip
}

// index is where the event of a place is, or would be.
func (s *Store) index(seq uint64) int {
	floor := s.floor()
	switch {
	case seq <= floor:
		return 0
	case seq-floor > uint64(len(s.events)):
		return len(s.events)
	}
	return int(seq - floor)
}

// floor is the place of the first event that is kept.
func (s *Store) floor() uint64 { return s.tip.Seq + 1 - uint64(len(s.events)) }

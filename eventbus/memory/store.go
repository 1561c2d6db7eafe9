package memory

import (
	"fmt"
	"slices"
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

// Open returns a log on this store.
func (s *Store) Open() *Log { return &Log{store: s} }

// Lose forgets the log, as if its disk were gone.
func (s *Store) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear(event.Mark{})
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
	events := s.events[:s.index(to.Seq+1)]
	s.clear(to)
	s.events = events
	for _, e := range events {
		s.bytes += uint64(sizeOf(e.Message))
		if key, err := event.KeyOf(e.Message.Subject); err == nil {
			s.newest[key] = e.Pos.Seq
		}
	}
}

// AppendMessage records a message as it is, whatever its type and whatever is
// there already: what a newer version of the program may have written.
func (s *Store) AppendMessage(m event.Message) (event.Pos, error) {
	key, err := event.KeyOf(m.Subject)
	if err != nil {
		return event.Pos{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tip.Epoch == "" {
		return event.Pos{}, eventbus.ErrNoLog
	}
	return s.record(key, m).Pos, nil
}

// begin begins a log when there is none, and otherwise verifies what is there.
func (s *Store) begin(known event.Mark) (event.Mark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tip.Epoch == "" {
		s.clear(event.Before(eventbus.NewEpoch()))
	}
	return s.tip, eventbus.Verify(s.events, s.tip, known)
}

// restart begins the log anew unless another than the one named has begun.
func (s *Store) restart(epoch string) (event.Mark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch != "" && s.tip.Epoch != "" && s.tip.Epoch != epoch {
		return event.Mark{}, fmt.Errorf("%w: %s, now it is %s", eventbus.ErrEpochEnded, epoch, s.tip.Epoch)
	}
	s.clear(event.Before(eventbus.NewEpoch()))
	return s.tip, nil
}

func (s *Store) clear(tip event.Mark) {
	s.tip, s.events, s.bytes, s.newest = tip, nil, 0, map[event.Key]uint64{}
	s.changed.Send()
}

// present returns nil when the epoch is the present one. The caller holds mu.
func (s *Store) present(epoch string) error {
	switch {
	case s.tip.Epoch == "" || epoch == "":
		return eventbus.ErrNoLog
	case s.tip.Epoch != epoch:
		return fmt.Errorf("%w: %s, now it is %s", eventbus.ErrEpochEnded, epoch, s.tip.Epoch)
	}
	return nil
}

func (s *Store) append(epoch string, key event.Key, m event.Message, last uint64) (event.Mark, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.present(epoch); err != nil {
		return event.Mark{}, err
	}
	if newest := s.newest[key]; newest != last {
		return event.Mark{}, fmt.Errorf("%w: %q is at %d, not at %d", eventbus.ErrConflict, key, newest, last)
	}
	return s.record(key, m), nil
}

func (s *Store) record(key event.Key, m event.Message) event.Mark {
	if now := time.Now(); now.After(s.at) {
		s.at = now
	}
	m, s.tip = event.Seal(m, s.tip, s.at)
	s.events = append(s.events, event.Stored{Pos: s.tip.Pos, Message: m})
	s.bytes += uint64(sizeOf(m))
	s.newest[key] = s.tip.Seq
	s.changed.Send()
	return s.tip
}

func (s *Store) forget(floor event.Pos) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.present(floor.Epoch); err != nil {
		return err
	}
	n := s.index(floor.Seq)
	switch {
	case floor.Seq <= s.floor():
		return nil
	case n == len(s.events) || s.events[n].Message.Subject != event.LogFloor.Subject():
		return fmt.Errorf("%w: event %d is no floor to begin at", eventbus.ErrRefused, floor.Seq)
	}
	for _, e := range s.events[:n] {
		s.bytes -= uint64(sizeOf(e.Message))
		if key, err := event.KeyOf(e.Message.Subject); err == nil && s.newest[key] == e.Pos.Seq {
			delete(s.newest, key)
		}
	}
	s.events = slices.Clone(s.events[n:])
	s.changed.Send()
	return nil
}

// index is where the event of a place is, or would be. The caller holds mu.
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

// floor is the place of the first event that is kept. The caller holds mu.
func (s *Store) floor() uint64 { return s.tip.Seq + 1 - uint64(len(s.events)) }

func (s *Store) kept() (eventbus.Kept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tip.Epoch == "" {
		return eventbus.Kept{}, eventbus.ErrNoLog
	}
	return eventbus.Kept{
		Floor: event.Pos{Epoch: s.tip.Epoch, Seq: s.floor()}, Tip: s.tip.Pos, Bytes: s.bytes,
	}, nil
}

// of returns the events of one key, oldest first.
func (s *Store) of(key event.Key) ([]event.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tip.Epoch == "" {
		return nil, eventbus.ErrNoLog
	}
	var out []event.Stored
	for _, e := range s.events {
		if e.Message.Subject == key.Subject() {
			out = append(out, e)
		}
	}
	return out, nil
}

func (s *Store) newestOf(key event.Key) (event.Stored, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tip.Epoch == "" {
		return event.Stored{}, false, eventbus.ErrNoLog
	}
	seq, ok := s.newest[key]
	if !ok {
		return event.Stored{}, false, nil
	}
	return s.events[s.index(seq)], true, nil
}

// follow returns a cursor that begins with the newest event of each key.
func (s *Store) follow() (*cursor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tip.Epoch == "" {
		return nil, eventbus.ErrNoLog
	}
	c := &cursor{store: s, epoch: s.tip.Epoch, seen: s.tip.Seq, closed: make(chan struct{})}
	for _, e := range s.events {
		if key, err := event.KeyOf(e.Message.Subject); err == nil && s.newest[key] == e.Pos.Seq {
			c.first = append(c.first, e)
		}
	}
	return c, nil
}

// read returns a cursor that begins behind a place.
func (s *Store) read(behind event.Pos) (*cursor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if behind == (event.Pos{}) {
		behind = event.Pos{Epoch: s.tip.Epoch, Seq: s.floor() - 1}
	}
	if err := s.present(behind.Epoch); err != nil {
		return nil, err
	}
	if behind.Seq+1 < s.floor() {
		return nil, fmt.Errorf("%w: %d is below the floor %d", eventbus.ErrGone, behind.Seq+1, s.floor())
	}
	return &cursor{store: s, epoch: behind.Epoch, seen: behind.Seq, closed: make(chan struct{})}, nil
}

// after returns at most n events behind seq, and a channel that closes when there
// may be more.
func (s *Store) after(epoch string, seq uint64, n int) ([]event.Stored, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tip.Epoch != epoch || seq > s.tip.Seq {
		return nil, nil, eventbus.ErrEpochEnded
	}
	if seq+1 < s.floor() {
		return nil, nil, fmt.Errorf("%w: %d is below the floor %d", eventbus.ErrGone, seq+1, s.floor())
	}
	from := s.index(seq + 1)
	to := min(len(s.events), from+n)
	return slices.Clone(s.events[from:to]), s.changed.Next(), nil
}

package memory

import (
	"fmt"
	"slices"
	"sort"
	"sync"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/event"
)

// Store holds the events of one log at a time. It is safe for concurrent use.
type Store struct {
	mu    sync.Mutex
	epoch string // empty: there is no log
	seq   uint64
	// events in the order of their sequence; those that fell out of their key's
	// history are marked dead, and swept out when they are half of all.
	events []*record
	dead   int
	// kept lists the live events of each key, oldest first.
	kept map[event.Key][]*record
	// changed is closed, and replaced, whenever anything above changes.
	changed chan struct{}
}

type record struct {
	pos     event.Pos
	message event.Message
	dead    bool
}

// NewStore gives an empty store: no log has begun.
func NewStore() *Store { return &Store{changed: make(chan struct{})} }

// Open gives a log on this store.
func (s *Store) Open() *Log { return &Log{store: s} }

// Lose forgets the log, as if its disk were gone.
func (s *Store) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear("")
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
	if s.epoch == "" {
		return event.Pos{}, eventbus.ErrNoLog
	}
	return s.record(key, m), nil
}

func (s *Store) tip() (event.Pos, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == "" {
		return event.Pos{}, eventbus.ErrNoLog
	}
	return event.Pos{Epoch: s.epoch, Seq: s.seq}, nil
}

func (s *Store) begin(anew bool) event.Pos {
	s.mu.Lock()
	defer s.mu.Unlock()
	if anew || s.epoch == "" {
		s.clear(eventbus.NewEpoch())
	}
	return event.Pos{Epoch: s.epoch, Seq: s.seq}
}

func (s *Store) clear(epoch string) {
	s.epoch, s.seq, s.events, s.dead = epoch, 0, nil, 0
	s.kept = map[event.Key][]*record{}
	s.wake()
}

func (s *Store) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Store) append(epoch string, key event.Key, m event.Message, last uint64) (event.Pos, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.epoch == "" || epoch == "":
		return event.Pos{}, eventbus.ErrNoLog
	case s.epoch != epoch:
		return event.Pos{}, fmt.Errorf("%w: %s, now it is %s", eventbus.ErrEpochEnded, epoch, s.epoch)
	}
	var newest uint64
	if kept := s.kept[key]; len(kept) > 0 {
		newest = kept[len(kept)-1].pos.Seq
	}
	if newest != last {
		return event.Pos{}, fmt.Errorf("%w: %q is at %d, not at %d", eventbus.ErrConflict, key, newest, last)
	}
	return s.record(key, m), nil
}

func (s *Store) record(key event.Key, m event.Message) event.Pos {
	s.seq++
	r := &record{pos: event.Pos{Epoch: s.epoch, Seq: s.seq}, message: m}
	s.events = append(s.events, r)
	s.kept[key] = append(s.kept[key], r)
	if kept := s.kept[key]; len(kept) > eventbus.History {
		kept[0].dead = true
		s.kept[key] = slices.Delete(kept, 0, 1)
		s.dead++
	}
	if s.dead > len(s.events)/2 {
		s.events = slices.DeleteFunc(s.events, func(r *record) bool { return r.dead })
		s.dead = 0
	}
	s.wake()
	return r.pos
}

func (s *Store) newestOf(key event.Key) (*record, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == "" {
		return nil, false, eventbus.ErrNoLog
	}
	kept := s.kept[key]
	if len(kept) == 0 {
		return nil, false, nil
	}
	return kept[len(kept)-1], true, nil
}

func (s *Store) follow() (*follower, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch == "" {
		return nil, eventbus.ErrNoLog
	}
	f := &follower{store: s, epoch: s.epoch, seen: s.seq, closed: make(chan struct{})}
	for _, kept := range s.kept {
		f.newest = append(f.newest, kept[len(kept)-1])
	}
	sort.Slice(f.newest, func(i, j int) bool { return f.newest[i].pos.Seq < f.newest[j].pos.Seq })
	return f, nil
}

// after gives at most n events behind seq, and a channel that closes when there
// may be more. ErrEpochEnded when the epoch is not the present one.
func (s *Store) after(epoch string, seq uint64, n int) ([]*record, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != epoch {
		return nil, nil, eventbus.ErrEpochEnded
	}
	from := sort.Search(len(s.events), func(i int) bool { return s.events[i].pos.Seq > seq })
	to := min(len(s.events), from+n)
	return slices.Clone(s.events[from:to]), s.changed, nil
}

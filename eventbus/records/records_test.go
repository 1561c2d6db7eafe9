package records_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"switchyard.dev/eventbus/records"
	"switchyard.dev/tools/wait"
)

// sink accepts records once gate is closed, and keeps them in got.
type sink struct {
	gate   chan struct{}
	fail   error
	closed bool

	mu   sync.Mutex
	got  []int
	most int // in one Append
}

// Append implements records.Sink.
func (s *sink) Append(ctx context.Context, all []int) error {
	select {
	case <-s.gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail; err != nil {
		s.fail = nil
		return err
	}
	s.got, s.most = append(s.got, all...), max(s.most, len(all))
	return nil
}

// Close implements io.Closer.
func (s *sink) Close() error {
	s.closed = true
	return nil
}

// lost are records that were reported as lost.
type lost struct {
	mu  sync.Mutex
	all []int
}

func (l *lost) add(some []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, some...)
}

func (l *lost) is() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func upTo(from, to int) (all []int) {
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return all
}

// Each record weighs itself. The sink is closed, so that the first record is in an Append, and the others wait.
func TestTheOldestAreLostAndTheOthersArriveInOrder(t *testing.T) {
	s, l := &sink{gate: make(chan struct{}), fail: errors.New("away")}, &lost{}
	q := records.New(t.Context(), records.Config[int]{Sink: s, Maximum: 10, AtOnce: 5, Weight: func(n int) int { return n }, Lost: l.add, Name: "numbers"})
	q.Add(1)
	wait.Eventually(t, time.Minute, "the first is handed over or lost", func() error {
		// More than the maximum: 8 and 7 do not fit beside each other.
		q.Add(8, 7)
		if len(l.is()) < 2 {
			return errors.New("not yet")
		}
		return nil
	})
	q.Add(2, 1, 11)
	q.Add(3, 2, 2, 1)
	close(s.gate)
	q.Close()
	if !s.closed {
		t.Error("the sink is not closed")
	}
	if !slices.Equal(s.got[max(0, len(s.got)-4):], []int{3, 2, 2, 1}) || slices.Contains(s.got, 11) {
		t.Errorf("the sink got %v", s.got)
	}
	if got := l.is(); !slices.Contains(got, 11) || !slices.Contains(got, 8) {
		t.Errorf("lost are %v", got)
	}
	if s.most > 2 {
		t.Errorf("one Append had %d records: 3 and 2 weigh as much as it may have", s.most)
	}
}

func TestEveryRecordArrivesOrIsLost(t *testing.T) {
	s, l := &sink{gate: make(chan struct{})}, &lost{}
	close(s.gate)
	q := records.New(t.Context(), records.Config[int]{Sink: s, Maximum: 100, AtOnce: 7, Lost: l.add, Name: "numbers"})
	for n := range 10000 {
		q.Add(n)
	}
	q.Close()
	all := append(l.is(), s.got...)
	slices.Sort(all)
	if !slices.Equal(all, upTo(0, 9999)) || !slices.IsSorted(s.got) {
		t.Errorf("%d arrived and %d are lost, of 10000", len(s.got), len(l.is()))
	}
}

func TestASinkThatIsAwayAtTheEndLosesTheRest(t *testing.T) {
	s, l := &sink{gate: make(chan struct{})}, &lost{}
	q := records.New(t.Context(), records.Config[int]{Sink: s, Maximum: 100, AtOnce: 7, Lost: l.add, Name: "numbers"})
	q.Add(upTo(1, 20)...)
	q.Close()
	if got := l.is(); !slices.Equal(got, upTo(1, 20)) || len(s.got) > 0 {
		t.Errorf("lost are %v, and arrived %v", got, s.got)
	}
}

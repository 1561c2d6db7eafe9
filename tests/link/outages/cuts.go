package outages

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/tools/wait"
)

// kind is a kind of interruption.
type kind struct {
	name string
	// conditions are those of its rounds in turn.
	conditions []condition
	// detects is how long a session may take to detect it, which does not count.
	detects time.Duration
}

// detectWithin is after how much silence either end considers a session lost.
const detectWithin = 5 * time.Second

var kinds = []kind{
	{"reset", []condition{{reset: true}}, 0},
	{"black-hole", []condition{{lose: [2]bool{true, true}}}, detectWithin},
	{"one-way-black-hole", []condition{{lose: [2]bool{near: true}}, {lose: [2]bool{far: true}}}, detectWithin},
	// A round trip of 2 s, and 64 kbit/s.
	{"slow-network", []condition{{delay: time.Second, rate: 8000}}, 0},
}

// Length is how long an interruption lasts, and how often there is one of each kind.
type Length struct {
	For    time.Duration
	Rounds int
}

// Lengths returns those of a run with so many rounds of the shortest: 50 of 1 s, 50 of 5 s, 10 of 30 s and 3 of 120 s.
func Lengths(rounds int) []Length {
	return []Length{{time.Second, rounds}, {5 * time.Second, rounds}, {30 * time.Second, rounds / 5}, {120 * time.Second, rounds * 3 / 50}}
}

// served is the result of a round.
type served struct {
	kind   string
	length time.Duration
	// took is the time from the end of the interruption to the first answer; counted is without the time for the detection.
	took, counted time.Duration
}

// randomUpTo returns a random part of a duration.
func randomUpTo(d time.Duration) time.Duration { return rand.N(d) }

// cuts interrupts the network of a site for each kind and length, all at the same time.
func (w *world) cuts(lengths []Length) (all []served, err error) {
	var mu sync.Mutex
	group, _ := errgroup.WithContext(w.ctx)
	number := byte(0)
	for _, k := range kinds {
		for _, l := range lengths {
			if l.Rounds == 0 {
				continue
			}
			number++
			s, err := w.newSite(fmt.Sprintf("%s-%.0fs", k.name, l.For.Seconds()), number)
			if err != nil {
				return nil, err
			}
			group.Go(func() error {
				defer s.close()
				if err := s.start(); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				for i := range l.Rounds {
					one, err := s.cut(k, k.conditions[i%len(k.conditions)], l.For)
					if err != nil {
						return fmt.Errorf("%s, round %d: %w", s.name, i+1, err)
					}
					mu.Lock()
					all = append(all, one)
					mu.Unlock()
				}
				return s.running()
			})
		}
	}
	return all, group.Wait()
}

// settle is the longest pause between two interruptions: they begin at any time between two signs of life.
const settle = 2 * time.Second

// cut interrupts the network once, under load.
func (s *site) cut(k kind, as condition, length time.Duration) (out served, err error) {
	if err := s.steady(); err != nil {
		return out, err
	}
	if err := s.pause(settle); err != nil {
		return out, err
	}
	ctx, stop := context.WithCancel(s.ctx)
	var load sync.WaitGroup
	defer load.Wait()
	defer stop()
	load.Go(func() { s.load(ctx) })
	began := time.Now()
	s.line.set(as)
	defer s.line.set(condition{})
	if err := wait.For(s.ctx, length); err != nil {
		return out, err
	}
	s.line.set(condition{})
	ended := time.Now()
	took, err := s.user.served(s.ctx)
	counted := took - max(0, k.detects-ended.Sub(began))
	return served{k.name, length, took, max(0, counted)}, err
}

// load sends requests until ctx ends. Those of an interruption may fail.
func (s *site) load(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	ticker := time.NewTicker(everyOther)
	defer ticker.Stop()
	for {
		all.Go(func() { _ = s.user.get(ctx) })
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

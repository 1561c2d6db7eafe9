package hostile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"switchyard.dev/tests/process"
)

// Site is a target, the pods that attack it, and those that do not.
type Site struct {
	address string
	target  *process.Process
	// attackers are the tokens of the pods that attack.
	attackers []string
	honest    *honest
}

const (
	// honestPods are how many of a cluster's pods stay honest.
	honestPods = 5
	sandboxes  = 100
)

// Open starts a target in front of a cluster, and honest sidecars. The caller
// closes it.
func Open(ctx context.Context, c *Cluster) (s *Site, err error) {
	s = &Site{attackers: c.Tokens[honestPods:]}
	if s.target, err = process.Start(Role); err != nil {
		return nil, err
	}
	opening := Opening{Access: c.server.Access(), Sandboxes: sandboxes, QPS: c.server.Config.QPS}
	if err := s.target.Call("Open", opening, &s.address); err != nil {
		return nil, errors.Join(err, s.target.Close())
	}
	if s.honest, err = beHonest(ctx, s, c.Tokens[:honestPods]); err != nil {
		return nil, errors.Join(err, s.target.Close())
	}
	return s, nil
}

// Close ends the target.
func (s *Site) Close() error { return errors.Join(s.honest.close(), s.target.Close()) }

// Cost is what an attack did to the target.
type Cost struct {
	Name string
	// Requests is how many there were, connections without any among them.
	Requests int
	// Most is how much more memory its process took at most, and Kept how much
	// more it had when the attackers had gone for Within; in MiB.
	Most, Kept float64
	Within     time.Duration
	Lasted     time.Duration
	// Changes is the number of changes during the attack; Slowest is how long one took to reach
	// the last honest sidecar, at most.
	Changes int
	Slowest time.Duration
}

// What an attack may cost.
const (
	// MostMiB is the limit of additional memory.
	MostMiB = 64
	// KeptMiB is how much of that may be left after FreedWithin, since allocators keep some.
	// HeapMiB is by how much the memory in use may have grown: by the changes made in between,
	// and by the stacks that Go keeps for the most goroutines at one time.
	KeptMiB     = 16
	HeapMiB     = 8
	FreedWithin = 5 * time.Second
)

// Suffer runs attacks one after the other, n requests in all, and returns their total cost. The
// error is for a wrong answer, or for an honest sidecar that was not served.
func (s *Site) Suffer(ctx context.Context, name string, n int, attacks ...Attack) (Cost, error) {
	cost := Cost{Name: name}
	before, was, err := s.rest()
	if err != nil {
		return cost, err
	}
	if err := s.target.Forget(); err != nil {
		return cost, err
	}
	begun := time.Now()
	stop := s.honest.begin(ctx)
	for _, a := range attacks {
		made, err := a.Run(ctx, s, n/len(attacks))
		cost.Requests += made
		if err != nil {
			_, _, wrong := stop()
			return cost, errors.Join(fmt.Errorf("%s: %w", a.Name, err), wrong)
		}
	}
	if cost.Changes, cost.Slowest, err = stop(); err != nil {
		return cost, err
	}
	cost.Lasted = time.Since(begun)
	_, most, err := s.target.Memory()
	if err != nil {
		return cost, err
	}
	cost.Most = most - before
	return cost, s.recover(&cost, before, was)
}

// rest returns the memory of the target when it has released unused memory, and its holdings
// then.
func (s *Site) rest() (memory float64, h Holding, err error) {
	if err := s.target.Call("Hold", struct{}{}, &h); err != nil {
		return 0, h, err
	}
	memory, _, err = s.target.Memory()
	return memory, h, err
}

// recover waits until the target is as it was.
func (s *Site) recover(cost *Cost, before float64, was Holding) error {
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		now, h, err := s.rest()
		if err != nil {
			return err
		}
		cost.Kept, cost.Within = now-before, time.Since(begun)
		if cost.Kept <= KeptMiB && h.Heap <= was.Heap+HeapMiB && h.Statuses == was.Statuses && h.Goroutines <= was.Goroutines+slack {
			return nil
		}
		if cost.Within > FreedWithin {
			return fmt.Errorf("%s: %s after the attack the target has %.1f MiB more than before, a heap of %.1f MiB instead of %.1f, %d statuses instead of %d, %d goroutines instead of %d",
				cost.Name, cost.Within.Round(time.Millisecond), cost.Kept, h.Heap, was.Heap, h.Statuses, was.Statuses, h.Goroutines, was.Goroutines)
		}
	}
}

// left waits until the target has no more than so many statuses: clients with others have left.
func (s *Site) left(statuses int) error {
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, h, err := s.rest()
		if err != nil || h.Statuses <= statuses {
			return err
		}
		if time.Since(begun) > FreedWithin {
			return fmt.Errorf("%s after their streams ended %d statuses are left, and not %d", FreedWithin, h.Statuses, statuses)
		}
	}
}

// slack is how many goroutines come and go with the honest sidecars and the API
// server.
const slack = 16

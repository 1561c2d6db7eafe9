package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/tests/sweep/wire"
)

// Stale are runs in which managers read stale data from their caches: events are delayed,
// separately for each kind; and managers are killed repeatedly, and the next one starts with caches
// of an earlier time of the run, the same for all kinds or a different one for each.
type Stale struct {
	// Runs is how many runs there are, Seed that of their random choices.
	Runs int
	Seed uint64
	// Late is how late an event may be.
	Late time.Duration
	// Lives is how many managers there are in a run, if each writes enough to die.
	Lives int
	// Report is called after each run; can be nil.
	Report func(run string, r Result)
}

// mostWrites is after how many writes, at most, a manager of a stale run dies.
const mostWrites = 30

// Run runs them all.
func (s Stale) Run(ctx context.Context, w *World, g Golden) (Outcome, error) {
	var out Outcome
	for i := range s.Runs {
		seed := s.Seed + uint64(i)
		name := fmt.Sprintf("seed %d", seed)
		chance := &chance{random: rand.New(rand.NewPCG(seed, 0x57a1e))}
		result, err := w.Run(ctx, g, func(n int) wire.Faults { return s.faults(ctx, w, chance, n) })
		if err != nil {
			return out, fmt.Errorf("%s: %w", name, err)
		}
		out.add(name, result)
		if s.Report != nil {
			s.Report(name, result)
		}
	}
	return out, nil
}

// faults are those of the n-th manager of a run.
func (s Stale) faults(ctx context.Context, w *World, c *chance, n int) wire.Faults {
	f := wire.Faults{Delay: c.delays(s.Late)}
	if n < s.Lives-1 {
		f.DieAt, f.Way = 1+c.below(mostWrites), wire.Ways()[c.below(2)]
	}
	now := w.revision(ctx)
	if n == 0 {
		c.began = now
		return f
	}
	same := c.between(c.began, now)
	each := c.below(2) == 0
	f.Snapshot = c.remembered(func() string {
		if each {
			return fmt.Sprint(c.between(c.began, now))
		}
		return fmt.Sprint(same)
	})
	return f
}

// chance is what happens by chance in one run. It is safe for concurrent use.
type chance struct {
	mu     sync.Mutex
	random *rand.Rand
	// began is the revision at which the run began.
	began int
}

// below returns a number from 0 to below n.
func (c *chance) below(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

// between returns a number from a to b.
func (c *chance) between(a, b int) int { return a + c.below(max(1, b-a+1)) }

// delays returns how late events come: of each resource at most so much, which is
// random up to most.
func (c *chance) delays(most time.Duration) func(string) time.Duration {
	bounds := map[string]int{}
	var mu sync.Mutex
	return func(resource string) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := bounds[resource]; !ok {
			bounds[resource] = c.below(int(most))
		}
		return time.Duration(c.below(bounds[resource] + 1))
	}
}

// remembered returns for each resource always the same.
func (c *chance) remembered(draw func() string) func(string) string {
	drawn := map[string]string{}
	var mu sync.Mutex
	return func(resource string) string {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := drawn[resource]; !ok {
			drawn[resource] = draw()
		}
		return drawn[resource]
	}
}

// revision returns that of the API server's store; 0 when it cannot be had, which is
// none.
func (w *World) revision(ctx context.Context) int {
	var list corev1.NamespaceList
	if err := w.people.List(ctx, &list); err != nil {
		return 0
	}
	n, err := strconv.Atoi(list.ResourceVersion)
	if err != nil {
		return 0
	}
	return n
}

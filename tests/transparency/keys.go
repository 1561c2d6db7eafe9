package transparency

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/tests/transparency/rig"
	"switchyard.dev/tests/transparency/suites"
)

// routes is what the sidecar knows of a fork's route while it comes and goes.
type routes struct {
	// changes is even while nothing changes: the route is there at 0, 4, 8, …
	changes atomic.Int64
}

// Sure returns the present state, and whether it stays the same until another call with the same
// number.
func (r *routes) Sure() (number int64, open, sure bool) {
	n := r.changes.Load()
	return n, n%4 == 0, n%2 == 0
}

// comeAndGo shuts and opens the application's fork until the context ends, and leaves
// it open.
func (r *routes) comeAndGo(ctx context.Context, its *rig.Rig, a rig.App) error {
	const rest = 50 * time.Millisecond
	lasting := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		for _, change := range []func(context.Context, rig.App) error{its.Shut, its.Open} {
			time.Sleep(rest)
			r.changes.Add(1)
			if err := change(lasting, a); err != nil {
				return fmt.Errorf("change the route of %s: %w", a.Name, err)
			}
			r.changes.Add(1)
		}
	}
	return nil
}

// alternate sends requests of which every second has a key over one connection of each
// protocol, while its route comes and goes.
func alternate(ctx context.Context, its *rig.Rig, a rig.App, during time.Duration) (suites.Tally, int64, error) {
	ctx, stop := context.WithTimeout(ctx, during)
	defer stop()
	var (
		known  routes
		mu     sync.Mutex
		all    suites.Tally
		wg     sync.WaitGroup
		wanted = suites.Sides{Baseline: rig.Baseline, Fork: rig.Fork}
	)
	for _, protocol := range suites.Protocols {
		wg.Go(func() {
			tally := suites.Alternate(ctx, protocol, its.Ways(a).Keyed, wanted, known.Sure)
			mu.Lock()
			defer mu.Unlock()
			all = all.Plus(tally)
		})
	}
	err := known.comeAndGo(ctx, its, a)
	wg.Wait()
	return all, known.changes.Load() / 2, err
}

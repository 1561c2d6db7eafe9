package serve

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
	"switchyard.dev/routeserver/table"
)

// followPause is the least time between two reads of the view.
const followPause = 5 * time.Millisecond

// follower keeps the routes of all workloads that have a stream up to date with the newest
// table. Routes are computed once for all pods of a workload, from the changes; workloads
// without changes are skipped and their streams not woken. A change of the custom headers
// changes the routes of every workload.
type follower struct {
	view   View
	logger *slog.Logger

	mu sync.Mutex
	// newest is the table that all is kept at.
	newest     table.Table
	byWorkload map[table.Workload]*translation
	// unmade are those that are to be made from scratch: new, or failed.
	unmade map[*translation]struct{}
	// stop ends the goroutine that follows; nil while there is none.
	stop context.CancelFunc
}

func newFollower(view View, logger *slog.Logger) *follower {
	return &follower{
		view: view, logger: logger,
		byWorkload: map[table.Workload]*translation{}, unmade: map[*translation]struct{}{},
	}
}

// acquire returns the translation of a workload, up to date. It is kept so until it
// is released.
func (f *follower) acquire(w table.Workload) *translation {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, ok := f.byWorkload[w]
	if !ok {
		one = newTranslation(w)
		f.byWorkload[w] = one
		f.unmade[one] = struct{}{}
	}
	one.users++
	if f.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		f.stop = stop
		go f.follow(ctx)
	}
	t, _ := f.view.Current()
	f.take(t)
	return one
}

// release gives back what acquire gave.
func (f *follower) release(one *translation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.users--; one.users > 0 {
		return
	}
	delete(f.byWorkload, one.workload)
	delete(f.unmade, one)
	if len(f.byWorkload) == 0 {
		f.stop()
		f.stop = nil
		f.newest = table.Table{} // releases the table
	}
}

// follow keeps up with the view until ctx ends.
func (f *follower) follow(ctx context.Context) {
	for {
		changed := f.catchUp()
		looked := time.Now()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		if !wake.Sleep(ctx, followPause-time.Since(looked)) {
			return
		}
	}
}

// catchUp brings all to the newest table, and returns the channel that is closed
// when there is a newer one.
func (f *follower) catchUp() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, changed := f.view.Current()
	if len(f.byWorkload) > 0 {
		f.take(t)
	}
	return changed
}

// take brings all translations to a table. The lock is held.
func (f *follower) take(t table.Table) {
	was := f.newest
	f.newest = t
	switch {
	case !t.Whole():
		if was.Whole() {
			for _, one := range f.byWorkload {
				one.forget()
				f.unmade[one] = struct{}{}
			}
		}
		return
	case was.Whole() && was.Pos() != t.Pos():
		f.change(was, t)
	}
	for one := range f.unmade {
		if one.remake(t) {
			delete(f.unmade, one)
			continue
		}
		if one.logged != one.failure { // once for each reason
			f.logger.Error("rules cannot be translated; the last good ones stay", "error", one.failure)
			one.logged = one.failure
		}
	}
}

// change updates the translations from table was to table t. The caller holds the lock.
func (f *follower) change(was, t table.Table) {
	changes := table.Diff(was, t) // sorted by baseline
	if !slices.Equal(was.KeyHeaders(), t.KeyHeaders()) {
		for _, one := range f.byWorkload { // the head of every workload carries the list
			f.update(one, was, t, changes)
		}
		return
	}
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].Baseline == changes[0].Baseline {
			n++
		}
		if one := f.byWorkload[changes[0].Baseline]; one != nil {
			f.update(one, was, t, changes[:n])
		}
		changes = changes[n:]
	}
}

// update brings one translation to a table, given what changed, of other workloads
// too. The lock is held.
func (f *follower) update(one *translation, was, t table.Table, changes []table.Change) {
	one.supersede(was.Pos())
	if _, unmade := f.unmade[one]; !unmade && !one.update(t, changes) {
		f.unmade[one] = struct{}{} // retried from scratch, and logged
	}
}

// reached returns the version that is due in the newest table, and the newest
// position at which the given one was.
func (f *follower) reached(one *translation, version string) (due string, at event.Pos) {
	f.catchUp()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.newest.Whole() || f.byWorkload[one.workload] != one { // released: not kept up
		return "", event.Pos{}
	}
	return one.reached(version, f.newest.Pos())
}

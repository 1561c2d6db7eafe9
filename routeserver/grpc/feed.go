package routesgrpc

import (
	"context"
	"sync"
	"time"

	"switchyard.dev/routeserver/published"
	"switchyard.dev/routeserver/table"
)

// feed wakes watchers, and spares them doing the same work five hundred times.
//
// At most once in every pause it takes the newest table and makes an edition of
// it: the table, and what a watcher who has the edition before must be told,
// worked out and encoded once for each filter in use. So the first change after
// a quiet time is told at once, and of changes that come one after the other
// those within a pause are told together, in one write to each watcher.
//
// Nothing is queued: the feed holds the newest edition, and a watcher the table
// it was told of. One that is further behind works out its own difference.
type feed struct {
	tables Tables
	pause  time.Duration

	mu     sync.Mutex
	newest *edition
	// apart: a watcher stands at a table of which there is no edition, and must
	// hear of the next one whatever it says.
	apart bool
}

// edition is a table as watchers are told of it.
type edition struct {
	// number counts editions, from 1.
	number uint64
	table  table.Table
	// newer is closed when there is another edition.
	newer chan struct{}

	before table.Table // that of the edition before
	mu     sync.Mutex
	steps  map[published.Filter]*step
}

// step is what leads from one edition to the next through one filter.
type step struct {
	once sync.Once
	ops  []*encoded
}

func newFeed(tables Tables, pause time.Duration) *feed {
	t, _ := tables.Current()
	return &feed{tables: tables, pause: pause, newest: &edition{number: 1, table: t, newer: make(chan struct{})}}
}

// run makes editions until ctx ends.
func (f *feed) run(ctx context.Context) {
	pace := time.NewTimer(0)
	defer pace.Stop()
	for {
		newer := f.publish()
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return
		}
		pace.Reset(f.pause)
	}
}

// publish makes an edition of the newest table, unless it says what the newest
// edition says and so do all watchers. The channel is closed when there is a
// newer table.
func (f *feed) publish() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, newer := f.tables.Current()
	last := f.newest
	if !f.apart && last.table.Whole() == t.Whole() && last.table.Hash() == t.Hash() {
		return newer
	}
	f.apart = false
	f.newest = &edition{
		number: last.number + 1, table: t, newer: make(chan struct{}),
		before: last.table, steps: map[published.Filter]*step{},
	}
	close(last.newer)
	return newer
}

// told is where a watcher stands: the table it was told of.
type told struct {
	table table.Table
	// edition is the number of the edition that says the same.
	edition uint64
	// newer is closed when there is something to tell.
	newer <-chan struct{}
}

// join returns where a watcher begins: at the newest table, which may be newer
// than the newest edition; then its first step is its own.
func (f *feed) join() told {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := told{edition: f.newest.number, newer: f.newest.newer}
	if at.table, _ = f.tables.Current(); at.table.Hash() != f.newest.table.Hash() {
		at.edition, f.apart = noEdition, true
	}
	return at
}

// noEdition: a table of which there is no edition.
const noEdition = 0

// next returns what a watcher must be told to stand at the newest edition.
func (f *feed) next(at told, filter published.Filter) ([]*encoded, told) {
	f.mu.Lock()
	e := f.newest
	f.mu.Unlock()
	to := told{table: e.table, edition: e.number, newer: e.newer}
	if at.edition != noEdition && at.edition+1 == e.number {
		return e.step(filter), to
	}
	return encodeAll(filter.Ops(at.table, e.table)), to
}

// step returns the ops that lead from the edition before to this one.
func (e *edition) step(filter published.Filter) []*encoded {
	e.mu.Lock()
	s := e.steps[filter]
	if s == nil {
		s = &step{}
		e.steps[filter] = s
	}
	e.mu.Unlock()
	s.once.Do(func() { s.ops = encodeAll(filter.Ops(e.before, e.table)) })
	return s.ops
}

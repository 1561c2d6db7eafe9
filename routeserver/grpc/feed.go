package routesgrpc

import (
	"context"
	"sync"
	"time"

	"switchyard.dev/routeserver/published"
	"switchyard.dev/routeserver/table"
)

// feed wakes watchers and shares the work of computing their updates.
//
// At most once per pause it takes the newest table and makes an edition of it: the table, and the
// ops for a watcher at the previous edition, computed and encoded once for each filter in use. So
// the first change after a quiet time is sent at once, and later changes within a pause are sent
// together, in one write to each watcher.
//
// Nothing is queued: the feed keeps the newest edition, and a watcher keeps the table that was last
// sent to it. A watcher that is more than one edition behind computes its own difference.
type feed struct {
	tables Tables
	pause  time.Duration

	mu     sync.Mutex
	newest *edition
	// apart is set while a watcher has a table that is no edition: it must receive the next edition
	// even if its content is the same.
	apart bool
}

// edition is a table as it is sent to watchers.
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

// step contains the ops from one edition to the next for one filter.
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

// publish makes an edition of the newest table, unless its content equals that of the newest
// edition and of the tables of all watchers. The returned channel is closed when there is a newer
// table.
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

// position is the state of a watcher: the table that was last sent to it.
type position struct {
	table table.Table
	// edition is the number of the edition with the same content.
	edition uint64
	// newer is closed when there is an update to send.
	newer <-chan struct{}
}

// join returns where a watcher begins: at the newest table, which may be newer
// than the newest edition; then its first step is its own.
func (f *feed) join() position {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := position{edition: f.newest.number, newer: f.newest.newer}
	if at.table, _ = f.tables.Current(); at.table.Hash() != f.newest.table.Hash() {
		at.edition, f.apart = noEdition, true
	}
	return at
}

// noEdition: a table of which there is no edition.
const noEdition = 0

// next returns the ops that bring a watcher to the newest edition, and its new position.
func (f *feed) next(at position, filter published.Filter) ([]*encoded, position) {
	f.mu.Lock()
	e := f.newest
	f.mu.Unlock()
	to := position{table: e.table, edition: e.number, newer: e.newer}
	if at.edition != noEdition && at.edition+1 == e.number {
		return e.step(filter), to
	}
	return encodeAll(filter.Ops(at.table, e.table)), to
}

// step returns the ops from the previous edition to this one.
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

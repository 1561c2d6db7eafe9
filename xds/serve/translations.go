package serve

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/wake"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
)

// translation is the routes of one workload, at the newest table. All but the
// offer is guarded by the follower's lock, and the history by its own too.
type translation struct {
	workload table.Workload
	users    int
	routes   translate.Translation
	// failure is why the newest rules have no routes, so that the previous ones stay; logged is
	// the last failure that was logged.
	failure, logged string
	// offer is what there is now, and changed is sent when there is another. Streams take
	// them without the follower's lock.
	offer   atomic.Pointer[offer]
	changed wake.Signal

	history sync.Mutex
	// due has the versions that were due lately, the present one last.
	due []dueAt
}

// dueAt is a version that was due, until when, and the newest position at which
// it was; both are zero while it is the present one.
type dueAt struct {
	version string
	pos     event.Pos
	until   time.Time
}

// dueKept is how many versions are remembered: more than a client that is alive
// can be behind by, for it is sent the newest as soon as it has answered.
const dueKept = 512

// offer is the routes at one version, as resources.
type offer struct {
	// parts are the parts and the head; nil while nothing is known.
	parts []translate.Resource
	// whole gives all in one, made when it is first asked for.
	whole func() []translate.Resource
}

func newTranslation(w table.Workload) *translation {
	one := &translation{workload: w}
	one.offer.Store(&offer{})
	return one
}

// forget withdraws the offered routes.
func (t *translation) forget() { t.publish(&offer{}) }

// supersede notes the last position at which the present version was due. A
// version that is due again is noted as such by noteDue.
func (t *translation) supersede(last event.Pos) {
	t.history.Lock()
	defer t.history.Unlock()
	if n := len(t.due); n > 0 && t.due[n-1].until.IsZero() {
		t.due[n-1].pos, t.due[n-1].until = last, time.Now()
	}
}

// update brings the routes to a table, given what changed. It reports whether that
// went well; if not, they stay as they were.
func (t *translation) update(newest table.Table, changes []table.Change) bool {
	routes, err := t.routes.Updated(newest, changes)
	return t.set(routes, err)
}

// remake makes the routes from scratch. It reports whether that went well.
func (t *translation) remake(newest table.Table) bool {
	return t.set(translate.Translate(newest, t.workload))
}

func (t *translation) set(routes translate.Translation, err error) bool {
	if err != nil {
		t.failure = err.Error()
		return false
	}
	t.routes, t.failure, t.logged = routes, "", ""
	t.noteDue(routes.Version())
	t.publish(&offer{
		parts: append(routes.Parts(), routes.Head()),
		whole: sync.OnceValue(func() []translate.Resource {
			whole, err := routes.Whole()
			if err != nil {
				return nil // its parts are our own: they belong together
			}
			return []translate.Resource{whole}
		}),
	})
	return true
}

// noteDue notes that a version is the present one.
func (t *translation) noteDue(version string) {
	t.history.Lock()
	defer t.history.Unlock()
	if i := t.find(version); i >= 0 {
		t.due = slices.Delete(t.due, i, i+1)
	}
	if n := len(t.due); n > 0 && t.due[n-1].until.IsZero() {
		t.due[n-1].until = time.Now() // the last position is unknown
	}
	if len(t.due) == dueKept {
		t.due = slices.Delete(t.due, 0, 1)
	}
	t.due = append(t.due, dueAt{version: version})
}

// find returns the place of a version that was due. The newest are asked for most.
// The history's lock is held.
func (t *translation) find(version string) int {
	for i := len(t.due) - 1; i >= 0; i-- {
		if t.due[i].version == version {
			return i
		}
	}
	return -1
}

// publish offers something else and wakes those who wait for that.
func (t *translation) publish(next *offer) {
	t.offer.Store(next)
	t.changed.Send()
}

// reached returns the version that is due, and the newest position at which the
// given one was; newest is the position of the table that all is kept at.
func (t *translation) reached(version string, newest event.Pos) (due string, at event.Pos) {
	t.history.Lock()
	defer t.history.Unlock()
	if n := len(t.due); n > 0 {
		due = t.due[n-1].version
	}
	i := t.find(version)
	switch {
	case i < 0:
		return due, event.Pos{}
	case t.due[i].until.IsZero():
		return due, newest
	}
	return due, t.due[i].pos
}

// overdue returns the moment since which the given version is no longer due; zero if it is due,
// or unknown.
func (t *translation) overdue(version string) time.Time {
	t.history.Lock()
	defer t.history.Unlock()
	if i := t.find(version); i >= 0 {
		return t.due[i].until
	}
	return time.Time{}
}

package serve

import (
	"log/slog"
	"slices"
	"sync"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/table"
	"switchyard.dev/xds/translate"
)

// translations are those of the workloads that have a stream, each made once
// per version of its rules and shared by all its pods.
type translations struct {
	logger *slog.Logger

	mu         sync.Mutex
	byWorkload map[table.Workload]*translation
}

// translation is the newest one of a workload.
type translation struct {
	workload table.Workload
	logger   *slog.Logger
	users    int // guarded by translations.mu

	mu        sync.Mutex
	made      bool
	failed    bool // the last one could not be made: resources are those before
	hash      table.Hash
	resources []translate.Resource
	// due has the versions that were due lately, oldest first, each with the
	// newest position at which it was.
	due []dueAt
}

type dueAt struct {
	version string
	pos     event.Pos
}

// dueKept is how many versions are remembered: more than a client that is alive
// can be behind by, for it is sent the newest as soon as it has answered.
const dueKept = 64

func newTranslations(logger *slog.Logger) *translations {
	return &translations{logger: logger, byWorkload: map[table.Workload]*translation{}}
}

func (t *translations) acquire(w table.Workload) *translation {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, ok := t.byWorkload[w]
	if !ok {
		one = &translation{workload: w, logger: t.logger}
		t.byWorkload[w] = one
	}
	one.users++
	return one
}

func (t *translations) release(one *translation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(t.byWorkload, one.workload)
	}
}

// of gives the workload's resources in a table. When its rules cannot be
// translated the last good ones stay, or nil when there are none: old routes are
// better than half of the new ones.
func (t *translation) of(newest table.Table) []translate.Resource {
	hash := newest.HashOf(t.workload)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made && t.hash == hash {
		if !t.failed {
			t.note(newest.Pos())
		}
		return t.resources
	}
	resources, err := translate.Resources(newest, t.workload)
	if err != nil {
		t.logger.Error("rules cannot be translated; the last good ones stay", "error", err)
	} else {
		t.resources = resources
		t.note(newest.Pos())
	}
	t.made, t.failed, t.hash = true, err != nil, hash
	return t.resources
}

// note remembers that the present version is the one due at a position. Streams
// look at the table at their own pace, so an older position may come later. The
// lock is held.
func (t *translation) note(pos event.Pos) {
	version := t.resources[0].Version // a workload has one resource
	i := slices.IndexFunc(t.due, func(d dueAt) bool { return d.version == version })
	if i < 0 {
		t.due = append(t.due, dueAt{version, pos})
		if len(t.due) > dueKept {
			t.due = slices.Delete(t.due, 0, 1)
		}
		return
	}
	if was := t.due[i].pos; was.Epoch == pos.Epoch && was.Seq > pos.Seq {
		return
	}
	t.due = append(slices.Delete(t.due, i, i+1), dueAt{version, pos})
}

// reached gives the version that is due in the newest table, and the newest
// position at which the given one was.
func (t *translation) reached(newest table.Table, version string) (due string, at event.Pos) {
	if !newest.Whole() {
		return "", event.Pos{}
	}
	if resources := t.of(newest); len(resources) > 0 {
		due = resources[0].Version
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.IndexFunc(t.due, func(d dueAt) bool { return d.version == version }); i >= 0 {
		at = t.due[i].pos
	}
	return due, at
}

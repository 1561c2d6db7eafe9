package serve

import (
	"log/slog"
	"sync"

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
	hash      table.Hash
	resources []translate.Resource
}

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
		return t.resources
	}
	resources, err := translate.Resources(newest, t.workload)
	if err != nil {
		t.logger.Error("rules cannot be translated; the last good ones stay", "error", err)
	} else {
		t.resources = resources
	}
	t.made, t.hash = true, hash
	return t.resources
}

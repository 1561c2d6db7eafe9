package identify

import (
	"sync"
	"time"

	"switchyard.dev/routeserver/table"
)

// maxAnswers bounds what is kept: when it is reached, all is forgotten and asked
// for again.
const maxAnswers = 16 << 10

// answers keeps which workload an object belongs to, by the object's UID, for a
// while. Errors are not kept.
type answers struct {
	keepFor time.Duration
	clock   func() time.Time

	mu    sync.Mutex
	known map[string]known
}

type known struct {
	workload table.Workload
	until    time.Time
}

func newAnswers(keepFor time.Duration, clock func() time.Time) *answers {
	return &answers{keepFor: keepFor, clock: clock, known: map[string]known{}}
}

// get returns what is known of a UID, or asks. Two callers may ask at once.
func (a *answers) get(uid string, ask func() (table.Workload, error)) (table.Workload, error) {
	now := a.clock()
	a.mu.Lock()
	k, ok := a.known[uid]
	a.mu.Unlock()
	if ok && now.Before(k.until) {
		return k.workload, nil
	}
	workload, err := ask()
	if err != nil {
		return table.Workload{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.known) >= maxAnswers {
		clear(a.known)
	}
	a.known[uid] = known{workload: workload, until: now.Add(a.keepFor)}
	return workload, nil
}

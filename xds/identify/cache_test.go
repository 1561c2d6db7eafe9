package identify

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	"switchyard.dev/routeserver/table"
)

type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func TestAnAnswerIsKeptForAWhileAndAnErrorIsNot(t *testing.T) {
	clock, asked := &clock{time.Unix(0, 0)}, 0
	a := workloadCache{cache.NewLRUExpireCacheWithClock(maxCached, clock)}
	away := errors.New("away")
	ask := func() (table.Workload, error) {
		asked++
		if asked == 1 {
			return table.Workload{}, away
		}
		return table.Workload{Name: "customer"}, nil
	}
	for i, step := range []struct {
		after time.Duration
		asked int
		err   error
	}{
		{0, 1, away}, {0, 2, nil}, {59 * time.Second, 2, nil}, {2 * time.Second, 3, nil},
	} {
		clock.now = clock.now.Add(step.after)
		if w, err := a.get("uid", ask); !errors.Is(err, step.err) || asked != step.asked || err == nil && w.Name != "customer" {
			t.Errorf("step %d: asked %d times, %v, %v", i, asked, w, err)
		}
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	a := newWorkloadCache()
	for i := range maxCached + 10 {
		if _, err := a.get(types.UID(strconv.Itoa(i)), func() (table.Workload, error) { return table.Workload{}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(a.kept.Keys()); n > maxCached {
		t.Errorf("%d are kept", n)
	}
}

package identify

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"

	"switchyard.dev/routeserver/table"
)

const (
	// keepFor is how long an answer is kept.
	keepFor = 60 * time.Second
	// maxCached bounds the cached workloads.
	maxCached = 16 << 10
)

// workloadCache keeps which workload an object belongs to, by the object's UID, for a
// while. Errors are not kept.
type workloadCache struct{ kept *cache.LRUExpireCache }

func newWorkloadCache() workloadCache { return workloadCache{cache.NewLRUExpireCache(maxCached)} }

// get returns the cached workload of a UID, or calls ask. Two callers can ask at once.
func (a workloadCache) get(uid types.UID, ask func() (table.Workload, error)) (table.Workload, error) {
	if known, ok := a.kept.Get(uid); ok {
		return known.(table.Workload), nil
	}
	workload, err := ask()
	if err != nil {
		return table.Workload{}, err
	}
	a.kept.Add(uid, workload, keepFor)
	return workload, nil
}

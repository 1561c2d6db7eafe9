package tunnelholders

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/tunnelholders/holders"
)

// changes are the external workloads to reconcile, each once however often it changed.
type changes struct {
	again publish.Again
	some  chan struct{}
	mu    sync.Mutex
	names map[holders.Workload]bool
}

func newChanges(again publish.Again) *changes {
	return &changes{again: again, some: make(chan struct{}, 1), names: map[holders.Workload]bool{}}
}

// add adds one, without blocking.
func (c *changes) add(w holders.Workload) {
	c.mu.Lock()
	c.names[holders.Workload{Namespace: w.Namespace, Name: w.Name}] = true
	c.mu.Unlock()
	select {
	case c.some <- struct{}{}:
	default:
	}
}

// run hands them over until ctx ends.
func (c *changes) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.some:
		}
		c.mu.Lock()
		names := slices.Collect(maps.Keys(c.names))
		clear(c.names)
		c.mu.Unlock()
		for _, n := range names {
			o := &crdv1.SignadotExternalWorkload{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: n.Name}}
			select {
			case c.again <- ctrlevent.GenericEvent{Object: o}:
			case <-ctx.Done():
				return
			}
		}
	}
}

// countIf returns the number of elements for which is returns true.
func countIf[T any](all iter.Seq[T], is func(T) bool) int {
	n := 0
	for one := range all {
		if is(one) {
			n++
		}
	}
	return n
}

package istioadapter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/reconcilers/meshes"
)

const (
	// atOnce is the number of concurrent writes of VirtualServices. Each may wait for webhooks.
	atOnce = 8
	// missing is for how long the webhook is not counted on, once it has put no routes in.
	missing = time.Minute
)

// enqueue queues the writes of VirtualServices that are out of date. One that was just written and is
// still out of date is delayed. A failed write is already queued for its retry, and one that
// another client has changed waits for the cache.
func (a *Adapter) enqueue(s *state, w map[types.NamespacedName]written) {
	for id, k := range s.objects {
		of, tried := w[id]
		ended := tried && of.failed == ""
		switch {
		case !k.behind():
			a.queue.Forget(id)
		case ended && k.have.GetResourceVersion() == of.got.GetResourceVersion():
			a.queue.AddRateLimited(id)
		case k.status != StatusFailed && !k.lost:
			a.queue.Add(id)
		}
	}
}

// work writes VirtualServices until ctx ends.
func (a *Adapter) work(ctx context.Context, running *sync.WaitGroup) {
	context.AfterFunc(ctx, a.queue.ShutDown)
	for range atOnce {
		running.Go(func() {
			for {
				id, end := a.queue.Get()
				if end {
					return
				}
				a.writeOne(ctx, id)
				a.queue.Done(id)
			}
		})
	}
}

// writeOne writes a VirtualService if it is out of date, and triggers a sync that reads the result.
func (a *Adapter) writeOne(ctx context.Context, id types.NamespacedName) {
	a.mu.Lock()
	k := a.state.objects[id]
	_, unseen := a.written[id]
	a.mu.Unlock()
	if unseen {
		a.queue.AddAfter(id, meshes.FirstPause) // The next sync decides whether a write is needed.
		return
	}
	if k == nil || !k.behind() || !a.Elected() {
		return
	}
	a.rulesFirst(ctx, k.concerns)
	w, err := a.write(ctx, k.have, k.rendering.Object)
	switch {
	case err == nil:
		a.config.Logger.Info("wrote the routes of a VirtualService", "namespace", id.Namespace, "name", id.Name)
	case ctx.Err() != nil:
		return
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), errors.Is(err, context.Canceled):
		w.lost = true // The cache will hear of it.
	default:
		w.failed = fmt.Sprintf("VirtualService %s cannot be written: %v. Retrying.", id, err)
		a.config.Logger.Warn("a VirtualService cannot be written; retrying", "namespace", id.Namespace, "name", id.Name, "error", err)
		a.queue.AddRateLimited(id)
	}
	a.mu.Lock()
	a.written[id] = w
	a.mu.Unlock()
	a.Stir()
}

package controller

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queueWith returns the value of controller.Options.NewQueue for queues that delay events of an object
// until the given moment after its last reconciliation.
//
// The objects that a controller creates cause events, one for each change of each of them, and a
// reconciliation per event would write a status that the next one overwrites. So an object that was
// reconciled within the moment is reconciled again only after it, once for all events until then. Any
// other object is reconciled at once, so that the latency from a user's write to the routing log, and
// from a ready pod to the condition about it, is not increased.
//
// Only events are delayed. Retries after errors, and requeues of a kind, have their own times.
func queueWith(moment time.Duration) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return over(priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter }), moment, time.Now)
	}
}

// queue is a queue of objects to reconcile. It overrides some methods of the embedded queue.
type queue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	moment time.Duration
	now    func() time.Time

	mu sync.Mutex
	// looked is when the latest reconciliation of an object began or ended. Entries older than a moment
	// are dropped whenever its size has doubled.
	looked map[reconcile.Request]time.Time
	full   int
}

// leastFull is from how many objects on the old ones are dropped.
const leastFull = 64

func over(inner priorityqueue.PriorityQueue[reconcile.Request], moment time.Duration, now func() time.Time) *queue {
	return &queue{PriorityQueue: inner, moment: moment, now: now, looked: map[reconcile.Request]time.Time{}, full: leastFull}
}

// Add adds an object after an event.
func (q *queue) Add(r reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, r) }

// AddWithOpts adds objects. It does not change the delay of those with a delay or rate limit in o.
func (q *queue) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	if o.After > 0 || o.RateLimited {
		q.PriorityQueue.AddWithOpts(o, requests...)
		return
	}
	for _, r := range requests {
		o.After = q.wait(r)
		q.PriorityQueue.AddWithOpts(o, r)
	}
}

// wait returns the rest of the moment after the latest reconciliation.
func (q *queue) wait(r reconcile.Request) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	last, ok := q.looked[r]
	if !ok {
		return 0
	}
	return max(0, q.moment-q.now().Sub(last))
}

// Get takes the next object.
func (q *queue) Get() (reconcile.Request, bool) {
	r, _, shutdown := q.GetWithPriority()
	return r, shutdown
}

// GetWithPriority returns the next object, and records that its reconciliation begins.
func (q *queue) GetWithPriority() (reconcile.Request, int, bool) {
	r, priority, shutdown := q.PriorityQueue.GetWithPriority()
	if !shutdown {
		q.note(r)
	}
	return r, priority, shutdown
}

// Done records that the reconciliation of an object has ended.
func (q *queue) Done(r reconcile.Request) {
	q.note(r)
	q.PriorityQueue.Done(r)
}

// note records that an object is reconciled now.
func (q *queue) note(r reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	q.looked[r] = now
	if len(q.looked) <= q.full {
		return
	}
	for r, last := range q.looked {
		if now.Sub(last) >= q.moment {
			delete(q.looked, r)
		}
	}
	q.full = max(leastFull, 2*len(q.looked))
}

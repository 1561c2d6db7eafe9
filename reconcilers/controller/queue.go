package controller

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// queueWith returns what controller.Options.NewQueue makes queues with, in which events
// about one object wait for the given moment after each look at it.
//
// What a controller makes for an object comes back as events, one for each part and
// for each of its states, and a look at each would write a status that the next look
// writes again. So an object that was looked at a moment ago is looked at again only
// when that moment is over, whatever has come together until then. An object at which
// nobody looked for longer is looked at at once: the way from what a user writes to
// the routing log, and from a pod that gets ready to the condition that says so, is
// no longer for it.
//
// Only events wait. When to try again after an error, and when a kind wants to look
// again by itself, is theirs to say.
func queueWith(moment time.Duration) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return over(priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter }), moment, time.Now)
	}
}

// queue is a queue of objects to look at. What it does not say itself is what the one
// within does.
type queue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	moment time.Duration
	now    func() time.Time

	mu sync.Mutex
	// looked is when the latest look at an object began, or ended. Those that are
	// longer ago than a moment are dropped whenever it has doubled.
	looked map[reconcile.Request]time.Time
	full   int
}

// leastFull is from how many objects on the old ones are dropped.
const leastFull = 64

func over(inner priorityqueue.PriorityQueue[reconcile.Request], moment time.Duration, now func() time.Time) *queue {
	return &queue{PriorityQueue: inner, moment: moment, now: now, looked: map[reconcile.Request]time.Time{}, full: leastFull}
}

// Add adds an object that something happened to.
func (q *queue) Add(r reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, r) }

// AddWithOpts adds objects. Those that somebody gives a time of their own have that.
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

// wait is how much of the moment after the latest look is left.
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

// GetWithPriority takes the next object: the look at it begins.
func (q *queue) GetWithPriority() (reconcile.Request, int, bool) {
	r, priority, shutdown := q.PriorityQueue.GetWithPriority()
	if !shutdown {
		q.note(r)
	}
	return r, priority, shutdown
}

// Done ends the look at an object.
func (q *queue) Done(r reconcile.Request) {
	q.note(r)
	q.PriorityQueue.Done(r)
}

// note notes that an object is looked at now.
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

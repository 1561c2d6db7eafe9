package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// inner is a queue that records the delays of added objects.
type inner struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	waits []time.Duration
	next  reconcile.Request
}

func (i *inner) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	for range requests {
		i.waits = append(i.waits, o.After)
	}
}

func (i *inner) GetWithPriority() (reconcile.Request, int, bool) { return i.next, 0, false }

func (i *inner) Done(reconcile.Request) {}

func named(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

const pause = 250 * time.Millisecond

func TestAnEventWaitsForTheMomentAfterALook(t *testing.T) {
	var clock time.Time
	in := &inner{next: named("looked-at")}
	q := over(in, pause, func() time.Time { return clock })
	const ms = time.Millisecond
	for _, step := range []struct {
		what string
		do   func()
		want []time.Duration
	}{
		{"an object at which nobody has looked is looked at at once", func() { q.Add(in.next) }, []time.Duration{0}},
		{"while it is looked at, what happens waits", func() { _, _ = q.Get(); q.Add(in.next) }, []time.Duration{pause}},
		{"the moment begins when the look ends", func() { clock = clock.Add(100 * ms); q.Done(in.next); q.Add(in.next) }, []time.Duration{pause}},
		{"what comes later waits for the rest of it", func() { clock = clock.Add(100 * ms); q.Add(in.next) }, []time.Duration{150 * ms}},
		{"another object does not wait for it", func() { q.Add(named("another")) }, []time.Duration{0}},
		{"each of several waits for its own moment", func() { q.AddWithOpts(priorityqueue.AddOpts{}, named("another"), in.next) }, []time.Duration{0, 150 * ms}},
		{"what a reconciler asks for comes when it says", func() { q.AddWithOpts(priorityqueue.AddOpts{After: ms}, in.next) }, []time.Duration{ms}},
		{"what is tried again waits as its errors say", func() { q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, in.next) }, []time.Duration{0}},
		{"when the moment is over it is looked at at once", func() { clock = clock.Add(150 * ms); q.Add(in.next) }, []time.Duration{0}},
	} {
		in.waits = nil
		step.do()
		if d := cmp.Diff(step.want, in.waits); d != "" {
			t.Errorf("%s: %s", step.what, d)
		}
	}
}

func TestNoMoreIsRememberedThanAMomentNeeds(t *testing.T) {
	var clock time.Time
	q := over(&inner{}, pause, func() time.Time { return clock })
	for i := range 100_000 {
		clock = clock.Add(time.Millisecond)
		q.Done(named(fmt.Sprint(i)))
		if len(q.looked) > 4*int(pause/time.Millisecond) {
			t.Fatalf("after %d looks, %d are remembered", i, len(q.looked))
		}
	}
	if wait := q.wait(named("99999")); wait != pause {
		t.Errorf("the last one is forgotten: it would wait for %s", wait)
	}
}

func TestEverythingComesOnceOutOfARealQueue(t *testing.T) {
	q := queueWith(time.Millisecond)("queue-test", nil)
	defer q.ShutDown()
	const objects, events = 20, 10
	for range events {
		for i := range objects {
			q.Add(named(fmt.Sprint(i)))
		}
	}
	seen := map[reconcile.Request]int{}
	for len(seen) < objects {
		r, shutdown := q.Get()
		if shutdown {
			t.Fatal("the queue ended")
		}
		seen[r]++
		q.Done(r)
	}
	for r, n := range seen {
		if n != 1 {
			t.Errorf("%s came %d times", r.Name, n)
		}
	}
	q.Add(named("0"))
	if r, _ := q.Get(); r.Name != "0" {
		t.Errorf("after a look an event brings %q", r.Name)
	}
}

package main

import (
	"slices"
	"sync"
	"time"
)

// receipt notes when the streams that a change concerns have acknowledged it.
// Changes and acknowledgements meet in a number that grows: the place of the
// change in the log.
type receipt struct {
	load Load

	mu      sync.Mutex
	pods    []progress
	joined  int // pods that have acknowledged anything
	changes []change
	// of lists, for each workload, its changes.
	of [][]int
	// pending is the number of missing acknowledgements, over all streams and changes.
	pending int
	each    []time.Duration
}

type change struct {
	place   uint64
	made    time.Time
	pending int
	last    time.Duration
}

// progress is one pod's, over all streams that it has had.
type progress struct {
	joined bool
	next   int // of receipt.of[workload]
}

func newReceipt(l Load) *receipt {
	return &receipt{load: l, of: make([][]int, l.Workloads), pods: make([]progress, l.Streams)}
}

// make makes a change of a workload and notes it, before it can be acknowledged. The function
// state states it and returns its place.
func (r *receipt) make(workload int, state func() (uint64, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	made := time.Now()
	place, err := state()
	if err != nil {
		return err
	}
	n := r.load.streamsOf(workload)
	r.of[workload] = append(r.of[workload], len(r.changes))
	r.changes = append(r.changes, change{place: place, made: made, pending: n})
	r.pending += n
	return nil
}

// acknowledged notes that a pod has the routes that follow from the log up to a
// place.
func (r *receipt) acknowledged(pod int, place uint64) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &r.pods[pod]
	if !p.joined {
		p.joined = true
		r.joined++
	}
	mine := r.of[pod%r.load.Workloads]
	for ; p.next < len(mine) && r.changes[mine[p.next]].place <= place; p.next++ {
		c := &r.changes[mine[p.next]]
		took := now.Sub(c.made)
		r.each = append(r.each, took)
		c.last = max(c.last, took)
		c.pending--
		r.pending--
	}
}

// state returns how many streams have joined, and how many acknowledgements are
// owed.
func (r *receipt) state() (joined, owed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.joined, r.pending
}

// times returns, for every change, the time to the last stream, and the time for every stream and
// change.
func (r *receipt) times() (last, each []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.changes {
		last = append(last, c.last)
	}
	return last, slices.Clone(r.each)
}

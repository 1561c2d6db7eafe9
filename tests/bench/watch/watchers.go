package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	pb "switchyard.dev/protos/gen/routes"
	"switchyard.dev/tests/bench/frame"
)

// roleWatchers is the process of the watchers.
const roleWatchers = "watchers"

// Watchers is the process of the watchers, as the other one calls it.
type Watchers struct {
	crowd   frame.Crowd[*watcher]
	changes []arrival
	// reading is locked while reading is paused.
	reading sync.RWMutex
}

// arrival is how many watchers have a change, and when the last of them got it.
type arrival struct {
	count atomic.Int64
	last  atomic.Int64
}

// Opening configures the watchers.
type Opening struct {
	Address           string
	Watchers, Changes int
}

// Arrival is when the last of Count watchers had a change, by now().
type Arrival struct {
	Count int
	Last  int64
}

// Open opens watches and answers once each is synced.
func (w *Watchers) Open(o Opening, _ *struct{}) error {
	w.changes = make([]arrival, o.Changes)
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 15 * time.Second})}
	return w.crowd.Connect(o.Watchers, o.Address, options, func(int) *watcher { return &watcher{of: w} }, (*watcher).run)
}

// Hold makes the watchers stop reading; Release lets them go on.
func (w *Watchers) Hold(struct{}, *struct{}) error { w.reading.Lock(); return nil }

// Release ends Hold.
func (w *Watchers) Release(struct{}, *struct{}) error { w.reading.Unlock(); return nil }

// Await answers once every watcher has the rules with this digest, and how many
// ops they were sent since they were synced, on average.
func (w *Watchers) Await(digest uint64, ops *float64) error {
	err := w.crowd.Await(time.Millisecond, func(one *watcher) bool { return one.digest.Load() == digest })
	for _, one := range w.crowd.All {
		*ops += float64(one.ops.Load()) / float64(len(w.crowd.All))
	}
	return err
}

// Arrivals returns the arrival time of each change.
func (w *Watchers) Arrivals(_ struct{}, out *[]Arrival) error {
	for i := range w.changes {
		*out = append(*out, Arrival{Count: int(w.changes[i].count.Load()), Last: w.changes[i].last.Load()})
	}
	return nil
}

// watcher is one watch. Its digest is that of the rules it has.
type watcher struct {
	of     *Watchers
	digest atomic.Uint64
	ops    atomic.Int64
}

func (w *watcher) run(conn *grpc.ClientConn, synced func()) error {
	stream, err := pb.NewRoutesClient(conn).WatchWorkloadRoutingRules(context.Background(), &pb.WorkloadRoutingRulesRequest{})
	if err != nil {
		return err
	}
	live := false
	for {
		w.of.reading.RLock() // until it is not locked
		w.of.reading.RUnlock()
		op, err := stream.Recv()
		if err != nil {
			return err
		}
		at := now()
		if op.GetOp() == pb.WatchOp_SYNCED {
			live = true
			synced()
			continue
		}
		if !live {
			w.take(op)
			continue
		}
		if i, ok := changeOf(op); ok && i < len(w.of.changes) {
			w.of.changes[i].arrived(at)
		}
		w.take(op)
		w.ops.Add(1)
	}
}

// take keeps the digest: the rules that are there, each mixed in once.
func (w *watcher) take(op *pb.WorkloadRoutingRuleOp) {
	w.digest.Store(w.digest.Load() ^ digestOf(op.GetRoute()))
}

func (a *arrival) arrived(at int64) {
	for last := a.last.Load(); at > last && !a.last.CompareAndSwap(last, at); last = a.last.Load() {
	}
	a.count.Add(1)
}

// now reads the clock that all processes of a machine share, in nanoseconds.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // there is no machine without this clock
	}
	return ts.Nano()
}

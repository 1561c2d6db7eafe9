package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	pb "switchyard.dev/protos/gen/routes"
)

// patience is how long anything may take that must happen.
const patience = 2 * time.Minute

// Watchers is the process of the watchers, as the other one calls it over its
// standard input and output.
type Watchers struct {
	conns   []*grpc.ClientConn
	all     []*watcher
	changes []arrival
	gate    gate
	failed  chan error
}

// arrival is how many watchers have a change, and when the last of them got it.
type arrival struct {
	count atomic.Int64
	last  atomic.Int64
}

// Opening says what to watch.
type Opening struct {
	Address           string
	Watchers, Changes int
}

// Arrival is when the last of Count watchers had a change, by now().
type Arrival struct {
	Count int
	Last  int64
}

// serveWatchers answers until its input ends.
func serveWatchers() error {
	server := rpc.NewServer()
	if err := server.Register(&Watchers{failed: make(chan error, 1)}); err != nil {
		return err
	}
	server.ServeConn(struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout})
	return nil
}

// Open opens watches and answers once each is synced.
func (w *Watchers) Open(o Opening, _ *struct{}) error {
	w.changes = make([]arrival, o.Changes)
	synced := make(chan struct{}, o.Watchers)
	for range o.Watchers {
		conn, err := grpc.NewClient("passthrough:"+o.Address, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 15 * time.Second}))
		if err != nil {
			return err
		}
		one := &watcher{of: w}
		w.conns, w.all = append(w.conns, conn), append(w.all, one)
		go func() { w.fail(one.run(pb.NewRoutesClient(conn), synced)) }()
	}
	late := time.After(patience)
	for range o.Watchers {
		select {
		case <-synced:
		case err := <-w.failed:
			return err
		case <-late:
			return errors.New("watches are not synced in time")
		}
	}
	return nil
}

func (w *Watchers) fail(err error) {
	select {
	case w.failed <- err:
	default:
	}
}

// Hold makes the watchers stop reading; Release lets them go on.
func (w *Watchers) Hold(struct{}, *struct{}) error { w.gate.hold(); return nil }

// Release ends Hold.
func (w *Watchers) Release(struct{}, *struct{}) error { w.gate.release(); return nil }

// Await answers once every watcher has the rules with this digest, and how many
// ops they were sent since they were synced, on average.
func (w *Watchers) Await(digest uint64, ops *float64) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		behind, sum := 0, int64(0)
		for _, one := range w.all {
			sum += one.ops.Load()
			if one.digest.Load() != digest {
				behind++
			}
		}
		*ops = float64(sum) / float64(len(w.all))
		select {
		case err := <-w.failed:
			return err
		default:
		}
		if behind == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d watchers do not have the rules that the server has", behind, len(w.all))
		}
	}
}

// Arrivals gives when each change was there.
func (w *Watchers) Arrivals(_ struct{}, out *[]Arrival) error {
	for i := range w.changes {
		*out = append(*out, Arrival{Count: int(w.changes[i].count.Load()), Last: w.changes[i].last.Load()})
	}
	return nil
}

// Close ends all watches.
func (w *Watchers) Close(struct{}, *struct{}) error {
	var errs []error
	for _, c := range w.conns {
		errs = append(errs, c.Close())
	}
	w.conns, w.all = nil, nil
	return errors.Join(errs...)
}

// watcher is one watch. Its digest is that of the rules it has.
type watcher struct {
	of     *Watchers
	digest atomic.Uint64
	ops    atomic.Int64
}

func (w *watcher) run(client pb.RoutesClient, synced chan<- struct{}) error {
	stream, err := client.WatchWorkloadRoutingRules(context.Background(), &pb.WorkloadRoutingRulesRequest{})
	if err != nil {
		return err
	}
	live := false
	for {
		w.of.gate.pass()
		op, err := stream.Recv()
		if err != nil {
			return err
		}
		at := now()
		if op.GetOp() == pb.WatchOp_SYNCED {
			live = true
			synced <- struct{}{}
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

// gate lets readers pass unless it is held.
type gate struct {
	mu   sync.Mutex
	held chan struct{}
}

func (g *gate) pass() {
	g.mu.Lock()
	held := g.held
	g.mu.Unlock()
	if held != nil {
		<-held
	}
}

func (g *gate) hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = make(chan struct{})
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.held)
	g.held = nil
}

// now reads the clock that all processes of a machine share, in nanoseconds.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // there is no machine without this clock
	}
	return ts.Nano()
}

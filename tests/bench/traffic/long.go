package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	crdv1 "switchyard.dev/protos/crd/v1"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/record"
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/captured"
	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/process"
	"switchyard.dev/tests/program"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/wait"
)

// store is the size of the ring, as the chart sets it.
const store = 512 << 20

// whole is a fork's pod under capture, with a real traffic-manager.
type whole struct {
	*captured.Site
	b                  *bench
	manager, container *program.Program
	address            string // of the container
	via                string // the address of traffic-manager for the container; empty: its own
}

// whole starts one with a ring of a size. end stops its processes.
func (b *bench) whole(ctx context.Context, name string, bytes int64) (h *whole, end func(), err error) {
	ctrl.SetLogger(logr.Discard())
	server, err := apiserver.Start()
	if err != nil {
		return nil, nil, err
	}
	h = &whole{b: b}
	end = func() {
		h.container.Kill()
		h.manager.Kill()
		_ = server.Stop() // the figures are there
	}
	dir := filepath.Join(b.dir, name)
	if err = os.Mkdir(dir, 0o700); err == nil {
		h.Site, err = captured.New(ctx, server, "shop", dir, bytes, 100)
	}
	if err == nil {
		h.address, err = captured.Free()
	}
	if err == nil {
		listening := netip.MustParseAddrPort(h.address).Port()
		err = h.Attach(ctx, crdv1.CapturedPort{Application: int32(b.app.Port()), Listening: int32(listening)})
	}
	if err == nil {
		h.manager, err = h.StartManager()
	}
	if err == nil {
		err = h.restart(ctx)
	}
	if err == nil {
		err = h.Applied(ctx)
	}
	if err != nil {
		end()
	}
	return h, end, err
}

// restart starts the container, and waits until it serves.
func (h *whole) restart(ctx context.Context) (err error) {
	if h.container, err = h.StartContainer(sidecar.Built(container), cmp.Or(h.via, h.Address)); err != nil {
		return err
	}
	return wait.Until(ctx, patience, "the container listens", func() error {
		c, err := net.Dial("tcp", h.address)
		if err == nil {
			err = c.Close()
		}
		return err
	})
}

// long sends requests for a while, and compares the identity of the capture with the count of the application.
func (b *bench) long(ctx context.Context, s settings, w io.Writer) error {
	h, end, err := b.whole(ctx, "long", store)
	if err != nil {
		return err
	}
	defer end()
	idle, _, err := process.Memory(h.container.PID())
	if err != nil {
		return err
	}
	before := b.served.arrived.Load()
	watching, stop := context.WithCancel(ctx)
	disk := make(chan int64)
	go func() { disk <- largest(watching, h.Store()) }()
	err = b.mixed(h.address, s)
	stop()
	most := <-disk
	if err != nil {
		return err
	}
	arrived := b.served.arrived.Load() - before
	counts, err := h.Settled(ctx, uint64(arrived)) //nolint:gosec // a count
	if err != nil {
		return err
	}
	b.identity("traffic-long", arrived, 0, counts, w)
	_, container, err := process.Memory(h.container.PID())
	_, manager, also := process.Memory(h.manager.PID())
	figures.AtMost(w, "traffic-long-memory-over-idle", container-idle, "MiB", 64)
	figures.AtMost(w, "traffic-long-memory-traffic-manager", manager, "MiB", 256)
	figures.AtMost(w, "traffic-long-disk", float64(most)/mebi, "MiB", 1024)
	return errors.Join(err, also)
}

// mixed sends requests without bodies, and 1 % with 1 MiB both ways.
func (b *bench) mixed(address string, s settings) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for _, one := range []struct {
		kind
		rate int
	}{{kinds[0], s.rate - s.rate/100}, {kind{"1MiB", mebi}, s.rate / 100}} {
		l, err := dial(address)
		if err != nil {
			return err
		}
		defer l.close() //nolint:errcheck // the answers are there
		all.Go(func() {
			_, err := l.run(one.kind, one.rate, s.long)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
		})
	}
	all.Wait()
	return failed
}

// identity prints that of a capture beside the count of the application. beyond is how many more it can have seen.
func (b *bench) identity(name string, arrived, beyond int64, counts *trafficv1.Counts, w io.Writer) {
	sum := counts.GetStored() + counts.GetSampledOut() + counts.GetEvicted()
	for reason, n := range counts.GetLost() {
		sum += n
		figures.Print(w, name+"-lost-"+reason, float64(n), "exchanges")
	}
	figures.Print(w, name+"-application", float64(arrived), "requests")
	figures.Print(w, name+"-stored", float64(counts.GetStored()), "exchanges")
	figures.Print(w, name+"-evicted", float64(counts.GetEvicted()), "exchanges")
	more := int64(counts.GetSeen()) - arrived //nolint:gosec // a count
	figures.Text(w, name+"-seen-beyond-application", more, "exchanges", fmt.Sprintf("0 to %d", beyond), more >= 0 && more <= beyond)
	difference := int64(counts.GetSeen()) - int64(sum) //nolint:gosec // counts
	figures.Text(w, name+"-seen-not-accounted", difference, "exchanges", "0", difference == 0)
}

// largest returns the most bytes that a folder has until ctx ends.
func largest(ctx context.Context, dir string) (most int64) {
	for ctx.Err() == nil {
		var sum int64
		_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return nil //nolint:nilerr // a file that was evicted
			}
			if info, err := e.Info(); err == nil {
				sum += info.Size()
			}
			return nil
		})
		most = max(most, sum)
		_ = wait.For(ctx, time.Second)
	}
	return most
}

// kill kills the container while it has exchanges that traffic-manager has not taken, and requests in between.
func (b *bench) kill(ctx context.Context, s settings, w io.Writer) error {
	h, end, err := b.whole(ctx, "kill", store)
	if err != nil {
		return err
	}
	defer end()
	before := b.served.arrived.Load()
	for range s.kills {
		l, err := dial(h.address)
		if err != nil {
			return err
		}
		if _, err := l.run(kinds[1], s.rate, s.slice); err != nil {
			return err
		}
		if err := syscall.Kill(h.manager.PID(), syscall.SIGSTOP); err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() {
			_, err := l.run(kinds[1], s.rate, time.Hour)
			ended <- err
		}()
		if err := wait.For(ctx, s.slice); err != nil {
			return err
		}
		h.container.Kill()
		if <-ended == nil {
			return errors.New("no connection was reset by the kill")
		}
		_ = l.close() // it was reset
		if err := syscall.Kill(h.manager.PID(), syscall.SIGCONT); err != nil {
			return err
		}
		if err := h.restart(ctx); err != nil {
			return err
		}
		if err := h.Applied(ctx); err != nil {
			return err
		}
	}
	arrived := b.served.arrived.Load() - before
	counts, err := h.Settled(ctx, uint64(arrived)) //nolint:gosec // a count
	if err != nil {
		return err
	}
	// A request that is on its way from the container to the application is seen, and may not arrive.
	b.identity("traffic-kill", arrived, int64(s.kills)*clients, counts, w)
	each := float64(counts.GetLost()[record.Restart]) / float64(s.kills) * 2 * float64(kinds[1].body) / mebi
	figures.AtMost(w, "traffic-kill-bodies-lost-each", each, "MiB", record.InFlight/mebi)
	return nil
}

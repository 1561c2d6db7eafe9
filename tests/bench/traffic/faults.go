package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"switchyard.dev/tests/figures"
)

// least is the size of a ring that is full soon, and tardy how many bytes a second a slow receiver takes.
const least, tardy = 20 * mebi, mebi

// receiver is traffic-manager behind a relay, and a load for its container.
type receiver struct {
	*whole
	relay   *relay
	load    *load
	arrived int64 // requests at the application
}

// receiver measures requests while the receiver of the captured exchanges is stopped, slow, full or killed, each in turn with
// one that works.
func (b *bench) receiver(ctx context.Context, s settings, w io.Writer) error {
	works, end, err := b.received(ctx, "receiver", store)
	if err != nil {
		return err
	}
	defer end()
	full, end, err := b.received(ctx, "receiver-full", least)
	if err != nil {
		return err
	}
	defer end()
	faults := []struct {
		name       string
		of         *receiver
		begin, end func(context.Context) error
		over       []float64
	}{
		{name: "stopped", of: works, begin: works.signal(syscall.SIGSTOP), end: works.signal(syscall.SIGCONT)},
		{name: "slow", of: works, begin: works.relay.limit(tardy), end: works.relay.limit(0)},
		{name: "full", of: full, begin: full.fill, end: full.relay.limit(0)},
		{name: "killed", of: works, begin: works.signal(syscall.SIGKILL), end: works.again},
	}
	var normal []float64
	for range s.rounds {
		for i := range faults {
			f := &faults[i]
			before, err := works.p99(ctx, s, nil, nil)
			if err != nil {
				return err
			}
			during, err := f.of.p99(ctx, s, f.begin, f.end)
			if err != nil {
				return err
			}
			normal, f.over = append(normal, before), append(f.over, during/before)
		}
	}
	figures.Print(w, "traffic-receiver-normal-p99", figures.Median(normal), "ms")
	for _, f := range faults {
		figures.AtMost(w, "traffic-receiver-"+f.name+"-p99-over-normal", figures.Median(f.over), "times", 1.05)
	}
	return errors.Join(works.identity(ctx, "traffic-receiver", w), full.identity(ctx, "traffic-receiver-full", w))
}

// identity prints that of the capture beside the count of the application.
func (r *receiver) identity(ctx context.Context, name string, w io.Writer) error {
	counts, err := r.Settled(ctx, uint64(r.arrived)) //nolint:gosec // a count
	if err == nil {
		r.b.identity(name, r.arrived, 0, counts, w)
	}
	return err
}

// received starts a traffic-manager with a ring of a size, and a container that reaches it through a relay.
func (b *bench) received(ctx context.Context, name string, bytes int64) (*receiver, func(), error) {
	h, end, err := b.whole(ctx, name, bytes)
	if err != nil {
		return nil, nil, err
	}
	r := &receiver{whole: h, relay: &relay{to: h.Address}}
	if h.via, err = r.relay.listen(ctx); err == nil {
		h.container.Kill()
		err = h.restart(ctx)
	}
	if err == nil {
		err = h.Applied(ctx)
	}
	if err == nil {
		r.load, err = dial(h.address)
	}
	if err != nil {
		end()
	}
	return r, end, err
}

// p99 returns that of requests with bodies in milliseconds, between begin and end of a fault, either of which can be nil. Then
// it waits until all exchanges are accounted for.
func (r *receiver) p99(ctx context.Context, s settings, begin, end func(context.Context) error) (float64, error) {
	if begin != nil {
		if err := begin(ctx); err != nil {
			return 0, err
		}
	}
	// The first ones use up what a container keeps for a receiver that does not take it.
	if _, err := r.send(s.rate, s.slice); err != nil {
		return 0, err
	}
	one, err := r.send(s.rate, 4*s.slice)
	if err != nil {
		return 0, err
	}
	if end != nil {
		if err := end(ctx); err != nil {
			return 0, err
		}
	}
	_, err = r.Settled(ctx, uint64(r.arrived)) //nolint:gosec // a count
	return figures.Millis(one.took, 0.99), err
}

// send sends requests, and counts those that arrive.
func (r *receiver) send(rate int, during time.Duration) (slice, error) {
	before := r.b.served.arrived.Load()
	one, err := r.load.run(kinds[1], rate, during)
	r.arrived += r.b.served.arrived.Load() - before
	return one, err
}

// signal returns a function that sends a signal to traffic-manager.
func (r *receiver) signal(s syscall.Signal) func(context.Context) error {
	return func(context.Context) error { return syscall.Kill(r.manager.PID(), s) }
}

// again starts a traffic-manager that was killed, and waits until it knows its container.
func (r *receiver) again(ctx context.Context) (err error) {
	r.manager.Kill() // it is, and waited for
	if r.manager, err = r.StartManager(); err != nil {
		return err
	}
	return r.Applied(ctx)
}

// fill sends requests until the ring evicts.
func (r *receiver) fill(ctx context.Context) error {
	for {
		counts, err := r.Settled(ctx, uint64(r.arrived)) //nolint:gosec // a count
		if err != nil || counts.GetEvicted() > 0 {
			return err
		}
		if _, err := r.send(1000, time.Second); err != nil {
			return err
		}
	}
}

// relay forwards connections to an address, which gets at most rate bytes a second of each; 0: all.
type relay struct {
	to   string
	rate atomic.Int64
}

// limit returns a function that sets the rate.
func (r *relay) limit(rate int64) func(context.Context) error {
	return func(context.Context) error { r.rate.Store(rate); return nil }
}

// listen returns the address of the relay, which ends with ctx.
func (r *relay) listen(ctx context.Context) (address string, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go r.pass(from)
		}
	}()
	return l.Addr().String(), nil
}

func (r *relay) pass(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", r.to)
	if err != nil {
		return // its receiver is away
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(from, to)
		_ = from.Close() // the other direction ends too
	}()
	for {
		n, err := io.CopyN(to, from, 16<<10)
		if err != nil {
			return
		}
		if rate := r.rate.Load(); rate > 0 {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
		}
	}
}

package forwarded

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netns"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tools/wait"
)

const (
	// perSecond is how many silent connections come a second, and delay how long each way takes.
	perSecond = 500
	delay     = 50 * time.Millisecond
	// before is how long they have come when users are measured: until the listener has as many
	// as it may.
	before = 10 * time.Second
)

// far measures users 100 ms away while silent connections come, all from loopback in the pod. They
// are made in the pod's network: a port-forwarder makes fewer.
func (s *site) far(ctx context.Context, out io.Writer) error {
	pid, err := s.world.Process(*s.pod(), s.l.Program)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %d silent connections a second on %s\n", time.Now().Format(time.TimeOnly), perSecond, s.l)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	to := fmt.Sprintf("127.0.0.1:%d", s.l.Port)
	come := silence(ctx, pid, to)
	if err := wait.For(ctx, before); err != nil {
		return err
	}
	m := s.measure(ctx, func(ctx context.Context, _ int) (net.Conn, error) {
		var c net.Conn
		err := within(pid, func() (err error) {
			c, err = (&net.Dialer{}).DialContext(ctx, "tcp", to)
			return err
		})
		if err != nil {
			return nil, err
		}
		return delayed(c), nil
	})
	cancel()
	rate := come()
	if m.why != nil {
		fmt.Fprintf(out, "%s: a user: %v\n", s.l, m.why)
	}
	figures.Text(out, s.name()+"_SILENT_SERVED", len(m.took), "handshakes",
		fmt.Sprintf("all of %d at 100 ms, beside 500 silent connections a second; %.0f a second came, p99 %s", users*times, rate, m.quantile(0.99)),
		m.failed == 0 && rate > 0.9*perSecond)
	return nil
}

// dialers is how many connect at once: one that waits for a busy machine leaves the rate to others.
const dialers = 16

// silence makes silent connections until ctx ends. rate waits for that, and returns how many were
// made a second.
func silence(ctx context.Context, pid int, to string) (rate func() float64) {
	begun := time.Now()
	var asked, made atomic.Int64
	var all, each sync.WaitGroup
	come := func() error {
		for ctx.Err() == nil {
			if due := int64(time.Since(begun).Seconds() * perSecond); asked.Add(1) > due {
				asked.Add(-1)
				_ = wait.For(ctx, time.Millisecond)
				continue
			}
			c, err := net.DialTimeout("tcp", to, time.Second)
			if err != nil {
				continue
			}
			made.Add(1)
			each.Go(func() {
				defer context.AfterFunc(ctx, func() { _ = c.Close() })()
				_, _ = io.Copy(io.Discard, c) // until the server closes it
				_ = c.Close()
			})
		}
		return nil
	}
	for range dialers {
		all.Go(func() { _ = within(pid, come) }) // it ends with ctx
	}
	return func() float64 {
		lasted := time.Since(begun).Seconds()
		all.Wait()
		each.Wait()
		return float64(made.Load()) / lasted
	}
}

// within runs f in the network of a process.
func within(pid int, f func() error) error {
	return podnet.OnOwnThread(func() error {
		ns, err := netns.GetFromPid(pid)
		if err != nil {
			return fmt.Errorf("enter the network of process %d: %w", pid, err)
		}
		defer ns.Close()
		if err := netns.Set(ns); err != nil {
			return err
		}
		return f()
	})
}

// delayed returns a connection by which everything takes longer, each way.
func delayed(c net.Conn) net.Conn {
	near, far := net.Pipe()
	go later(c, far)
	go later(far, c)
	return near
}

type parcel struct {
	due  time.Time
	what []byte
}

// later copies after the delay, and then closes both.
func later(to, from net.Conn) {
	under := make(chan parcel, 1<<12)
	go func() {
		defer close(under)
		for {
			b := make([]byte, 16<<10)
			n, err := from.Read(b)
			if n > 0 {
				under <- parcel{time.Now().Add(delay), b[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range under {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.what); err != nil {
			break
		}
	}
	_, _ = to.Close(), from.Close() // either end has closed it
	for range under {
		// data in flight is lost
	}
}

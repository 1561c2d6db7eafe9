package listeners

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Attackers have addresses of their own, as pods have, and so do honest callers.
const (
	hostileAddresses = 20
	honestAddress    = "198.18.1.1"
)

func hostileAddress(n int) string { return fmt.Sprintf("198.18.0.%d", 1+n%hostileAddresses) }

// addresses gives this machine the addresses of all callers, until the function it
// returns is called.
func addresses() (undo func(), err error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("find loopback: %w", err)
	}
	all := []string{honestAddress}
	for n := range hostileAddresses {
		all = append(all, hostileAddress(n))
	}
	var added []*netlink.Addr
	undo = func() {
		for _, a := range added {
			_ = netlink.AddrDel(lo, a) // the namespace goes with the cluster
		}
	}
	for _, one := range all {
		a, err := netlink.ParseAddr(one + "/32")
		if err == nil {
			err = netlink.AddrReplace(lo, a)
		}
		if err != nil {
			undo()
			return nil, fmt.Errorf("add address %s: %w", one, err)
		}
		added = append(added, a)
	}
	return undo, nil
}

// from returns what dials from one of those addresses.
func from(address string, within time.Duration) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}, Timeout: within}
}

// crowd is attackers at work.
type crowd struct {
	stop context.CancelFunc
	all  sync.WaitGroup
	// opened are the connections that were made, ended those that the server closed,
	// refused those that could not be made; there counts those that are open.
	opened, ended, refused, there atomic.Int64
}

// pause is how long an attacker waits after its connection has ended.
const pause = time.Second

// begin sends so many attackers to an address, each with one connection at a time that it
// makes anew when it has ended, and returns at once. What they do goes round.
func begin(ctx context.Context, n int, address string, attacks []attack) *crowd {
	c := &crowd{}
	ctx, c.stop = context.WithCancel(ctx)
	for i := range n {
		c.all.Go(func() {
			dialer := from(hostileAddress(i), 10*time.Second)
			// Not all in one instant: a flood of openings is the kernel's to bear.
			for wait := time.Duration(i) * time.Millisecond; sleep(ctx, wait); wait = pause {
				c.once(ctx, dialer, address, attacks[i%len(attacks)])
			}
		})
	}
	return c
}

func (c *crowd) once(ctx context.Context, dialer *net.Dialer, address string, a attack) {
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		if ctx.Err() == nil {
			c.refused.Add(1)
		}
		return
	}
	c.opened.Add(1)
	c.there.Add(1)
	defer c.there.Add(-1)
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	a.do(ctx, conn)
	if ctx.Err() == nil {
		c.ended.Add(1)
	}
}

// end calls the attackers off and returns when they are gone.
func (c *crowd) end() {
	c.stop()
	c.all.Wait()
}

// sleep reports whether ctx is still there after a while.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// alive reports whether the server has not closed a connection, without reading from it.
func alive(c net.Conn) bool {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	is := false
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		const established = 1
		is = err == nil && info.State == established
	})
	return err == nil && is
}

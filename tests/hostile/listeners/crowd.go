package listeners

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"switchyard.dev/tests/hostile/attacks"
	"switchyard.dev/tools/wait"
)

// Attackers have separate addresses, like pods, and so have legitimate callers.
const (
	hostileAddresses = 20
	honestAddress    = "198.18.1.1"
)

func hostileAddress(n int) string { return fmt.Sprintf("198.18.0.%d", 1+n%hostileAddresses) }

// Addresses adds the addresses of all callers to this machine, until undo is called. A Crowd cannot
// connect without them.
func Addresses() (undo func(), err error) {
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
			_ = netlink.AddrDel(lo, a) // the namespace is deleted with the cluster
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

// Crowd is a set of attackers in a separate process, so that they cost legitimate callers only the
// server's time.
type Crowd struct {
	opened, ended, refused, there               atomic.Int64
	slowOutputs, unreadAssignments, slowRefused atomic.Int64
}

// Role is the role of that process.
const Role = "attackers"

// Orders configure attackers.
type Orders struct {
	// Attackers is the number of them, Listener the name of the attacked listener, Address its address.
	Attackers         int
	Listener, Address string
	// Attacks are the names of their attacks, in turn, of those of the listener.
	Attacks []string
	// From is the address that all of them have. Default: addresses of their own.
	From string
}

// Counts counts connections of attackers.
type Counts struct {
	// Opened were made, Ended closed by the server, Refused never made. There are open.
	Opened, Ended, Refused, There int64
}

// pause is how long an attacker waits after its connection has ended, on average: they do
// not come back all in one instant.
const pause = 5 * time.Second

// Begin sends attackers to an address, each with one connection at a time that it opens again
// when it has ended, and returns at once. It may be called again for more.
func (c *Crowd) Begin(o Orders, _ *struct{}) error {
	var attacks []attacks.Attack
	for _, name := range o.Attacks {
		a, known := attackOf(o.Listener, name)
		if !known {
			return fmt.Errorf("%s has no attack %q", o.Listener, name)
		}
		attacks = append(attacks, a)
	}
	if err := giveWay(); err != nil {
		return err
	}
	ctx := context.Background() // they go on until their process ends
	for i := range o.Attackers {
		go func() {
			dialer := from(cmp.Or(o.From, hostileAddress(i)), 10*time.Second)
			if strings.HasPrefix(o.Address, "127.") {
				dialer.LocalAddr = nil // a port-forward: the node drops connections to loopback from elsewhere
			}
			// Not all in one instant: a flood of openings is the kernel's to bear.
			for after := time.Duration(i) * time.Millisecond; wait.For(ctx, after) == nil; after = pause/2 + rand.N(pause) {
				c.once(ctx, dialer, o.Address, attacks[i%len(attacks)])
			}
		}()
	}
	return nil
}

// giveWay lowers the priority of the process, because real attackers run on other machines.
func giveWay() error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 19); err != nil {
		return fmt.Errorf("lower the priority of attackers: %w", err)
	}
	return nil
}

// Count counts connections.
func (c *Crowd) Count(_ struct{}, n *Counts) error {
	*n = Counts{c.opened.Load(), c.ended.Load(), c.refused.Load(), c.there.Load()}
	return nil
}

// attackOf finds an attack on a listener by its name.
func attackOf(listener, name string) (attacks.Attack, bool) {
	for _, l := range All() {
		for _, a := range l.attacks {
			if l.String() == listener && a.Name == name {
				return a, true
			}
		}
	}
	return attacks.Attack{}, false
}

func (c *Crowd) once(ctx context.Context, dialer *net.Dialer, address string, a attacks.Attack) {
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
	a.Do(ctx, conn)
	if ctx.Err() == nil {
		c.ended.Add(1)
	}
}

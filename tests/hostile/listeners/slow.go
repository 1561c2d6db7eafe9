package listeners

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"switchyard.dev/tests/hostile/attacks"
	"switchyard.dev/tests/hostile/slowbody"
	"switchyard.dev/tools/wait"
)

// SlowOrders name units with pods that attack an IO context server, and its address.
type SlowOrders struct {
	Address string
	Units   []slowbody.Unit
}

// SlowCounts counts slow bodies: outputs that took longer than a second, and assignments that were
// left unread. Refused counts the requests that were answered otherwise.
type SlowCounts struct{ Outputs, Assignments, Refused int64 }

const (
	// slowEach is how many slow outputs, and how many unread assignments, each pod requests at once:
	// together as many as requests of one pod are served.
	slowEach = 2
	// refusedAgain is how long an attacker waits after a refusal: it wants a place, and not to
	// occupy the processor.
	refusedAgain = 250 * time.Millisecond
	// slowWithin is the longest that an attacker leaves a body as it is.
	slowWithin = time.Minute
)

// Slow makes the pods of units request slow bodies, again and again, and returns at once.
func (c *Crowd) Slow(o SlowOrders, _ *struct{}) error {
	if err := giveWay(); err != nil {
		return err
	}
	ctx := context.Background() // until the process ends
	for i, u := range o.Units {
		dialer := from(hostileAddress(i), 10*time.Second)
		reader := *dialer
		reader.Control = slowbody.LittleMemory
		for range slowEach {
			go c.again(ctx, dialer, o.Address, u, slowbody.Output, &c.slowOutputs)
			go c.again(ctx, &reader, o.Address, u, slowbody.Assignment, &c.unreadAssignments)
		}
	}
	return nil
}

// SlowCount counts slow bodies.
func (c *Crowd) SlowCount(_ struct{}, n *SlowCounts) error {
	*n = SlowCounts{c.slowOutputs.Load(), c.unreadAssignments.Load(), c.slowRefused.Load()}
	return nil
}

// again sends one slow request after the other, each on a new connection.
func (c *Crowd) again(ctx context.Context, dialer *net.Dialer, address string, u slowbody.Unit, request func(context.Context, net.Conn, slowbody.Unit) (slow bool), count *atomic.Int64) {
	for ctx.Err() == nil {
		slow := false
		c.once(ctx, dialer, address, attacks.Attack{Name: "slow", Do: func(ctx context.Context, conn net.Conn) {
			ctx, cancel := context.WithTimeout(ctx, slowWithin)
			defer cancel()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			slow = request(ctx, tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), u)
		}})
		if slow {
			count.Add(1)
			continue
		}
		c.slowRefused.Add(1)
		_ = wait.For(ctx, refusedAgain)
	}
}

package listeners

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"switchyard.dev/tests/wait"
	"switchyard.dev/workflows/iocontext"
)

// Unit is a unit that runs, with the token of its pod.
type Unit struct{ Lifecycle, Name, Output, Token string }

// Assignment returns the path of the unit's assignment, and OutputPath that of its output.
func (u Unit) Assignment() string {
	return "/v1/units/" + u.Lifecycle + "/" + u.Name + "/assignment"
}

// OutputPath returns the path of the unit's output.
func (u Unit) OutputPath() string {
	return "/v1/units/" + u.Lifecycle + "/" + u.Name + "/outputs/" + u.Output
}

// SlowOrders name the units whose pods attack an IO context server, and its address.
type SlowOrders struct {
	Address string
	Units   []Unit
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
		reader.Control = littleMemory
		for range slowEach {
			go c.again(ctx, dialer, o.Address, u, c.slowOutput)
			go c.again(ctx, &reader, o.Address, u, c.unreadAssignment)
		}
	}
	return nil
}

// SlowCount counts slow bodies.
func (c *Crowd) SlowCount(_ struct{}, n *SlowCounts) error {
	*n = SlowCounts{c.slowOutputs.Load(), c.unreadAssignments.Load(), c.slowRefused.Load()}
	return nil
}

// again makes one slow request after the other, each on a connection of its own.
func (c *Crowd) again(ctx context.Context, dialer *net.Dialer, address string, u Unit, request func(context.Context, net.Conn, Unit) (slow bool)) {
	for ctx.Err() == nil {
		slow := false
		c.once(ctx, dialer, address, attack{"slow", func(ctx context.Context, conn net.Conn) {
			ctx, cancel := context.WithTimeout(ctx, slowWithin)
			defer cancel()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			slow = request(ctx, tls.Client(conn, &tls.Config{InsecureSkipVerify: true}), u)
		}})
		if !slow {
			c.slowRefused.Add(1)
			_ = wait.For(ctx, refusedAgain)
		}
	}
}

// slowOutput sends all of an output but its last byte, which occupies the most memory, and reports
// whether the server waited for that.
func (c *Crowd) slowOutput(_ context.Context, conn net.Conn, u Unit) (slow bool) {
	if _, err := fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", u.OutputPath(), u.Token, iocontext.MaxValue); err != nil {
		return false
	}
	begun := time.Now()
	go func() { _, _ = conn.Write(make([]byte, iocontext.MaxValue-1)) }() // it ends with the connection
	if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
		_ = answer.Body.Close()
	}
	if slow = time.Since(begun) > time.Second; slow {
		c.slowOutputs.Add(1)
	}
	return slow
}

// unreadAssignment requests an assignment and reads its first bytes alone. It reports whether there
// was one.
func (c *Crowd) unreadAssignment(ctx context.Context, conn net.Conn, u Unit) (slow bool) {
	const good = "HTTP/1.1 200"
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n", u.Assignment(), u.Token); err != nil {
		return false
	}
	status := make([]byte, len(good))
	if _, err := io.ReadFull(conn, status); err != nil || string(status) != good {
		return false
	}
	c.unreadAssignments.Add(1)
	_ = wait.For(ctx, unreadFor)
	return true
}

// unreadFor is longer than the server waits for a reader: whether it has closed the connection cannot
// be seen without reading.
const unreadFor = 6 * time.Second

// littleMemory limits the memory of the kernel for a connection that is not read.
func littleMemory(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10) })
	return errors.Join(err, failed)
}

package attack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/tools/traffic"
	"switchyard.dev/tools/wait"
)

// dialling bounds how many clients come at the same moment.
const dialling = 64

// lean bounds what the kernel holds for a connection: it is the sidecar's memory that
// is to be held, not the machine's.
func lean(c net.Conn) error {
	const size = 64 << 10
	t, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	return errors.Join(t.SetReadBuffer(size), t.SetWriteBuffer(size))
}

// Held are clients that keep their connections and data until Release.
type Held struct {
	// Refused counts connections and streams that the other side has ended.
	Refused atomic.Int64
	end     context.CancelFunc
	ended   sync.WaitGroup
}

// Flood starts clients of a kind, and returns when each has sent its first bytes. An error means that some could not connect.
func Flood(ctx context.Context, address string, k Kind, clients int) (*Held, error) {
	ctx, end := context.WithCancel(ctx)
	h := &Held{end: end}
	slots, begun := make(chan struct{}, dialling), make(chan error, clients)
	for range clients {
		slots <- struct{}{}
		h.ended.Go(func() {
			c, err := (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "tcp", address)
			if err == nil {
				defer c.Close()
				defer context.AfterFunc(ctx, func() { _ = c.Close() })()
				err = errors.Join(lean(c), begin(c, k))
			}
			<-slots
			begun <- err
			if err != nil {
				return
			}
			if hold(ctx, c, k, h); ctx.Err() == nil {
				h.Refused.Add(1)
			}
		})
	}
	var errs []error
	for range clients {
		if err := <-begun; err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		h.Release()
		return nil, fmt.Errorf("%d of %d clients: %w", len(errs), clients, errs[0])
	}
	return h, nil
}

// Release ends all clients.
func (h *Held) Release() {
	h.end()
	h.ended.Wait()
}

// begin sends the first bytes of a client. An incomplete write is no error: the other side is
// allowed to reject it.
func begin(c net.Conn, k Kind) error {
	if err := c.SetWriteDeadline(time.Now().Add(saying)); err != nil {
		return err
	}
	if k.Two {
		_ = begin2(c, k)
	} else {
		_ = begin1(c, k)
	}
	return c.SetWriteDeadline(time.Time{})
}

// saying is the timeout for the first bytes of a client.
const saying = 10 * time.Second

// hold runs a client after its first bytes, until its connection or ctx ends.
func hold(ctx context.Context, c net.Conn, k Kind, h *Held) {
	switch {
	case k.Two:
		(&client2{conn: c, kind: k, held: h}).hold(ctx)
	case k.Up:
		for piece, err := make([]byte, 16<<10), error(nil); err == nil; {
			_, err = c.Write(piece)
		}
	case k.Drip:
		one := make([]byte, 1)
		for tick := time.NewTicker(pace); ctx.Err() == nil; <-tick.C {
			if _, err := c.Read(one); err != nil {
				return
			}
		}
	default:
		awaitEnd(ctx, c)
	}
}

// awaitEnd waits until the connection has ended, without reading from it.
func awaitEnd(ctx context.Context, c net.Conn) {
	for traffic.Alive(c) && wait.For(ctx, pace) == nil {
	}
}

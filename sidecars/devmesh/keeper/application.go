package keeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"switchyard.dev/eventbus/wake"
)

// An application that stops at once has ended before the pod's end is known here, and one that
// crashes ends without any notice. Without the sidecar its clients would see their connections
// close, so the sidecar closes them.

const (
	// portsInterval is how often the ports are read on which the application listens. The
	// kernel reports a socket that was destroyed by its port alone, not whether it listened.
	portsInterval = time.Second
	// checkInterval is how often leave and awaitApplication check their condition, and
	// leavePatience for how long leave does. In that time each request to the application is
	// answered 503, where the application's own connections would be closed.
	checkInterval = 2 * time.Millisecond
	leavePatience = 5 * time.Second
)

// watchApplication closes the connections of clients whenever the application stops
// listening, until ctx ends. Where the kernel does not report destroyed sockets, they stay
// open, and requests on them are answered 503.
func (p *proxy) watchApplication(ctx context.Context) error {
	conn, err := listenersThatGo()
	if err != nil {
		p.Logger.Warn("the kernel does not report when the application stops listening: connections of clients stay open then", "error", err)
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	var known knownPorts
	go known.follow(ctx)
	for {
		messages, err := conn.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS): // some were missed, perhaps the last of the application
		case err != nil:
			p.Logger.Warn("the kernel no longer reports when the application stops listening", "error", err)
			return nil
		}
		if (err != nil && known.some() || slices.ContainsFunc(messages, known.of)) && p.applicationGone() {
			known.set(nil)
			p.leave(ctx)
		}
	}
}

// knownPorts are those on which the application was last seen to listen.
type knownPorts struct {
	mu   sync.Mutex
	open []uint64
}

func (k *knownPorts) set(open []uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = open
}

// some reports whether there are any.
func (k *knownPorts) some() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.open) > 0
}

// follow reads the ports regularly until ctx ends. Finding none changes nothing: the kernel
// reports when the application stops listening.
func (k *knownPorts) follow(ctx context.Context) {
	for more := true; more; more = wake.Sleep(ctx, portsInterval) {
		if open, err := applicationPorts(); err == nil && len(open) > 0 {
			k.set(open)
		}
	}
}

// of reports whether a socket that went may have been one of the application's that
// listened. Others without a remote port are Envoy's, and those that could not connect.
func (k *knownPorts) of(m netlink.Message) bool {
	if len(m.Data) < localPort+2 {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Contains(k.open, uint64(binary.BigEndian.Uint16(m.Data[localPort:])))
}

// leave kills Envoy, and with it all connections, as soon as no request is in progress. It
// gives up when the application has restarted in the meantime, and when the pod ends, since
// drain does it then.
func (p *proxy) leave(ctx context.Context) {
	for deadline := time.Now().Add(leavePatience); time.Now().Before(deadline) && p.applicationGone(); {
		select {
		case <-ctx.Done():
			return
		case <-p.ending:
			return
		default:
		}
		if t, err := p.traffic(ctx); err == nil && t.underWay == 0 {
			if envoy := p.envoy.Load(); envoy != nil {
				p.Logger.Info("the application has stopped listening: connections are closed")
				p.left.Store(true)
				if envoy.Kill() != nil { // it has ended by itself
					p.left.Store(false)
				}
			}
			return
		}
		time.Sleep(checkInterval)
	}
}

// awaitApplication waits until the application listens again, restartPause at most: there may
// be requests for forks.
func (p *proxy) awaitApplication(ctx context.Context) {
	for deadline := time.Now().Add(restartPause); time.Now().Before(deadline) && p.applicationGone() && ctx.Err() == nil; {
		time.Sleep(checkInterval)
	}
}

// The kernel's multicast groups for TCP sockets that go (linux/sock_diag.h), and where the
// ports are in their messages (struct inet_diag_sockid), behind the header.
const (
	destroyedTCP  = 1
	destroyedTCP6 = 3
	localPort     = 4
	remotePort    = unix.NLMSG_HDRLEN + 6
)

// listenersThatGo hears of sockets without a remote port that go: of those that listened,
// and of the few that were never connected. It needs no privilege.
func listenersThatGo() (*netlink.Conn, error) {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for sockets: %w", err)
	}
	filter, err := bpf.Assemble([]bpf.Instruction{
		bpf.LoadAbsolute{Off: remotePort, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 1},
		bpf.RetConstant{Val: 1 << 16},
		bpf.RetConstant{Val: 0},
	})
	if err == nil {
		err = conn.SetBPF(filter)
	}
	for _, group := range []uint32{destroyedTCP, destroyedTCP6} {
		err = errors.Join(err, conn.JoinGroup(group))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to closed sockets: %w", err), conn.Close())
	}
	return conn, nil
}

package keeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// An application that stops at once is gone before the pod's end is known here, and one
// that crashes goes without any. Its own clients would see their connections end; so those
// of the sidecar do.

// lookAgain is how soon it is looked again whether the application is back, or nothing is
// under way any more.
const lookAgain = 20 * time.Millisecond

// watchApplication closes the connections of clients each time that the last listener of
// the pod goes, until ctx ends. Where the kernel does not tell of sockets that go, clients
// are answered 503 until they ask for the next connection.
func (p *proxy) watchApplication(ctx context.Context) error {
	conn, err := listenersThatGo()
	if err != nil {
		p.Logger.Warn("the kernel does not tell when the application is gone: connections of clients outlive it", "error", err)
		return nil
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	for {
		_, err := conn.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS): // some were missed: the last of them is no less gone
		case err != nil:
			p.Logger.Warn("the kernel does not tell any more when the application is gone", "error", err)
			return nil
		}
		p.leave(ctx)
	}
}

// leave ends Envoy, and with it all connections, once the application is gone and nothing
// is under way; not when the pod ends, for then the drain does.
func (p *proxy) leave(ctx context.Context) {
	for p.applicationGone() {
		select {
		case <-ctx.Done():
			return
		case <-p.ending:
			return
		default:
		}
		if t, err := p.traffic(ctx); err == nil && t.underWay == 0 {
			if envoy := p.envoy.Load(); envoy != nil {
				p.Logger.Info("the application is gone: connections are closed")
				p.left.Store(true)
				_ = envoy.Kill() // it may have ended by itself
			}
			return
		}
		time.Sleep(lookAgain)
	}
}

// awaitApplication waits until somebody listens in the pod again, restartPause at most:
// there may be requests for forks.
func (p *proxy) awaitApplication(ctx context.Context) {
	for deadline := time.Now().Add(restartPause); time.Now().Before(deadline) && p.applicationGone() && ctx.Err() == nil; {
		time.Sleep(lookAgain)
	}
}

// The kernel's multicast groups for TCP sockets that go (linux/sock_diag.h), and where
// the remote port is in their messages (struct inet_diag_sockid), behind the header.
const (
	destroyedTCP  = 1
	destroyedTCP6 = 3
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
		return nil, errors.Join(fmt.Errorf("hear of sockets that go: %w", err), conn.Close())
	}
	return conn, nil
}

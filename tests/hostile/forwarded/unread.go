package forwarded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"switchyard.dev/tests/figures"
	"switchyard.dev/tests/hostile/listeners"
	"switchyard.dev/tools/wait"
)

const (
	// hoarders are users with unread channels, each so many over sessions of perSession.
	hoarders, channels, perSession = 10, 128, 64
	// each is how many bytes go into a channel: more than its window and the kernel take.
	each = 4 << 20
	// grows is by how many MiB the proxy may grow.
	grows = 512
	// stalled is after how long without a byte the channels are full, and fillWithin the most that
	// this takes.
	stalled, fillWithin = 10 * time.Second, 5 * time.Minute
)

// unread measures the memory of the proxy while users fill channels of SSH to a far end that reads
// nothing: a listener in the network of a pod of the demo.
func (s *site) unread(ctx context.Context, out io.Writer) error {
	far := listeners.Find("sidecar-readiness-15021").Program
	pod := s.world.Pods(far)[0]
	pid, err := s.world.Process(pod, far)
	if err != nil {
		return err
	}
	sink, err := sinkIn(pid, pod.Status.PodIP)
	if err != nil {
		return err
	}
	defer sink.Close()
	before, limit, restarts, err := s.world.Memory(ctx, s.l.Program)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %d users with %d unread channels each\n", time.Now().Format(time.TimeOnly), hoarders, channels)
	var h hoard
	for _, u := range s.users[:hoarders] {
		for range channels / perSession {
			end, err := s.hoard(u, sink.Addr().String(), &h)
			if err != nil {
				return err
			}
			defer end()
		}
	}
	most := before
	// Until every channel is full: nothing has gone for a while.
	for begun, last, went := time.Now(), time.Now(), int64(0); time.Since(last) < stalled && time.Since(begun) < fillWithin; {
		if err := wait.For(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		now, _, _, err := s.world.Memory(ctx, s.l.Program)
		if err != nil {
			return err
		}
		most = max(most, now)
		if sent := h.sent.Load(); sent != went {
			last, went = time.Now(), sent
		}
	}
	_, _, after, err := s.world.Memory(ctx, s.l.Program)
	figures.Text(out, s.name()+"_UNREAD_MEMORY", fmt.Sprintf("%.0f", most-before), "MiB",
		fmt.Sprintf("at most %d more than %.0f, of %.0f; %d channels were opened, %d MiB went into them, %d restarts", grows, before, limit, h.opened.Load(), h.sent.Load()>>20, after-restarts),
		most-before <= grows && after == restarts && h.opened.Load() >= hoarders*channels/2)
	return err
}

// small listens with little memory of the kernel, so that bytes wait in the proxy.
var small = net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<10) })
	return errors.Join(err, failed)
}}

// sinkIn listens in the network of a process, and reads nothing.
func sinkIn(pid int, host string) (l net.Listener, err error) {
	err = within(pid, func() (err error) {
		l, err = small.Listen(context.Background(), "tcp", net.JoinHostPort(host, "0"))
		return err
	})
	if err != nil {
		return nil, err
	}
	go func() {
		var held []net.Conn
		defer func() {
			for _, c := range held {
				_ = c.Close()
			}
		}()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			held = append(held, c)
		}
	}()
	return l, nil
}

// hoard opens channels of a session to the sink and fills them, until end is called.
func (s *site) hoard(u user, to string, h *hoard) (end func(), err error) {
	c, err := net.Dial("tcp", address(s.world, s.l, 0))
	if err != nil {
		return nil, err
	}
	client, err := dialSSH(u, c)
	if err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	for range perSession {
		all.Go(func() { h.fill(client, to) })
	}
	return func() { _ = client.Close(); all.Wait() }, nil
}

// hoard counts the channels of all hoarders, and the bytes that went into them.
type hoard struct{ opened, sent atomic.Int64 }

// fill writes into one channel until that is closed.
func (h *hoard) fill(client *ssh.Client, to string) {
	channel, err := client.Dial("tcp", to)
	if err != nil {
		return // there are as many as may be
	}
	h.opened.Add(1)
	some := make([]byte, 32<<10)
	for sent := 0; sent < each; sent += len(some) {
		n, err := channel.Write(some)
		if h.sent.Add(int64(n)); err != nil {
			return
		}
	}
	_ = client.Wait() // it stays open
}

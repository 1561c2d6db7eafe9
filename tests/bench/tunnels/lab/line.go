package lab

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// maxQueued is how many packets may be on the line in one direction: 100 MB of them.
const maxQueued = 1 << 16

// Run joins two network namespaces by a link with a delay, until it receives SIGTERM: a TUN
// device in each, and packets that are carried between them once they are due. SIGUSR1 cuts the
// link, SIGUSR2 restores it. loss is the share of packets that are lost.
func Run(near, far string, delay time.Duration, loss float64) error {
	a, err := tun(near, NearAddress)
	if err != nil {
		return err
	}
	b, err := tun(far, FarAddress)
	if err != nil {
		return err
	}
	cut := make(chan os.Signal, 1)
	signal.Notify(cut, unix.SIGUSR1, unix.SIGUSR2)
	there := line{loss: loss}
	go there.carry(a, b, delay)
	go there.carry(b, a, delay)
	fmt.Println("ready")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for s := range cut {
		there.isCut.Store(s == unix.SIGUSR1)
	}
	return nil
}

// tun makes a TUN device in a network namespace.
func tun(namespace, address string) (*os.File, error) {
	var fd int
	err := Inside(namespace, func() (err error) {
		if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK, 0); err != nil {
			return err
		}
		request, err := unix.NewIfreq("delay0")
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	})
	if err != nil {
		return nil, fmt.Errorf("TUN device in %s: %w", namespace, err)
	}
	if err := ip("-n", namespace, "addr", "add", address+"/24", "dev", "delay0"); err != nil {
		return nil, err
	}
	if err := ip("-n", namespace, "link", "set", "delay0", "up", "mtu", "1500", "txqueuelen", "10000"); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), namespace), nil
}

// line is what both directions share.
type line struct {
	isCut atomic.Bool
	loss  float64
	free  sync.Pool
}

type packet struct {
	due  time.Time
	data []byte
}

// carry carries packets in one direction.
func (l *line) carry(from, to *os.File, delay time.Duration) {
	queue := make(chan packet, maxQueued)
	go func() {
		for p := range queue {
			if wait := time.Until(p.due); wait > 50*time.Microsecond {
				// time.Sleep may round up to a millisecond.
				pause := unix.NsecToTimespec(int64(wait))
				_ = unix.Nanosleep(&pause, nil)
			}
			if !l.isCut.Load() && rand.Float64() >= l.loss {
				_, _ = to.Write(p.data) // a full device drops, as a wire does
			}
			l.free.Put(&p.data)
		}
	}()
	for {
		buf, _ := l.free.Get().(*[]byte)
		if buf == nil {
			fresh := make([]byte, 2048)
			buf = &fresh
		}
		data := (*buf)[:cap(*buf)]
		n, err := from.Read(data)
		if err != nil {
			log.Fatal(err)
		}
		select {
		case queue <- packet{time.Now().Add(delay), data[:n]}:
		default: // the line is full
		}
	}
}

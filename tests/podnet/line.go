package podnet

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vishvananda/netlink"
)

// lineMTU is the size of a line's packets: that of a network with jumbo frames. The forwarding
// program reads each packet once.
const lineMTU = 9000

// Line is a second link between a pod and the test's own namespace, which is as slow
// as Carry makes it.
type Line struct {
	// IP is the pod's address on it.
	IP net.IP
	// Near and Far are its two ends: packets read from one must be written to the other.
	Near, Far *os.File
	pod       *Pod
	name      string
}

// NewLine adds a line to the pod number i. It carries nothing until Carry does, and
// ends when Remove is called, or both files are closed in every process that has them.
func (p *Pod) NewLine(i byte) (*Line, error) {
	l := &Line{IP: net.IPv4(10, 99, i, 2), pod: p, name: fmt.Sprintf("line%d", i)}
	name := l.name
	near, err := tun(name, net.IPv4(10, 99, i, 1))
	if err != nil {
		return nil, err
	}
	l.Near = near
	err = p.Do(func() (err error) {
		l.Far, err = tun(name, l.IP)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, near.Close())
	}
	return l, nil
}

// Remove deletes the devices of a line: reads of its ends fail from then on, also those that wait. The
// caller closes the ends after that.
func (l *Line) Remove() error {
	remove := func() error {
		device, err := netlink.LinkByName(l.name)
		if err != nil {
			return fmt.Errorf("remove the line %s: %w", l.name, err)
		}
		return netlink.LinkDel(device)
	}
	return errors.Join(remove(), l.pod.Do(remove))
}

// tun creates a TUN device in the calling thread's namespace, for a program that forwards its packets.
func tun(name string, ip net.IP) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the line %s: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	request, err := unix.NewIfreq(name)
	if err == nil {
		request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	}
	if err == nil {
		err = furnishLine(name, ip)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the line %s: %w", name, err), file.Close())
	}
	return file, nil
}

func furnishLine(name string, ip net.IP) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := errors.Join(netlink.LinkSetMTU(link, lineMTU), netlink.LinkSetTxQLen(link, 10_000)); err != nil {
		return err
	}
	return address(name, ip)
}

// parcel is a packet on its way.
type parcel struct {
	due  time.Time
	data []byte
}

// Carry carries packets both ways, each with a delay, in their order and as many as
// come. It returns when an end fails.
func Carry(near, far *os.File, delay time.Duration) error {
	failed := make(chan error, 4)
	for _, way := range [][2]*os.File{{near, far}, {far, near}} {
		under, free := make(chan parcel, 1<<14), make(chan []byte, 1<<14)
		go func() { failed <- collect(way[0], delay, under, free) }()
		go func() { failed <- deliver(way[1], under, free) }()
	}
	return <-failed
}

func collect(from *os.File, delay time.Duration, under chan<- parcel, free <-chan []byte) error {
	for {
		var data []byte
		select {
		case data = <-free:
		default:
			data = make([]byte, lineMTU)
		}
		n, err := unix.Read(int(from.Fd()), data[:lineMTU])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("take a packet from %s: %w", from.Name(), err)
		}
		under <- parcel{time.Now().Add(delay), data[:n]}
	}
}

func deliver(to *os.File, under <-chan parcel, free chan<- []byte) error {
	for p := range under {
		if wait := time.Until(p.due); wait > 0 {
			pause := unix.NsecToTimespec(int64(wait)) // finer than the timers of the runtime
			_ = unix.Nanosleep(&pause, nil)
		}
		if _, err := unix.Write(int(to.Fd()), p.data); err != nil && !errors.Is(err, unix.ENOBUFS) {
			return fmt.Errorf("give a packet to %s: %w", to.Name(), err)
		}
		select {
		case free <- p.data:
		default:
		}
	}
	return nil
}

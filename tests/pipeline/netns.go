package pipeline

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// isolated marks the process that runs in a network namespace of its own.
const isolated = "SWITCHYARD_ISOLATED"

// Isolate runs this program again in a new network namespace and ends with its
// exit code; in that second run it brings loopback up and returns. Call it
// first in TestMain. It needs root.
func Isolate() error {
	if os.Getenv(isolated) != "" {
		return furnish()
	}
	if os.Geteuid() != 0 {
		return errors.New("a network namespace can be made only by root: run as root")
	}
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), isolated+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		return fmt.Errorf("run in a network namespace: %w", err)
	}
	os.Exit(0)
	return nil
}

// furnish gives the new network namespace what programs expect of a machine:
// loopback, and a device with an address and the default route, from which an
// API server takes the address that it makes known. The route leads nowhere.
func furnish() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set loopback up: %w", err)
	}
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "node0"}}); err != nil {
		return fmt.Errorf("add the node's device: %w", err)
	}
	if err := address("node0", net.IPv4(10, 77, 0, 1)); err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{Gw: net.IPv4(10, 77, 0, 254)})
}

// Pod is a network namespace joined to the test's own.
type Pod struct {
	// IP is the pod's address; Host is the address of the test's end.
	IP, Host net.IP
	ns       netns.NsHandle
	link     string
}

// NewPod makes the namespace number i, from 1 to 254. Its default route leads
// to the test's own namespace. Close takes it away.
func NewPod(i byte) (*Pod, error) {
	p := &Pod{
		IP: net.IPv4(10, 244, i, 2), Host: net.IPv4(10, 244, i, 1),
		link: fmt.Sprintf("pod%d", i),
	}
	err := onOwnThread(func() error {
		home, err := netns.Get()
		if err != nil {
			return err
		}
		defer home.Close()
		if p.ns, err = netns.New(); err != nil { // the thread is now inside
			return err
		}
		if err := netns.Set(home); err != nil {
			return err
		}
		return p.join()
	})
	if err != nil {
		return nil, fmt.Errorf("make the pod's network namespace: %w", err)
	}
	return p, nil
}

// join makes the veth pair and sets addresses and routes on both ends.
func (p *Pod) join() error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: p.link}, PeerName: "eth0", PeerNamespace: netlink.NsFd(p.ns)}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("add veth: %w", err)
	}
	if err := address(p.link, p.Host); err != nil {
		return err
	}
	return p.Do(func() error {
		if err := address("lo", net.IPv4(127, 0, 0, 1)); err != nil && !errors.Is(err, syscall.EEXIST) {
			return err
		}
		if err := address("eth0", p.IP); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Gw: p.Host})
	})
}

func address(device string, ip net.IP) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find %s: %w", device, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", device, err)
	}
	mask := net.CIDRMask(24, 32)
	if device == "lo" {
		mask = net.CIDRMask(32, 32)
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: mask}}); err != nil {
		return fmt.Errorf("give %s the address %s: %w", device, ip, err)
	}
	return nil
}

// Do runs f with the calling thread inside the pod's namespace. A socket opened
// there stays there, and so does a process started there.
func (p *Pod) Do(f func() error) error {
	return onOwnThread(func() error {
		home, err := netns.Get()
		if err != nil {
			return err
		}
		defer home.Close()
		if err := netns.Set(p.ns); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
		return netns.Set(home)
	})
}

// Listen opens a TCP listener inside the pod.
func (p *Pod) Listen(port int) (net.Listener, error) {
	var listener net.Listener
	err := p.Do(func() (err error) {
		listener, err = net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port))
		return err
	})
	return listener, err
}

// Close takes the namespace and its devices away.
func (p *Pod) Close() error {
	if link, err := netlink.LinkByName(p.link); err == nil {
		if err := netlink.LinkDel(link); err != nil {
			return err
		}
	}
	return p.ns.Close()
}

// ServeAddress gives the test's own namespace one more address, as a cluster IP
// that something listens at.
func ServeAddress(ip net.IP) error {
	err := address("lo", ip)
	if errors.Is(err, syscall.EEXIST) {
		return nil
	}
	return err
}

// onOwnThread runs f on a thread of its own, which ends with it: a thread that
// could not come back to its namespace must serve nobody else.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

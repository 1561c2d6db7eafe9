package podnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Isolated is the environment variable that marks the process in the separate network namespace. A
// test that starts its program again, inside, passes it on.
const Isolated = "SWITCHYARD_ISOLATED"

// Inside reports whether this process runs in the namespace that Isolate made.
func Inside() bool { return os.Getenv(Isolated) != "" }

// Isolate runs this program again in a new network namespace, with additional environment
// variables, and ends with its exit code; in that second run it brings loopback up and returns.
// Call it first in TestMain. Setup and cleanup outside of the namespace go into Rerun instead. It
// needs root.
func Isolate(env ...string) error {
	if Inside() {
		return furnish()
	}
	code, err := Rerun(env...)
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

// Rerun runs this program again in a new network namespace, where it is to call
// Isolate, and returns its exit code.
func Rerun(env ...string) (code int, err error) {
	return RerunIn(syscall.CLONE_NEWNET, append(env, Isolated+"=1")...)
}

// RerunIn runs this program again in new namespaces, which are flags of clone(2), with additional
// environment variables, and returns its exit code. On SIGTERM or interrupt, this program
// terminates the other one and waits for it.
func RerunIn(namespaces uintptr, env ...string) (code int, err error) {
	if os.Geteuid() != 0 {
		return 0, errors.New("namespaces can be made only by root: run as root")
	}
	cmd := exec.CommandContext(context.Background(), os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	// The signal that the child gets at its parent's death is bound to the thread that
	// started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(interrupts)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("run in new namespaces: %w", err)
	}
	go func() {
		for range interrupts {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		}
	}()
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// furnish configures the new network namespace as programs expect of a machine: loopback, and a
// device with an address and the default route, from which an API server takes its advertised
// address. The route has no working gateway.
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
	// IP and IP6 are the pod's addresses; Host and Host6 those of the test's end.
	IP, Host   net.IP
	IP6, Host6 net.IP
	ns         netns.NsHandle
	link       string
}

// NewPod creates the namespace number i, from 1 to 254. Its default route points to the test's
// namespace. Close deletes it.
func NewPod(i byte) (*Pod, error) {
	p := &Pod{
		IP: net.IPv4(10, 244, i, 2), Host: net.IPv4(10, 244, i, 1),
		IP6: net.ParseIP(fmt.Sprintf("fd44:%d::2", i)), Host6: net.ParseIP(fmt.Sprintf("fd44:%d::1", i)),
		link: fmt.Sprintf("pod%d", i),
	}
	err := OnOwnThread(func() error {
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
	if err := address(p.link, p.Host, p.Host6); err != nil {
		return err
	}
	return p.Do(func() error {
		if err := address("lo", net.IPv4(127, 0, 0, 1)); err != nil && !errors.Is(err, syscall.EEXIST) {
			return err
		}
		if err := address("eth0", p.IP, p.IP6); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Gw: p.Host})
	})
}

// address sets a device up and adds addresses, each with its network.
func address(device string, ips ...net.IP) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return fmt.Errorf("find %s: %w", device, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", device, err)
	}
	for _, ip := range ips {
		mask := net.CIDRMask(24, 32)
		switch {
		case device == "lo":
			mask = net.CIDRMask(32, 32)
		case ip.To4() == nil:
			mask = net.CIDRMask(64, 128)
		}
		a := &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: mask}}
		if ip.To4() == nil {
			a.Flags = unix.IFA_F_NODAD // usable at once
		}
		if err := netlink.AddrAdd(link, a); err != nil {
			return fmt.Errorf("give %s the address %s: %w", device, ip, err)
		}
	}
	return nil
}

// Do runs f with the calling thread inside the pod's namespace. A socket opened
// there stays there, and so does a process started there.
func (p *Pod) Do(f func() error) error {
	return OnOwnThread(func() error {
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

// Listen opens a TCP listener inside the pod, for IPv4 and IPv6.
func (p *Pod) Listen(port int) (net.Listener, error) {
	var listener net.Listener
	err := p.Do(func() (err error) {
		listener, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
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

// ServeAddress adds one more address to the test's own namespace, as a cluster IP
// that something listens at.
func ServeAddress(ip net.IP) error {
	err := address("lo", ip)
	if errors.Is(err, syscall.EEXIST) {
		return nil
	}
	return err
}

// OnOwnThread runs f on a separate thread, which terminates afterwards: a thread that cannot return
// to its namespace, or is pinned to a processor, must not run other goroutines.
func OnOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

package redirect

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// pair is two network namespaces of the test's own, joined by a cable: the
// pod's, and one from which requests come.
type pair struct {
	pod, outside netns.NsHandle
}

var podAddresses = map[string]string{"IPv4": "10.77.0.2", "IPv6": "fd77::2"}

func newPair(t *testing.T) pair {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes network namespaces: run it as root")
	}
	p := pair{pod: newNamespace(t), outside: newNamespace(t)}
	links(t, p.outside, func(h *netlink.Handle) error {
		return h.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"},
			PeerName: "eth0", PeerNamespace: netlink.NsFd(int(p.pod))})
	})
	for ns, host := range map[netns.NsHandle]int{p.outside: 1, p.pod: 2} {
		links(t, ns, func(h *netlink.Handle) error { return up(h, host) })
	}
	return p
}

// up brings loopback and the cable up, with address number host of each family.
func up(h *netlink.Handle, host int) error {
	for _, name := range []string{"lo", "eth0"} {
		link, err := h.LinkByName(name)
		if err != nil {
			return err
		}
		if err := h.LinkSetUp(link); err != nil {
			return err
		}
		if name == "lo" {
			continue
		}
		for _, format := range []string{"10.77.0.%d/24", "fd77::%d/64", "fe80::%d/64"} {
			address, err := netlink.ParseAddr(fmt.Sprintf(format, host))
			if err != nil {
				return err
			}
			address.Flags = unix.IFA_F_NODAD // usable at once
			if err := h.AddrAdd(link, address); err != nil {
				return err
			}
		}
	}
	return nil
}

// newNamespace makes a namespace that is deleted with the test.
func newNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	ns := openNamespace(t)
	t.Cleanup(func() { ns.Close() })
	return ns
}

// openNamespace makes a namespace that goes when the caller closes it.
func openNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	made := make(chan netns.NsHandle)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ns, err := netns.New()
		if err != nil {
			t.Errorf("new network namespace: %v", err)
		}
		made <- ns
	}()
	ns := <-made
	if !ns.IsOpen() {
		t.FailNow()
	}
	return ns
}

func links(t *testing.T, ns netns.NsHandle, do func(*netlink.Handle) error) {
	t.Helper()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := do(h); err != nil {
		t.Fatal(err)
	}
}

// within runs a function on a thread in a namespace. Sockets it opens stay
// there.
func within(t *testing.T, ns netns.NsHandle, do func() error) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := netns.Set(ns); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// listen answers each connection to a port of the pod with the port's number and the
// destination the connection had before NAT, line for line of its input.
func (p pair) listen(t *testing.T, port int) {
	t.Helper()
	listenIn(t, p.pod, port)
}

func listenIn(t *testing.T, ns netns.NsHandle, port int) {
	t.Helper()
	var l net.Listener
	within(t, ns, func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf("[::]:%d", port))
		return err
	})
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				line := make([]byte, 1)
				for {
					if _, err := io.ReadFull(conn, line); err != nil {
						return
					}
					fmt.Fprintf(conn, "%d for %s\n", port, originalDestination(conn.(*net.TCPConn)))
				}
			}()
		}
	}()
}

// originalDestination asks the kernel, as Envoy's original_dst filter does.
func originalDestination(conn *net.TCPConn) string {
	const soOriginalDst = 80
	raw, err := conn.SyscallConn()
	if err != nil {
		return err.Error()
	}
	text := "nothing"
	local := conn.LocalAddr().(*net.TCPAddr)
	_ = raw.Control(func(fd uintptr) {
		if local.IP.To4() != nil {
			// The answer is a sockaddr_in, which fits the struct of another option.
			if a, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, soOriginalDst); err == nil {
				b := a.Multiaddr
				text = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), uint16(b[2])<<8|uint16(b[3])).String()
			}
		} else if a, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, soOriginalDst); err == nil {
			port := a.Addr.Port // in network order
			text = netip.AddrPortFrom(netip.AddrFrom16(a.Addr.Addr), port<<8|port>>8).String()
		}
	})
	return text
}

func dial(t *testing.T, from netns.NsHandle, address string) net.Conn {
	t.Helper()
	var conn net.Conn
	within(t, from, func() (err error) {
		conn, err = net.DialTimeout("tcp", address, 5*time.Second)
		return err
	})
	t.Cleanup(func() { conn.Close() })
	return conn
}

func ask(t *testing.T, conn net.Conn) string {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte{'?'}); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 100)
	n, err := conn.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(answer[:n]))
}

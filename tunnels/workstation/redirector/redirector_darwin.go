package redirector

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"switchyard.dev/tunnels/workstation/redirect"
	"switchyard.dev/tunnels/workstation/redirector/guardian"
)

// RedirectsIPv6 reports whether IPv6 is redirected too.
const RedirectsIPv6 = false

// Table is a set of rules in pf. It is not safe for concurrent use.
type Table struct {
	name     string
	guardian *guardian.Guardian
}

// Open makes an empty anchor that is removed with this process. The error names the remedy.
func Open(name string) (*Table, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("redirecting connections of this machine requires root: run it with sudo")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	g, err := guardian.Start(program, guardian.Config{PFCtl: "/sbin/pfctl", Lock: "/etc/pf.conf", Anchor: redirect.Anchor(name)})
	if err != nil {
		return nil, err
	}
	return &Table{name: name, guardian: g}, nil
}

// Close removes the rules.
func (t *Table) Close() error {
	t.guardian.Close()
	return nil
}

// Set makes the rules those of r; Name and Own are set here. They change as one, and are loaded
// also when they are the same, because another program may have flushed them.
func (t *Table) Set(r redirect.Rules) error {
	r.Name = t.name
	all, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("read the addresses of this machine: %w", err)
	}
	for _, one := range all {
		if p, err := netip.ParsePrefix(one.String()); err == nil {
			r.Own = append(r.Own, p.Addr())
		}
	}
	text, err := redirect.PF(r)
	if err != nil {
		return err
	}
	return t.guardian.Load(text)
}

// Original returns the original destination of a redirected connection. local is its address
// here: a connection that was made to that address directly is an error.
func Original(c syscall.Conn, local netip.AddrPort) (netip.AddrPort, error) {
	led, ok := c.(net.Conn)
	if !ok {
		return netip.AddrPort{}, errors.New("not a connection of TCP")
	}
	from, err := netip.ParseAddrPort(led.RemoteAddr().String())
	if err != nil {
		return netip.AddrPort{}, err
	}
	question, err := redirect.Asked(from, local)
	if err != nil {
		return netip.AddrPort{}, err
	}
	pf, err := os.Open("/dev/pf")
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("read the original destination of the connection from pf: %w", err)
	}
	defer pf.Close()
	_, _, number := unix.Syscall(unix.SYS_IOCTL, pf.Fd(), uintptr(redirect.Lookup), uintptr(unsafe.Pointer(&question)))
	switch {
	case number == unix.ENOENT:
		return netip.AddrPort{}, errors.New("the connection was not redirected")
	case number != 0:
		return netip.AddrPort{}, fmt.Errorf("pf returned no original destination of the connection: %w", number)
	}
	to := redirect.Answered(question)
	if to.Addr().IsLoopback() {
		return to, fmt.Errorf("the connection was not redirected: %s is not an address of the cluster", to)
	}
	return to, nil
}

// Pass is the Control of a net.Dialer for connections that the rules must not redirect: they exempt
// those of root.
func Pass(string, string, syscall.RawConn) error { return nil }

//go:build !linux && !darwin

package redirector

import (
	"errors"
	"net/netip"
	"syscall"

	"switchyard.dev/tunnels/workstation/redirect"
)

// errElsewhere is the error on other systems.
var errElsewhere = errors.New("redirecting connections of this machine is supported on Linux and macOS only: use the SOCKS5 and HTTP proxies, or --map")

// RedirectsIPv6 reports whether IPv6 is redirected too.
const RedirectsIPv6 = false

// Table is not supported.
type Table struct{}

// Open returns an error.
func Open(string) (*Table, error) { return nil, errElsewhere }

// Set returns an error.
func (*Table) Set(redirect.Rules) error { return errElsewhere }

// Close does nothing.
func (*Table) Close() error { return nil }

// Original returns an error.
func Original(syscall.Conn, netip.AddrPort) (netip.AddrPort, error) {
	return netip.AddrPort{}, errElsewhere
}

// Pass is the Control of a net.Dialer. It returns an error.
func Pass(string, string, syscall.RawConn) error { return errElsewhere }

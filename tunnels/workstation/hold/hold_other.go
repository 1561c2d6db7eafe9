//go:build !linux && !darwin

package hold

import (
	"errors"
	"net/netip"
	"syscall"

	"switchyard.dev/tunnels/workstation/redirect"
)

// errElsewhere is what there is to say on other machines.
var errElsewhere = errors.New("connections of this machine are led into the cluster on Linux and macOS alone: use the SOCKS5 and HTTP proxies, or --map")

// LeadsSix reports whether IPv6 is led too.
const LeadsSix = false

// Table is rules that the kernel has.
type Table struct{}

// Open makes an empty table that goes with this process.
func Open(string) (*Table, error) { return nil, errElsewhere }

// Set makes the rules those of r.
func (*Table) Set(redirect.Rules) error { return errElsewhere }

// Close takes the rules away.
func (*Table) Close() error { return nil }

// Original returns where a connection that was led here was to go.
func Original(syscall.Conn, netip.AddrPort) (netip.AddrPort, error) {
	return netip.AddrPort{}, errElsewhere
}

// Pass is the Control of a net.Dialer whose connections the rules let pass.
func Pass(string, string, syscall.RawConn) error { return errElsewhere }

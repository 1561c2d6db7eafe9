package proxy

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/keys"
	"switchyard.dev/tunnels/outbound"
)

// Config configures a Main.
type Config struct {
	// Access, Cluster, Audit, TLS and Keys are required.
	Access  *access.Access
	Cluster *cluster.Cluster
	Audit   *audit.Log
	TLS     *trust.Folder
	Keys    keys.Keys
	// Managers verifies tokens at the control port, which have audience access.Audience. Manager
	// is the account that may connect there, as namespace/name. Required.
	Managers *tokens.Verifier
	Manager  string
	// Resolver looks up names. Default: the system's.
	Resolver outbound.Resolver
	// Pod is the name of the proxy's pod, and Version the operator's, for display.
	Pod, Version string
	// Addresses to listen on, as host:port. Defaults: the ports in the package documentation.
	// DisableSSH and DisableCarrier switch a listener off.
	SOCKSAddress, SSHAddress, CarrierAddress, ControlAddress, MetricsAddress string
	DisableSSH, DisableCarrier                                               bool
	// WorkloadHost is where ports of workloads are opened. Default: every address.
	WorkloadHost string
	// OpenSOCKS reports whether SOCKS5 accepts every client, and OpenLoopback whether it takes
	// clients at loopback addresses, as those of a port-forward, without a credential.
	OpenSOCKS, OpenLoopback bool
	// Grace is for how long the ports of a tunnel stay open without its workstation.
	// Default: 10 minutes.
	Grace time.Duration
	// Ports is a file with the ports of tunnels, for the next process. Default: none.
	Ports string
	// Moment is how long open connections may continue when the proxy drains. Default: 20 s.
	Moment time.Duration
	// Recheck is the interval at which a session checks its token, or over SSH that its user exists,
	// and the rights that it uses. Default: 30 s.
	Recheck time.Duration
	// Clock returns the time, for the end of sessions over SSH. Default: time.Now.
	Clock func() time.Time
	// MaxConnections bounds the open connections of unauthenticated clients on each listener.
	// Default: 4096.
	MaxConnections int
	// Logger logs sessions, refusals and errors. Default: none.
	Logger *slog.Logger
	// Metrics is the registry. Default: a new one.
	Metrics *prometheus.Registry
}

// Validate returns an error when a field of a Config is missing or out of range.
func (c Config) Validate() error {
	switch {
	case c.Access == nil || c.Cluster == nil || c.Audit == nil || c.TLS == nil || c.Keys.SSHHost == nil:
		return errors.New("tunnel proxy: Access, Cluster, Audit, TLS and Keys are all needed")
	case c.Managers == nil || c.Manager == "":
		return errors.New("tunnel proxy: Managers and Manager are both required")
	case c.MaxConnections < 0 || c.Grace < 0 || c.Moment < 0:
		return errors.New("tunnel proxy: MaxConnections, Grace and Moment must not be negative")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.SOCKSAddress = cmp.Or(c.SOCKSAddress, ":1080")
	c.SSHAddress = cmp.Or(c.SSHAddress, ":2222")
	c.CarrierAddress = cmp.Or(c.CarrierAddress, ":7777")
	c.ControlAddress = cmp.Or(c.ControlAddress, ":7780")
	c.MetricsAddress = cmp.Or(c.MetricsAddress, ":9090")
	c.Grace = cmp.Or(c.Grace, 10*time.Minute)
	c.Moment = cmp.Or(c.Moment, 20*time.Second)
	c.Recheck = cmp.Or(c.Recheck, 30*time.Second)
	c.MaxConnections = cmp.Or(c.MaxConnections, 4096)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Metrics = cmp.Or(c.Metrics, prometheus.NewRegistry())
	return c
}

package proxy

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/keys"
	"switchyard.dev/tunnels/outbound"
	"switchyard.dev/tunnels/policy"
	"switchyard.dev/tunnels/records"
)

// Name is the host name of the proxies for workstations, which their certificate must be for.
const Name = "tunnel-proxy.signadot.svc"

// Settings are the values that the program takes from flags.
type Settings struct {
	// Config has the addresses, and everything else that is passed on unchanged.
	Config Config
	// Namespace is the operator's, Domain that of the cluster's Services.
	Namespace, Domain string
	// TLSDir is the folder with the certificate, JournalDir that of the journal of connections,
	// and CIDRs a file with the ranges that may be reached, as the chart has them.
	TLSDir, JournalDir, CIDRs string
	// Defaults decide what an empty file of ranges means: cluster with the current ones, else any.
	Defaults program.Defaults
	// Namespaces restrict the Services that may be reached to those of these namespaces; none:
	// all.
	Namespaces []string
	// AllowAPIServer reports whether tunnels may reach API servers.
	AllowAPIServer bool
	// SidecarPorts are ports that tunnels must not reach at any address, because sidecars use
	// them.
	SidecarPorts []uint16
	// Stream also sends records of connections to their stream on the event bus; Bus configures
	// that.
	Stream bool
	Bus    connect.Config
	// LogLevel is the least important level that is logged.
	LogLevel slog.Level
}

// ParseSettings parses the program's arguments, without its name. Usage goes to help. The error
// is flag.ErrHelp when the arguments request help.
func ParseSettings(args []string, getenv func(string) string, help io.Writer) (Settings, error) {
	s := Settings{Config: Config{Pod: getenv("POD_NAME")}}
	ssh, xap := true, true
	defaults, err := program.ReadDefaults(getenv)
	if err != nil {
		return Settings{}, err
	}
	flags := flag.NewFlagSet("tunnel-proxy", flag.ContinueOnError)
	flags.StringVar(&s.Config.SOCKSAddress, "socks5-address", ":1080", "address of SOCKS5")
	flags.StringVar(&s.Config.SSHAddress, "ssh-address", ":2222", "address of SSH")
	flags.StringVar(&s.Config.CarrierAddress, "xap-address", ":7777", "address of the tunnels' own protocol, over TLS")
	flags.StringVar(&s.Config.ControlAddress, "control-address", ":7780", "address for the controller manager, over TLS")
	flags.StringVar(&s.Config.MetricsAddress, "metrics-address", ":9090", "address of /metrics, /healthz and /readyz")
	flags.BoolVar(&ssh, "ssh", true, "whether SSH is served")
	flags.BoolVar(&xap, "xap", true, "whether the tunnels' own protocol is served")
	flags.BoolVar(&s.Config.OpenSOCKS, "anonymous-socks5", false, "whether SOCKS5 accepts every client without a password, as published clients require")
	s.Config.OpenLoopback, s.Defaults = !defaults.Current(), defaults
	flags.Func("socks5-loopback", "what SOCKS5 asks of clients at loopback addresses, as those of a port-forward: credentials, or anonymous for nothing, as in installations from an earlier chart", s.setLoopback)
	flags.DurationVar(&s.Config.Grace, "grace", 10*time.Minute, "for how long ports of a tunnel stay open without its workstation")
	flags.DurationVar(&s.Config.Moment, "drain", 20*time.Second, "how long connections have to end when the proxy is to; less than the pod has")
	flags.StringVar(&s.Config.Manager, "manager", "signadot/signadot-controller-manager", "service account that may connect to the control port, as namespace/name")
	flags.StringVar(&s.Config.Version, "operator-version", program.Built().Version, "version of the operator, for workstations")
	flags.StringVar(&s.Namespace, "namespace", "signadot", "namespace of the operator")
	flags.StringVar(&s.Domain, "cluster-domain", "", "domain of the cluster's Services; empty: as the resolver of this pod has it")
	flags.StringVar(&s.TLSDir, "tls-dir", "/var/run/secrets/tls", "directory with tls.crt, tls.key and ca.crt; it is read again when it changes")
	flags.StringVar(&s.JournalDir, "journal-dir", "/var/lib/tunnel-proxy", "directory of the journal of connections and of the ports of tunnels, which outlive the process")
	flags.StringVar(&s.CIDRs, "cidrs", "", "file with the ranges that may be reached, or may not, as tunnel.config.cidrs of the chart; none: everything may")
	flags.Func("namespaces", "reach Services of these namespaces only, separated by commas; none: all", program.List(&s.Namespaces))
	flags.BoolVar(&s.AllowAPIServer, "allow-api-server", false, "whether tunnels may reach API servers")
	flags.BoolVar(&s.Stream, "audit-stream", false, "whether records of connections go to their stream on the event bus too")
	parsed := connect.Flags(flags, getenv, &s.Bus)
	flags.TextVar(&s.LogLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	if err := program.Parse(flags, args, help); err != nil {
		return Settings{}, err
	}
	parsed()
	s.Config.DisableSSH, s.Config.DisableCarrier = !ssh, !xap
	return s, nil
}

// setLoopback reads the flag --socks5-loopback.
func (s *Settings) setLoopback(text string) error {
	switch text {
	case "credentials", "anonymous":
		s.Config.OpenLoopback = text == "anonymous"
		return nil
	}
	return errors.New("it is neither credentials nor anonymous")
}

// Open reads the files of the settings and connects to the cluster. Records of connections go to
// out. The caller closes the Audit of the Config after Run.
func (s Settings) Open(ctx context.Context, reach *rest.Config, out io.Writer, logger *slog.Logger) (Config, error) {
	c := s.Config
	c.Logger, c.Metrics = logger, program.Registry()
	kube, err := kubernetes.NewForConfig(reach)
	if err != nil {
		return c, fmt.Errorf("reach the cluster: %w", err)
	}
	reviews := kube.AuthenticationV1().TokenReviews()
	if c.Access, err = access.New(access.Config{Tokens: reviews, Rights: kube.AuthorizationV1().SubjectAccessReviews(),
		Issuer: tokens.NewIssuer(kube.Discovery().RESTClient(), nil), Accounts: kube.CoreV1(),
		Credentials: controlkeys.New(kube.CoreV1().ConfigMaps(s.Namespace), nil), Logger: logger}); err != nil {
		return c, err
	}
	if c.Managers, err = tokens.New(tokens.Config{Reviews: reviews, Audience: access.Audience}); err != nil {
		return c, err
	}
	if c.TLS, err = trust.Open(trust.Config{Dir: s.TLSDir, Name: Name, Logger: logger}); err != nil {
		return c, err
	}
	if c.Keys, err = keys.Await(ctx, logger, kube.CoreV1().Secrets(s.Namespace), keys.Read); err != nil {
		return c, err
	}
	watched, err := s.watched(reach)
	if err != nil {
		return c, err
	}
	if c.Cluster, err = cluster.New(watched); err != nil {
		return c, err
	}
	c.Ports = filepath.Join(s.JournalDir, "ports.json")
	sinks, err := s.sinks(c)
	if err != nil {
		return c, err
	}
	c.Audit, err = audit.Open(audit.Config{Dir: s.JournalDir, Out: out, Sinks: sinks, Proxy: c.Pod, Logger: logger, Metrics: c.Metrics})
	return c, err
}

// sinks returns the destinations of records in addition to the log.
func (s Settings) sinks(c Config) ([]audit.Sink, error) {
	if !s.Stream {
		return nil, nil
	}
	bus := s.Bus
	bus.Role, bus.Name, bus.Logger = connect.Recorder, c.Pod, c.Logger
	if bus.TLSWithOwn() {
		bus.Roots = c.TLS.Roots()
	}
	stream, err := records.Open(bus)
	if err != nil {
		return nil, err
	}
	return []audit.Sink{stream}, nil
}

// watched returns which objects to watch, and which destinations to refuse.
func (s Settings) watched(reach *rest.Config) (cluster.Config, error) {
	c := cluster.Config{Access: reach, Domain: cmp.Or(s.Domain, program.ClusterDomain(program.ResolverFile)), Namespaces: s.Namespaces}
	if s.CIDRs != "" {
		text, err := os.ReadFile(s.CIDRs)
		if err != nil {
			return c, fmt.Errorf("read the ranges that may be reached: %w", err)
		}
		if strings.TrimSpace(string(text)) == "" && s.Defaults.Current() {
			text = []byte("cluster")
		}
		if c.Reach, c.CIDRs, err = policy.ParseCIDRs(string(text)); err != nil {
			return c, fmt.Errorf("%s: %w", s.CIDRs, err)
		}
	}
	if len(s.SidecarPorts) > 0 {
		c.Places = append(c.Places, policy.Place{What: "a port of sidecars", Ports: s.SidecarPorts})
	}
	if !s.AllowAPIServer {
		c.Refused = append(c.Refused, cluster.Refused{Namespace: "default", Name: "kubernetes", What: "an API server",
			Todo: "Reach it with your own credentials, or set tunnel.config.apiServer"})
	}
	ports, err := s.ports()
	if err != nil {
		return c, err
	}
	for _, name := range []string{"eventbus", "eventbus-metrics"} {
		c.Refused = append(c.Refused, cluster.Refused{Namespace: s.Namespace, Name: name, What: "the event bus"})
	}
	for _, name := range []string{"tunnel-proxy", "tunnel-proxy-metrics"} {
		c.Refused = append(c.Refused, cluster.Refused{Namespace: s.Namespace, Name: name, What: "a tunnel proxy itself", Ports: ports})
	}
	return c, nil
}

// ports returns the proxy's own ports, except those of workloads.
func (s Settings) ports() ([]uint16, error) {
	var out []uint16
	for _, address := range []string{s.Config.SOCKSAddress, s.Config.SSHAddress, s.Config.CarrierAddress, s.Config.ControlAddress, s.Config.MetricsAddress} {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("the address %q is none: %w", address, err)
		}
		out = append(out, uint16(a.Port))
	}
	return out, nil
}

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

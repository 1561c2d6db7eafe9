package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"

	client "k8s.io/client-go/kubernetes/typed/core/v1"
	discovery "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"switchyard.dev/controlplane-link/kubeapi"
	"switchyard.dev/controlplane-link/kubeapi/table"
	"switchyard.dev/controlplane-link/link"
	"switchyard.dev/controlplane-link/reach"
	"switchyard.dev/controlplane-link/reach/allow"
	"switchyard.dev/controlplane-link/runner"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/reconcilers/baseline/ready"
	"switchyard.dev/reconcilers/runners"
	"switchyard.dev/tunnels/audit"
	"switchyard.dev/tunnels/cluster"
	"switchyard.dev/tunnels/dialer"
	"switchyard.dev/tunnels/outbound"
	"switchyard.dev/tunnels/policy"
)

// Published is the published default address of the control plane, which belongs to another
// product.
const Published = "tunnel.signadot.com:443"

// Settings are the values that the program takes from flags.
type Settings struct {
	// Address is the control plane's, host:port. CA is a file with its authorities; SystemCA: those
	// of the system are trusted. TLS: the connection is encrypted; it can be false on loopback only.
	Address, CA   string
	SystemCA, TLS bool
	// TokenFile has the cluster token; it can be missing.
	TokenFile string
	// HealthAddress and MetricsAddress are those of the listeners.
	HealthAddress, MetricsAddress string
	// Namespace is the operator's, Domain that of the cluster's Services.
	Namespace, Domain string
	// Runners is the address of the operator's service of runners, host:port, and AccountTokenFile has the token of the
	// agent's service account for it.
	Runners, AccountTokenFile string
	// Configuration is sent to the control plane, and applies here.
	Configuration *linkv1.Configuration
	// Ports are those that can be reached; none: all. SidecarPorts are those that cannot be reached
	// at any address, because sidecars use them.
	Ports        []uint32
	SidecarPorts []uint16
	// Refused are Services that cannot be reached, and Resolver looks up names. Default: those of
	// reach.Refused, and the system's.
	Refused  []cluster.Refused
	Resolver outbound.Resolver
	// ReportUnknown: objects that the control plane does not know are reported.
	ReportUnknown bool
	// JournalDir is the folder of the journal of connections.
	JournalDir string
	// Version is the operator's.
	Version string
	// LogLevel is the least important level that is logged.
	LogLevel slog.Level
}

// ParseSettings parses the program's arguments, without its name. Usage goes to help. The error
// is flag.ErrHelp when the arguments request help.
func ParseSettings(args []string, help io.Writer) (Settings, error) {
	s := Settings{Configuration: &linkv1.Configuration{}}
	c := s.Configuration
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.StringVar(&s.Address, "control-plane", Published, "address of the control plane, host:port")
	flags.StringVar(&s.CA, "ca-file", "", "file with the authorities of the control plane, as PEM; none: no server is trusted")
	flags.BoolVar(&s.SystemCA, "system-ca", false, "trust the authorities of the system instead; any of them can then impersonate the control plane")
	flags.BoolVar(&s.TLS, "tls", true, "whether to connect over TLS; false only for an address on loopback, where another program adds TLS")
	flags.StringVar(&s.TokenFile, "token-file", "/var/run/secrets/cluster-token/token", "file with the cluster token; without it the agent is idle")
	flags.StringVar(&s.HealthAddress, "health-address", ":8088", "address of /healthz and /nullz")
	flags.StringVar(&s.MetricsAddress, "metrics-address", ":9090", "address of /metrics")
	flags.StringVar(&s.Namespace, "namespace", "signadot", "namespace of the operator")
	flags.StringVar(&s.Runners, "runners", "", "address of the operator's service of job runners, host:port; empty: that of the Service in the operator's namespace")
	flags.StringVar(&s.AccountTokenFile, "account-token-file", "/var/run/secrets/kubernetes.io/serviceaccount/token", "file with the token of the agent's service account, which is shown to that service")
	flags.StringVar(&s.Domain, "cluster-domain", "", "domain of the cluster's Services; empty: as the resolver of this pod has it")
	flags.Func("namespaces", "reach these namespaces only, separated by commas; none: all", program.List(&c.AllowedNamespaces))
	flags.Func("ports", "reach these ports of Services only, separated by commas; none: all", s.addPorts)
	flags.Func("meshes", "the meshes that are enabled, separated by commas, for the control plane", program.List(&c.Meshes))
	flags.BoolVar(&c.Services, "services", true, "whether Services can be reached through the link")
	flags.BoolVar(&c.PodLogs, "pod-logs", false, "whether logs of pods can be read through the link")
	previews := flags.Bool("previews", true, "whether endpoints of the cluster have previews at the control plane")
	flags.StringVar(&c.PreviewDomain, "preview-domain", "", "domain of the previews of the cluster's endpoints; empty: that of the organisation")
	flags.Func("routing-headers", "headers, beside baggage and tracestate, that carry a routing key, separated by commas, for the control plane", program.List(&c.RoutingHeaders))
	flags.BoolVar(&s.ReportUnknown, "report-unknown", true, "whether to report objects that the control plane does not know; they are kept")
	flags.StringVar(&s.JournalDir, "journal-dir", "/var/lib/agent", "directory of the journal of connections")
	flags.StringVar(&s.Version, "operator-version", program.Built().Version, "version of the operator, for the control plane")
	flags.TextVar(&s.LogLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	if err := program.Parse(flags, args, help); err != nil {
		return Settings{}, err
	}
	s.Runners = cmp.Or(s.Runners, runners.At(s.Namespace))
	if s.Domain == "" {
		s.Domain = program.ClusterDomain(program.ResolverFile)
	}
	c.ClusterDomain, c.PreviewsDisabled, s.Refused = s.Domain, !*previews, reach.Refused(s.Namespace)
	if s.CA != "" && s.SystemCA {
		return Settings{}, errors.New("--ca-file and --system-ca exclude each other: the authority of the control plane is the safer one")
	}
	return s, nil
}

// addPorts reads the flag --ports.
func (s *Settings) addPorts(text string) error {
	for one := range strings.SplitSeq(text, ",") {
		port, err := strconv.ParseUint(strings.TrimSpace(one), 10, 16)
		if err != nil || port == 0 {
			return fmt.Errorf("%q is no port", one)
		}
		s.Ports = append(s.Ports, uint32(port))
	}
	return nil
}

// token returns the cluster token as its file has it, which the kubelet replaces; empty: there is none.
func (s Settings) token() (string, error) {
	text, err := os.ReadFile(s.TokenFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the cluster token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// verify returns which servers are trusted; nil: none.
func (s Settings) verify() (verify link.Verify, err error) {
	switch {
	case s.SystemCA:
		return trust.VerifyWithSystem, nil
	case s.CA == "":
		return verify, nil
	}
	roots, err := trust.ReadRoots(s.CA, "controlPlane.ca")
	if err != nil {
		return nil, fmt.Errorf("read the authorities of the control plane: %w", err)
	}
	return roots.Verify, nil
}

// Open reads the files of the settings and connects to the cluster. Records of connections and of writes go to
// out, whatever the logger's level is.
func (s Settings) Open(access *rest.Config, out io.Writer, logger *slog.Logger) (*Main, error) {
	m := &Main{settings: s, logger: logger, registry: program.Registry()}
	m.metrics = newMetrics(m.registry, func() link.Kind { state, _ := m.link.State(); return state.Kind })
	watched := cluster.Config{Access: access, Domain: s.Domain, Reach: policy.ReachCluster, Namespaces: s.Configuration.GetAllowedNamespaces(), Refused: s.Refused}
	if len(s.SidecarPorts) > 0 {
		watched.Places = []policy.Place{{What: "a port of sidecars", Ports: s.SidecarPorts}}
	}
	var failed [8]error
	var finder *ready.Finder
	var objects metadata.Interface
	var verify link.Verify
	m.cluster, failed[0] = cluster.New(watched)
	finder, failed[1] = ready.New(access)
	m.kubernetes, failed[2] = kubeapi.New(kubeapi.Config{
		Access: access, Record: slog.New(slog.NewJSONHandler(out, nil)), Policy: table.Policy{PodLogs: s.Configuration.GetPodLogs(), Namespaces: s.Configuration.GetAllowedNamespaces(), Operator: s.Namespace},
	})
	m.core, failed[3] = client.NewForConfig(access)
	objects, failed[4] = metadata.NewForConfig(access)
	verify, failed[5] = s.verify()
	var endpoints *discovery.DiscoveryV1Client
	endpoints, failed[7] = discovery.NewForConfig(access)
	if errors.Join(failed[3], failed[7]) == nil {
		m.runners, failed[6] = runner.New(runner.Config{
			Address: s.Runners, TokenFile: s.AccountTokenFile, ConfigMaps: m.core.ConfigMaps(s.Namespace), Slices: endpoints.EndpointSlices(s.Namespace), Record: slog.New(slog.NewJSONHandler(out, nil)),
		})
	}
	err := errors.Join(failed[:]...)
	if err != nil {
		return nil, err
	}
	if m.audit, err = audit.Open(audit.Config{Dir: s.JournalDir, Out: out, Logger: logger, Metrics: m.registry}); err != nil {
		return nil, err
	}
	if m.reach, err = reach.New(reach.Config{
		Allow:   allow.Config{Namespace: s.Namespace, Domain: s.Domain, Namespaces: s.Configuration.GetAllowedNamespaces(), Ports: s.Ports, Disabled: !s.Configuration.GetServices()},
		Cluster: m.cluster, Pods: finder, Resolver: s.Resolver, Audit: m.audit, Counts: m.metrics, Logger: logger,
	}); err != nil {
		return nil, err
	}
	if s.ReportUnknown {
		m.unknown = &unknown{client: objects, logger: logger, gauge: m.metrics.unknown, last: map[string][]string{}}
	}
	instance := rand.Text()
	m.link, err = link.New(link.Config{
		Address: s.Address, Published: s.Address == Published, Verify: verify, Plain: !s.TLS, Proxy: dialer.FromEnvironment(), Token: s.token, Handle: m.handle, Linger: lingerWithin, Logger: logger,
		Hello: func(ctx context.Context) (*linkv1.Hello, error) { return m.hello(ctx, instance) },
	})
	return m, err
}

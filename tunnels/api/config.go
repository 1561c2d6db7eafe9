package api

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/callers/tokens"
	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/trust"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/tunnels/controlkeys"
	"switchyard.dev/tunnels/keys"
	"switchyard.dev/tunnels/policy"
)

// Name is the host name of tunnel-api for workstations, which its certificate must be for.
const Name = "tunnel-api.signadot.svc"

// Config configures a Main.
type Config struct {
	// REST reaches the API server. Required.
	REST *rest.Config
	// Access authenticates callers and checks their rights. Required.
	Access *access.Access
	// Keys sign certificates and make credentials. Required.
	Keys keys.Signing
	// TLS is the serving certificate. AcceptPlain also accepts plain connections, over which
	// tokens are refused.
	TLS         *trust.Folder
	AcceptPlain bool
	// Namespace is the operator's, where the tunnel proxies are. Default: signadot. Proxies has
	// their addresses. Default: a new one.
	Namespace string
	Proxies   *Proxies
	// Reflection reports whether the API describes itself to clients such as grpcurl.
	Reflection bool
	// CIDRs is the file with the ranges that workstations may reach; empty: none.
	CIDRs string
	// Operator is the answer to GetOperatorInfo, except the ranges.
	Operator *tunnelv1.GetOperatorInfoResponse
	// Addresses to listen on, as host:port. Defaults: :9070, and :9090 for metrics and health.
	Address, MetricsAddress string
	// AskAgain is the interval at which the rights of a stream's caller are checked again.
	// Default: half a minute.
	AskAgain time.Duration
	// MaxConnections bounds the open connections of unauthenticated clients on each listener.
	// Default: 2048.
	MaxConnections int
	// Logger logs which caller received which data. Default: none.
	Logger *slog.Logger
	// Metrics is the registry. Default: a new one.
	Metrics *prometheus.Registry
}

// Validate returns an error when a required field of a Config is missing.
func (c Config) Validate() error {
	if c.REST == nil || c.Access == nil || c.TLS == nil || c.Keys.SSHCA == nil || c.Keys.Host == nil || len(c.Keys.SOCKS) == 0 {
		return errors.New("tunnel-api: REST, Access, Keys and TLS are all required")
	}
	return nil
}

func (c Config) withDefaults() Config {
	c.Namespace, c.Proxies = cmp.Or(c.Namespace, "signadot"), cmp.Or(c.Proxies, &Proxies{})
	c.Address = cmp.Or(c.Address, ":9070")
	c.MetricsAddress = cmp.Or(c.MetricsAddress, ":9090")
	c.MaxConnections = cmp.Or(c.MaxConnections, 2048)
	c.AskAgain = cmp.Or(c.AskAgain, askAgain)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Metrics = cmp.Or(c.Metrics, prometheus.NewRegistry())
	c.Operator = cmp.Or(c.Operator, &tunnelv1.GetOperatorInfoResponse{})
	c.Operator.ClusterDomain = cmp.Or(c.Operator.ClusterDomain, "cluster.local")
	return c
}

// ranges returns the ranges that workstations may reach, as the file has them now.
func (c Config) ranges() ([]*tunnelv1.CIDR, error) {
	if c.CIDRs == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.CIDRs)
	if err != nil {
		return nil, fmt.Errorf("read the ranges that may be reached: %w", err)
	}
	_, all, err := policy.ParseCIDRs(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.CIDRs, err)
	}
	return lists.Map(all, func(r policy.CIDR) *tunnelv1.CIDR {
		return &tunnelv1.CIDR{Name: r.Name, Cidr: r.Prefix.String(), Exclude: r.Exclude}
	}), nil
}

// Settings are the values that the program takes from flags.
type Settings struct {
	// Config has the addresses, and everything else that is passed on unchanged.
	Config Config
	// TLSDir is the folder with the certificate, Version that of the operator.
	TLSDir, Version string
	// LogLevel is the least important level that is logged.
	LogLevel slog.Level
}

// ParseSettings parses the program's arguments, without its name. Usage goes to help. The error
// is flag.ErrHelp when the arguments request help.
func ParseSettings(args []string, getenv func(string) string, help io.Writer) (Settings, error) {
	var s Settings
	defaults, err := program.ReadDefaults(getenv)
	if err != nil {
		return Settings{}, err
	}
	flags := flag.NewFlagSet("tunnel-api", flag.ContinueOnError)
	flags.StringVar(&s.Config.Address, "address", ":9070", "address of the API, gRPC")
	flags.StringVar(&s.Config.MetricsAddress, "metrics-address", ":9090", "address of /metrics, /healthz and /readyz")
	flags.StringVar(&s.TLSDir, "tls-dir", "/var/run/secrets/tls", "directory with tls.crt, tls.key and ca.crt; it is read again when it changes")
	plain := program.AcceptPlain(flags, defaults, &s.Config.AcceptPlain, "accept connections that are not encrypted too; no token counts over them")
	flags.BoolVar(&s.Config.Reflection, "reflection", false, "whether the API describes itself to clients such as grpcurl (gRPC server reflection)")
	flags.StringVar(&s.Config.CIDRs, "cidrs", "", "file with the ranges that workstations may reach, as tunnel.config.cidrs of the chart")
	flags.StringVar(&s.Config.Namespace, "namespace", "signadot", "namespace of the operator")
	flags.StringVar(&s.Version, "operator-version", "", "version of the operator, for workstations")
	flags.TextVar(&s.LogLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	if err := program.Parse(flags, args, help); err != nil {
		return Settings{}, err
	}
	plain(s.TLSDir != "")
	return s, nil
}

// Open reads the files of the settings and connects to the cluster. It waits up to a minute for
// the keys, which the controller manager creates.
func (s Settings) Open(ctx context.Context, reach *rest.Config, logger *slog.Logger) (Config, error) {
	c := s.Config
	c.REST, c.Logger, c.Metrics = reach, logger, program.Registry()
	built := program.Built()
	c.Operator = &tunnelv1.GetOperatorInfoResponse{Version: cmp.Or(s.Version, built.Version), GitCommit: built.Commit, BuildDate: built.Date,
		ClusterDomain: program.ClusterDomain(program.ResolverFile)}
	if _, err := c.ranges(); err != nil {
		return c, err
	}
	kube, err := kubernetes.NewForConfig(reach)
	if err != nil {
		return c, fmt.Errorf("reach the cluster: %w", err)
	}
	c.Proxies = &Proxies{}
	c.Access, err = access.New(access.Config{Tokens: kube.AuthenticationV1().TokenReviews(), Rights: kube.AuthorizationV1().SubjectAccessReviews(),
		Issuer: tokens.NewIssuer(kube.Discovery().RESTClient(), nil), Forwards: c.Proxies.Has,
		Credentials: controlkeys.New(kube.CoreV1().ConfigMaps(c.Namespace), nil), Logger: logger})
	if err != nil {
		return c, err
	}
	if c.TLS, err = trust.Open(trust.Config{Dir: s.TLSDir, Name: Name, Logger: logger}); err != nil {
		return c, err
	}
	c.Keys, err = keys.Await(ctx, logger, kube.CoreV1().Secrets(c.Namespace), keys.ReadSigning)
	return c, err
}

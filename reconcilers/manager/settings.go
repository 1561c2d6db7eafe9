package manager

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/nats-io/nats.go"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/publisher"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/authority"
	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/routeserver/door"
	"switchyard.dev/sidecars/inject"
)

// Settings are the settings from flags and environment.
type Settings struct {
	// Bus is the connection to the event bus.
	Bus connect.Config
	// Replicas is the number of event bus servers that store the routing log.
	Replicas int
	// Inject are the injection settings from the environment.
	Inject inject.Config
	// Workflows are the settings of Resource units from the environment.
	Workflows Workflows
	// Jobs are the settings of the pods that run jobs from the environment.
	Jobs Jobs
	// Traffic are the settings of captures.
	Traffic Traffic
	// LeaderElect enables leader election: controllers run only while this process is the leader.
	LeaderElect bool
	// Addresses to listen on, as host:port.
	MetricsAddress, HealthAddress, WebhookAddress, RunnersAddress string
	// ClusterConfig is the path of the operator's configuration file.
	ClusterConfig string
	// History bounds the history of the routing log.
	History publisher.Bounds
	// HistoryBytes is the maximum size of the routing log.
	HistoryBytes int64
	// WaitForProxies makes Ready wait until every proxy has a routing key, as reported by the route
	// servers at RouteServer, host:port of their gRPC service.
	WaitForProxies bool
	RouteServer    string
	// RouteServerToken is the file with the token that is shown to them.
	RouteServerToken string
	// TunnelProxyToken is the file with the token for tunnel proxies; if it is empty, they are not polled.
	TunnelProxyToken string
	// ValuesNamespace has the values of units.
	ValuesNamespace string
	// Defaults is the version of the defaults that the environment names; zero: that of the
	// installation.
	Defaults program.Defaults
	// LogLevel is the least important level that is logged.
	LogLevel slog.Level
}

// defaultRouteServer is the address of the route server's Service in the chart.
const defaultRouteServer = "routeserver." + operatorNamespace + ".svc:7777"

// leastHistory is the least room of the routing log, in bytes.
const leastHistory = 16 << 20

// ParseSettings parses the program's arguments, without its name. Settings without a flag come from the
// environment (EVENTBUS_URL, ROUTESERVER_ADDRESS, POD_NAME, and the images of injected containers), then
// from the defaults. Usage is written to help. The error is flag.ErrHelp if the arguments request help.
func ParseSettings(args []string, getenv func(string) string, help io.Writer) (Settings, error) {
	s := Settings{Bus: connect.Config{Role: connect.Writer, Name: cmp.Or(getenv("POD_NAME"), "controller-manager")}}
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.BoolVar(&s.LeaderElect, "leader-elect", false, "run controllers only while this process is the leader")
	flags.StringVar(&s.MetricsAddress, "metrics-bind-address", ":8080", "address of /metrics")
	flags.StringVar(&s.HealthAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flags.StringVar(&s.WebhookAddress, "webhook-bind-address", ":9443", "address of the injecting webhook")
	flags.StringVar(&s.RunnersAddress, "runners-bind-address", ":9444", "address of the service for the runners of jobs and their users")
	flags.StringVar(&s.ClusterConfig, "config", "/etc/signadot/cluster_config.yaml", "the operator's configuration file")
	flags.StringVar(&s.ValuesNamespace, "values-namespace", operatorNamespace+"-values", "namespace of the Secrets with values of units")
	reached := connect.Flags(flags, getenv, &s.Bus)
	flags.IntVar(&s.Replicas, "eventbus-replicas", 1, "how many servers of the event bus keep the routing log: 1, 3 or 5; more than 1 takes a NATS cluster of your own")
	flags.Uint64Var(&s.History.Events, "history-events", publisher.DefaultEvents, "how many of the newest events the routing log keeps at least, if they are not too old and half of its room is enough")
	flags.Int64Var(&s.HistoryBytes, "history-bytes", jetstream.DefaultMaxBytes, "how many bytes the routing log may take; from half of that on it forgets sooner, and says so")
	flags.DurationVar(&s.History.Age, "history-age", publisher.DefaultAge, "after how long events of the routing log are forgotten; 0 for never")
	flags.BoolVar(&s.WaitForProxies, "wait-for-proxies", true, "call a routing key ready only when every DevMesh sidecar that can see it has acknowledged its rules")
	flags.StringVar(&s.RouteServer, "routeserver-address", cmp.Or(getenv("ROUTESERVER_ADDRESS"), defaultRouteServer), "where route servers serve gRPC, as host:port: they know what sidecars have acknowledged (environment: ROUTESERVER_ADDRESS)")
	flags.StringVar(&s.RouteServerToken, "routeserver-token-file", door.TokenFile, "service-account token to show to route servers, which have room for the manager apart from everybody else; without the file it is a stranger to them")
	flags.StringVar(&s.TunnelProxyToken, "tunnel-proxy-token-file", "", "service-account token to show to tunnel proxies, which are asked what tunnels they hold; empty for no proxies")
	token := flags.String("traffic-manager-token-file", "", "service-account token to show to traffic-manager, which is asked what containers of forks have applied")
	flags.TextVar(&s.LogLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	if err := program.Parse(flags, args, help); err != nil {
		return Settings{}, err
	}
	reached()
	if err := s.validate(getenv); err != nil {
		return Settings{}, err
	}
	var err error
	if getenv(program.DefaultsVariable) != "" {
		if s.Defaults, err = program.ReadDefaults(getenv); err != nil {
			return Settings{}, err
		}
	}
	if s.Inject, err = inject.FromEnv(getenv); err != nil {
		return Settings{}, fmt.Errorf("what to inject, from the environment: %w", err)
	}
	if s.Workflows, err = workflowsFromEnv(getenv); err != nil {
		return Settings{}, fmt.Errorf("how units of Resources run, from the environment: %w", err)
	}
	if s.Jobs, err = jobsFromEnv(getenv); err != nil {
		return Settings{}, fmt.Errorf("how jobs run, from the environment: %w", err)
	}
	if s.Traffic, err = trafficFromEnv(getenv); err != nil {
		return Settings{}, fmt.Errorf("the container of forks that records requests, from the environment: %w", err)
	}
	s.Traffic.TokenFile = *token
	return s, nil
}

// validate returns an error if the settings from flags cannot be used, alone or with the TLS of the environment.
func (s Settings) validate(getenv func(string) string) error {
	if s.Replicas != 1 && s.Replicas != 3 && s.Replicas != 5 {
		return fmt.Errorf("eventbus-replicas is %d: give 1, 3 or 5", s.Replicas)
	}
	if s.History.Events == 0 || s.History.Age < 0 {
		return fmt.Errorf("history-events is %d and history-age is %s: give at least 1 event, and an age that is not negative (0: for ever)", s.History.Events, s.History.Age)
	}
	if s.HistoryBytes < leastHistory {
		return fmt.Errorf("history-bytes is %d: give at least %d, since every fact has to fit twice", s.HistoryBytes, leastHistory)
	}
	if _, _, err := net.SplitHostPort(s.RouteServer); err != nil && s.WaitForProxies {
		return fmt.Errorf("routeserver-address: %w: give host:port of the route server's gRPC, or -wait-for-proxies=false", err)
	}
	if err := s.Bus.Validate(); err != nil {
		return err
	}
	if s.Bus.TLSWithOwn() && getenv(inject.EnvTLS) != "true" {
		return fmt.Errorf("the operator's event bus is at %s, but %s is not true: enable TLS for all components or for none", s.Bus.URL, inject.EnvTLS)
	}
	return nil
}

// routeServer returns the address of the route servers to query for acknowledgements; "" if Ready does not
// wait for them.
func (s Settings) routeServer() string {
	if !s.WaitForProxies {
		return ""
	}
	return s.RouteServer
}

// Open returns the Config that the settings mean for the cluster that access
// reaches, and the connection to the event bus that it uses, which the caller
// closes after Run.
func (s Settings) Open(access *rest.Config, logger *slog.Logger) (Config, *nats.Conn, error) {
	cluster, err := clusterconfig.ReadFile(s.ClusterConfig)
	if err != nil {
		return Config{}, nil, err
	}
	bus := s.Bus
	bus.Logger = logger
	var trusted *trust.Roots
	if s.Inject.TLS {
		trusted = authority.NewRoots()
	}
	if s.Bus.TLSWithOwn() {
		bus.Roots = trusted
	}
	log, conn, err := connect.Open(bus, jetstream.Config{Replicas: s.Replicas, MaxBytes: s.HistoryBytes})
	if err != nil {
		return Config{}, nil, err
	}
	injected := s.Inject
	injected.IptablesMode = cluster.IptablesMode
	return Config{
		REST: access, Log: log, Trust: trusted, Inject: injected, LeaderElect: s.LeaderElect, Namespaces: cluster.AllowedNamespaces,
		MetricsAddress: s.MetricsAddress, HealthAddress: s.HealthAddress, WebhookAddress: s.WebhookAddress, RunnersAddress: s.RunnersAddress,
		History: s.History, RouteServer: s.routeServer(), RouteServerToken: s.RouteServerToken, TunnelProxyToken: s.TunnelProxyToken, Logger: logger, ExternalWorkloads: cluster.ExternalWorkloads,
		PatchPowers: cluster.PatchPowers, AskAuthors: cluster.AskAuthors, Limits: cluster.Limits, Delegates: cluster.Delegates, KeyHeaders: cluster.CustomHeaders, Istio: cluster.Istio, GatewayAPI: cluster.GatewayAPI,
		Policies:  cluster.Policies,
		Workflows: s.Workflows.within(cluster), Jobs: s.JobsIn(cluster), Traffic: s.Traffic.within(cluster), Defaults: s.Defaults, ValuesNamespace: s.ValuesNamespace,
	}, conn, nil
}

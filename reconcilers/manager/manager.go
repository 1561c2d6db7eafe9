package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/program"
	"switchyard.dev/eventbus/publisher"
	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/authority"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/admission"
	"switchyard.dev/reconcilers/admission/forget"
	"switchyard.dev/reconcilers/apply"
	"switchyard.dev/reconcilers/atrest"
	"switchyard.dev/reconcilers/baseline/pods"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/leaderlog"
	"switchyard.dev/reconcilers/member"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/optional"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/reconcilers/publish"
	"switchyard.dev/reconcilers/receipt"
	"switchyard.dev/reconcilers/routingconfig"
	"switchyard.dev/reconcilers/runners"
	"switchyard.dev/reconcilers/served"
	"switchyard.dev/reconcilers/survey"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/webhook"
	"switchyard.dev/workflows/jobexec/results"
)

// Leader election: how long a leader may be silent, how long it tries to renew,
// and how often.
const (
	leaderID      = "42470b05.signadot.com"
	leaseDuration = 8 * time.Second
	renewDeadline = 5 * time.Second
	retryPeriod   = time.Second
	// shutdown is the timeout for the end of Run; the termination grace period of the pod is ten seconds.
	shutdown = 6 * time.Second
)

// Client rate limits for the API server, per second and burst, unless the Config's REST sets them. A
// hundred changes a second need about as many writes (tests/bench/reconcilers); the rest is for a start,
// or a restart of the log, in a cluster with thousands of objects. The API server has its own priority and
// fairness; these limits bound the effect of a fault in the manager.
const (
	queriesPerSecond = 300
	queriesBurst     = 600
)

// Config configures the manager.
type Config struct {
	// REST reaches the API server. Required.
	REST *rest.Config
	// Log is the routing log, to write. Required.
	Log eventbus.Log
	// Inject are the settings of the webhook that injects sidecars.
	Inject inject.Config
	// WithoutWebhook leaves the webhook out: for tests of the rest.
	WithoutWebhook bool
	// LeaderElect enables leader election: controllers run only while this process is the leader.
	LeaderElect bool
	// Namespace is the operator's namespace; "signadot" if it is empty.
	Namespace string
	// ValuesNamespace has the values of units; the operator's namespace when it is empty.
	ValuesNamespace string
	// Namespaces are those in which the operator may work; empty means all.
	Namespaces []string
	// PatchPowers are those that patches may give a fork though its baseline has them
	// not. None when it is empty.
	PatchPowers power.Powers
	// AskAuthors enables the webhook that checks the permissions of the authors of the operator's objects
	// (package admission). Without it, reading objects that the baseline does not read is a power of
	// patches.
	AskAuthors bool
	// Limits are how much one object may ask for, where AskAuthors is set.
	Limits admission.Limits
	// Delegates are accounts that write objects on behalf of other users.
	Delegates admission.Delegates
	// MetricsAddress and HealthAddress are host:port; "0" disables the listener.
	MetricsAddress, HealthAddress string
	// KeyHeaders are the custom headers that carry routing keys, by precedence.
	KeyHeaders []string
	// ExternalWorkloads are the limits of tunnels; zero fields have defaults.
	ExternalWorkloads externalworkload.Limits
	// Istio reports whether requests are routed by VirtualServices, and GatewayAPI whether by
	// HTTPRoutes and GRPCRoutes.
	Istio      istioadapter.Settings
	GatewayAPI gatewayadapter.Settings
	// Policies are the settings for policies that do not apply to objects that the operator creates.
	Policies policies.Settings
	// Workflows are the settings of Resource units.
	Workflows Workflows
	// Jobs are the settings of the pods that run jobs.
	Jobs Jobs
	// Traffic are the settings of captures.
	Traffic Traffic
	// WebhookAddress is host:port; ":9443" when it is empty. RunnersAddress is that of the service of runners of jobs;
	// ":9444" when it is empty.
	WebhookAddress, RunnersAddress string
	// History bounds the history of the routing log.
	History publisher.Bounds
	// Patience is how long the routing log waits for a few objects with failing controllers before it is
	// complete without them; publisher.Config has the default.
	Patience time.Duration
	// RouteServer is the address of the routing API of route servers over gRPC, as host:port. A routing
	// key is not ready before they report that every proxy has it. "" disables that check.
	RouteServer string
	// RouteServerToken is the file with the token that is shown to them; empty for none.
	RouteServerToken string
	// TunnelProxyToken is the file with the token for tunnel proxies. If it is empty, they are not polled.
	TunnelProxyToken string
	// Dial connects to a Service of a fork, to check that it answers; nil: over TCP.
	Dial func(ctx context.Context, address string) error
	// DialProxy reaches the control port of a tunnel proxy; nil: over TCP.
	DialProxy func(ctx context.Context, address string) (net.Conn, error)
	// Trust are the CAs that this process trusts. They are set to those of the certificates that the
	// manager issues for the operator's programs. Default: none, with plain connections; an empty set if
	// Inject.TLS is set.
	Trust *trust.Roots
	// SurveyEvery is the minimum interval between lists of pods without the operator's label, for the
	// metric of pods with sidecars. Default: survey.Every.
	SurveyEvery time.Duration
	// Metrics is the registry of the manager's own metrics. Default: controller-runtime's registry, which
	// is global; a new one with SeveralInProcess.
	Metrics prometheus.Registerer
	// SeveralInProcess allows controllers of the same name in one process: for
	// tests that run more than one manager.
	SeveralInProcess bool
	// Defaults is the version of the defaults; zero: that of the installation, which New records
	// (publish.Epochs.Defaults).
	Defaults program.Defaults
	// Logger is the manager's logger; slog.Default() if it is nil.
	Logger *slog.Logger
}

// Validate returns an error that names the missing fields.
func (c Config) Validate() error {
	if c.REST == nil || c.Log == nil {
		return errors.New("manager: REST and Log are required")
	}
	return errors.Join(c.Workflows.Validate(), c.Jobs.Validate())
}

// withDefaults returns the Config with every empty field that has a default set.
func (c Config) withDefaults() Config {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Namespace = cmp.Or(c.Namespace, operatorNamespace)
	if c.Metrics == nil {
		c.Metrics = metrics.Registry
		if c.SeveralInProcess {
			c.Metrics = prometheus.NewRegistry()
		}
	}
	if c.Trust == nil && c.Inject.TLS {
		c.Trust = authority.NewRoots()
	}
	c.SurveyEvery = cmp.Or(c.SurveyEvery, survey.Every)
	access := rest.CopyConfig(c.REST)
	if access.QPS <= 0 { // Less than zero, which clients take as no limit, is what GetConfig gives.
		access.QPS, access.Burst = queriesPerSecond, queriesBurst
	}
	c.REST = access
	return c
}

// Main is the manager. Create one with New.
type Main struct {
	config  Config
	manager ctrl.Manager
	// unadded are the errors of add.
	unadded   error
	publisher *publisher.Publisher
	// optional are the kinds that the cluster may have or not.
	optional *optional.Kinds
	// pods are those of baselines.
	pods *pods.Pods
	// installation is the UID of an object that exists as long as this installation.
	installation types.UID
	// began is the version of the defaults at the installation, and defaults the one for settings that are
	// not set.
	began, defaults program.Defaults
	// istio keeps VirtualServices; nil while Istio is off.
	istio *istioadapter.Adapter
	// injector is nil without a webhook.
	injector *webhook.Injector
	// runnerKeys and runners are nil where no jobs run.
	runnerKeys *runners.Keeper
	runners    *runners.Main
	// results is the bucket for what jobs leave; nil: there is none.
	results *results.Kept
	// healthAt and metricsAt are the addresses of the listeners for probes and metrics; nil for one that
	// is disabled.
	healthAt, metricsAt net.Addr
}

// New returns a manager, or an error about its configuration. It waits until the API server serves the
// operator's kinds, and starts nothing.
func New(ctx context.Context, c Config) (*Main, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &Main{config: c.withDefaults()}
	if err := served.Await(ctx, m.config.REST, m.config.Logger); err != nil {
		return nil, err
	}
	var err error
	if m.optional, err = m.optionalKinds(); err != nil {
		return nil, err
	}
	if m.pods, err = pods.New(pods.Config{REST: m.config.REST, Namespaces: inNamespaces(m.config.Namespaces), Keep: transform(keepSidecars)}); err != nil {
		return nil, err
	}
	options, err := m.options(ctx)
	if err != nil {
		return nil, err
	}
	if m.manager, err = ctrl.NewManager(m.config.REST, options); err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	m.add("the optional kinds", m.optional)
	m.add("the cache of pods", m.pods)
	m.addLeaderLog()
	if err := m.addControllers(ctx); err != nil {
		return nil, err
	}
	if err := m.addWebhook(); err != nil {
		return nil, err
	}
	if err := m.addRunners(); err != nil {
		return nil, err
	}
	if err := forget.Add(m.manager, forget.Config{Namespace: m.config.Namespace, Asked: m.config.AskAuthors, Logger: m.config.Logger}); err != nil {
		return nil, err
	}
	if err := m.addListeners(); err != nil {
		return nil, err
	}
	return m, m.unadded
}

// add adds a runnable to controller-runtime's manager. New returns the errors.
func (m *Main) add(what string, r manager.Runnable) {
	if err := m.manager.Add(r); err != nil {
		m.unadded = errors.Join(m.unadded, fmt.Errorf("add %s: %w", what, err))
	}
}

// options are those of controller-runtime's manager.
func (m *Main) options(ctx context.Context) (ctrl.Options, error) {
	scheme, err := Scheme()
	if err != nil {
		return ctrl.Options{}, err
	}
	live, err := client.New(m.config.REST, client.Options{Scheme: scheme})
	if err != nil {
		return ctrl.Options{}, fmt.Errorf("reach the API server: %w", err)
	}
	if m.installation, err = publish.Installation(ctx, live, m.config.Namespace); err != nil {
		return ctrl.Options{}, err
	}
	if m.began, err = (publish.Epochs{Reader: live, Writer: live, Namespace: m.config.Namespace}).Defaults(ctx); err != nil {
		return ctrl.Options{}, err
	}
	m.defaults = cmp.Or(m.config.Defaults, m.began)
	lease, renew, retry, graceful, warm := leaseDuration, renewDeadline, retryPeriod, shutdown, true
	several := m.config.SeveralInProcess
	return ctrl.Options{
		Scheme:                        scheme,
		Logger:                        logr.FromSlogHandler(m.config.Logger.Handler()),
		Cache:                         CacheOptions(m.config.Namespaces, m.config.Namespace, m.installation),
		NewClient:                     m.newClient,
		Metrics:                       metricsserver.Options{BindAddress: "0"}, // see addListeners
		HealthProbeBindAddress:        "0",
		LeaderElection:                m.config.LeaderElect,
		LeaderElectionID:              leaderID,
		LeaderElectionNamespace:       m.config.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &lease,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
		GracefulShutdownTimeout:       &graceful,
		Controller:                    config.Controller{EnableWarmup: &warm, SkipNameValidation: &several},
	}, nil
}

// newClient returns the client of all controllers, which also reads optional kinds, and the pods of
// baselines.
func (m *Main) newClient(access *rest.Config, o client.Options) (client.Client, error) {
	beneath, err := client.New(access, o)
	if err != nil {
		return nil, err
	}
	return pods.Client{Client: optional.Client{Client: beneath, Kinds: m.optional}, Pods: m.pods}, nil
}

// addLeaderLog adds the runnable that logs the name of the leader, if leader election is enabled.
func (m *Main) addLeaderLog() {
	if m.config.LeaderElect {
		m.add("what logs the leader", leaderlog.Log{
			Reader: m.manager.GetAPIReader(), Logger: m.config.Logger,
			Lease: client.ObjectKey{Namespace: m.config.Namespace, Name: leaderID},
		})
	}
}

// addControllers adds the publisher and the controllers that state facts with
// it.
func (m *Main) addControllers(ctx context.Context) error {
	objects := publish.NewObjects(m.manager.GetClient())
	objects.Live = m.manager.GetAPIReader()
	var err error
	m.publisher, err = publisher.New(publisher.Config{
		Log:     m.config.Log,
		Objects: objects.Keys,
		There:   objects.There,
		Refill:  objects.Refill,
		Epochs: publish.Epochs{
			Reader: m.manager.GetAPIReader(), Writer: m.manager.GetClient(), Namespace: m.config.Namespace,
		},
		Bounds:   m.config.History,
		Crowded:  m.tellCrowded,
		Patience: m.config.Patience,
		Logger:   m.config.Logger,
	})
	if err != nil {
		return fmt.Errorf("make the publisher: %w", err)
	}
	if err := m.config.Metrics.Register(logMetrics{m.publisher}); err != nil {
		return fmt.Errorf("register the metrics of the routing log (two managers in one process need a registry each): %w", err)
	}
	m.add("the publisher", onLeader(m.publisher.Run))
	now := m.config.Inject.Settings()
	if err := m.addCoverage(now); err != nil {
		return err
	}
	c := kinds.Config{
		Needs: member.Needs{
			Access: apply.Access{
				Client: m.manager.GetClient(), Live: atrest.Live(m.manager.GetAPIReader(), m.installation),
				Now: time.Now, Events: m.manager.GetEventRecorder(crdv1.FieldManager),
			},
			Publisher: m.publisher, Injected: now,
		},
		Namespaces: m.config.Namespaces, OperatorNamespace: m.config.Namespace, Dial: m.config.Dial,
		Policies: m.policyReader(), PolicySettings: m.policySettings(),
		PatchPowers: m.config.PatchPowers, AuthorsAsked: m.config.AskAuthors,
		ExternalWorkloads: m.config.ExternalWorkloads, KeyHeaders: publish.KeyHeaders(m.config.KeyHeaders, m.config.Namespace),
	}
	if err := m.addMeshes(ctx, &c, objects.Again); err != nil {
		return err
	}
	if err := m.addWorkflows(&c); err != nil {
		return err
	}
	if err := m.addJobs(&c); err != nil {
		return err
	}
	m.addTraffic(&c)
	if err := m.addTunnels(ctx, &c, objects.Again[crdv1.KindExternalWorkload]); err != nil {
		return err
	}
	if c.Receipts, err = m.addReceipts(objects.Again[crdv1.KindRoutingConfig]); err != nil {
		return err
	}
	return addControllers(ctx, m.manager, c, objects.Again)
}

// addCoverage adds the metric of pods with sidecars.
func (m *Main) addCoverage(now inject.Settings) error {
	counted := survey.New(survey.Config{
		Reader: m.manager.GetClient(), Pods: m.pods, Every: m.config.SurveyEvery,
		Leads: m.manager.Elected(), Now: now, Logger: m.config.Logger,
	})
	if err := m.config.Metrics.Register(counted); err != nil {
		return fmt.Errorf("register the metric of pods with sidecars: %w", err)
	}
	m.add("what looks for pods without sidecars", onLeader(counted.Run))
	return nil
}

// addReceipts adds the runnable that queries the acknowledgements of routing keys, and returns it; nil if
// no route server is configured. again requeues RoutingConfigs with new results.
func (m *Main) addReceipts(again publish.Again) (routingconfig.Receipts, error) {
	if m.config.RouteServer == "" {
		return nil, nil
	}
	receipts, err := receipt.New(receipt.Config{
		Address: m.config.RouteServer, TokenFile: m.config.RouteServerToken, Roots: m.config.Trust, Again: again, Logger: m.config.Logger, Metrics: m.config.Metrics,
	})
	if err != nil {
		return nil, fmt.Errorf("make what asks for receipts: %w", err)
	}
	m.add("what asks for receipts", onLeader(receipts.Run))
	return receipts, nil
}

// onLeader is something that runs on the leader only.
type onLeader func(ctx context.Context) error

// Start runs it.
func (f onLeader) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection returns true, so that controller-runtime runs it on the leader only.
func (onLeader) NeedLeaderElection() bool { return true }

// Client reads from the manager's caches and writes to the API server.
func (m *Main) Client() client.Client { return m.manager.GetClient() }

// LogReady returns why the routing log is not complete, nil if it is. On a replica that is not the leader it
// always returns that the log is not available.
func (m *Main) LogReady() error { return m.publisher.Ready() }

// WebhookReady returns why pods cannot be reviewed, nil when they can. It is the
// check of readiness.
func (m *Main) WebhookReady() error {
	if m.injector == nil {
		return errors.New("this manager has no webhook")
	}
	return m.injector.Ready(nil)
}

// WebhookAddress is where the webhook listens, as host:port; empty before it
// does.
func (m *Main) WebhookAddress() string {
	if m.injector == nil {
		return ""
	}
	return m.injector.Addr()
}

// Run runs the manager until ctx ends. It returns an error if a part ends before that, for example because
// the lease is lost; the process must exit then.
func (m *Main) Run(ctx context.Context) error {
	if err := m.manager.Start(ctx); err != nil {
		return fmt.Errorf("the manager ended: %w", err)
	}
	return nil
}

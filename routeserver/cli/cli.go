package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/routeserver/api"
	"switchyard.dev/routeserver/cli/reach"
)

// Config is what the client works with.
type Config struct {
	// Name is how the program was called: switchyard, or kubectl switchyard.
	// Required.
	Name string
	// In, Out and Err are the standard streams. Required.
	In       io.Reader
	Out, Err io.Writer
	// Getenv reads the environment. Required.
	Getenv func(name string) string
	// Now is the clock; time.Now when it is nil.
	Now func() time.Time
	// Zone is the time zone that times are shown in; time.Local when it is nil.
	Zone *time.Location
	// Terminal: Out is a terminal, so that colours help.
	Terminal bool
	// Plan turns an object into the facts that would be stated. Without it dry-run
	// is not there.
	Plan func(ctx context.Context, access *rest.Config, ask PlanRequest) (Plan, error)
	// Witness reads what the operator keeps of the log outside of it, in the
	// operator's namespace; the zero Mark when it keeps nothing. Without it audit
	// verify --live holds the log against --mark only.
	Witness func(ctx context.Context, access *rest.Config, namespace string) (event.Mark, error)
	// Coverage looks at the cluster's pods. Without it the command coverage is not
	// there.
	Coverage func(ctx context.Context, access *rest.Config, ask CoverageRequest) (Coverage, error)
	// Keys takes the routing key out of a request's headers where an archive is
	// asked. Without it an archive is asked about keys only.
	Keys api.Keys
	// Unfit says in a sentence in which headers no request can carry a routing key, and
	// why; empty when every header can carry it. Without it explain does not say so.
	Unfit func(key string) string
}

// PlanRequest is what a dry run is about: the objects in Text, in YAML or JSON, or
// the one of this kind and name, which can only be deleted.
type PlanRequest struct {
	Text                  []byte
	Kind, Namespace, Name string
	Delete                bool
	// Operator is the namespace in which the operator runs.
	Operator string
}

// Plan is what the controllers would do.
type Plan struct {
	// Statements are the facts that would be stated.
	Statements []event.Fact
	// Objects are those that would be made, changed or deleted, Refusals what the API
	// server would not take, Findings what the controllers would report, and Unknown
	// what could not be found out, or was assumed. All are sentences.
	Objects, Refusals, Findings, Unknown []string
	// InTheWay: a refusal or a finding is a reason not to do it as it is.
	InTheWay bool
}

// app is one run of the program.
type app struct {
	Config
	flags flags
	// close is called at the end, the last first.
	close []func()
	// began is set once a command runs: errors before that are in the usage.
	began bool
	// local gives the route servers in this process something to tell.
	logger *slog.Logger
}

// flags are those that every command has.
type flags struct {
	server, archive string
	tokenFile       string
	cluster         reach.Cluster
	output          string
	patience        time.Duration
	noColor         bool
}

// Main runs the program with its arguments, without its name, and gives its exit
// code. It ends early when ctx does.
func Main(ctx context.Context, cfg Config, args []string) int {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Zone == nil {
		cfg.Zone = time.Local
	}
	a := &app{Config: cfg, logger: slog.New(slog.DiscardHandler)}
	defer func() {
		for i := len(a.close) - 1; i >= 0; i-- {
			a.close[i]()
		}
	}()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var known *exit
	if err != nil && !a.began && !errors.As(err, &known) {
		err = usage("%w\n%s --help says what there is", err, cfg.Name)
	}
	if err != nil && ctx.Err() != nil {
		return ExitInterrupted
	}
	if err != nil {
		if text := a.tell(err); text != "" {
			_, _ = io.WriteString(cfg.Err, cfg.Name+": "+text+"\n")
		}
	}
	return codeOf(err)
}

const about = `switchyard asks a route server what is routed where, what was routed where at
any moment that the log still holds, and why.

It finds a route server by --server host:port or SWITCHYARD_SERVER; without
either through the cluster of your kubeconfig, by forwarding a port to a route
server there (this takes the rights to list pods and to create pods/portforward
in the operator's namespace). With --archive it asks a log in a file instead.

Versions of the table are written as
  epoch/sequence or sequence   the table when that event had been recorded
  2026-11-21T14:03:00+01:00    the table at that moment
  14:03 or 14:03:20            the table at that time, the last time it was so late
  15m, 2h30m, 3d               the table so long ago
  now                          the newest table

`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:               "switchyard",
		Short:             "What is routed where, what was, and why",
		Long:              about + exitCodes,
		SilenceErrors:     true,
		SilenceUsage:      true,
		Args:              cobra.NoArgs,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.flags.validate() },
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: a.Name},
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	f := root.PersistentFlags()
	f.SortFlags = false
	f.StringVar(&a.flags.tokenFile, "token-file", "", "file with a service-account token to show, where route servers want one (routeServer.anonymous); SWITCHYARD_TOKEN_FILE in the environment")
	f.StringVar(&a.flags.server, "server", "", "gRPC address of a route server, host:port; SWITCHYARD_SERVER in the environment")
	f.StringVar(&a.flags.archive, "archive", "", "ask the log in this `file` instead of a route server (log export writes one)")
	f.StringVar(&a.flags.cluster.Kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster to ask; KUBECONFIG, or ~/.kube/config")
	f.StringVar(&a.flags.cluster.Context, "context", "", "`context` of the kubeconfig; its current one")
	f.StringVar(&a.flags.cluster.Namespace, "namespace-of-operator", "signadot", "`namespace` in which the operator runs")
	f.StringVarP(&a.flags.output, "output", "o", "table", "table, json or yaml")
	f.DurationVar(&a.flags.patience, "request-timeout", 30*time.Second, "how long to wait for an answer")
	f.BoolVar(&a.flags.noColor, "no-color", false, "no colours, also on a terminal; NO_COLOR in the environment")
	root.AddCommand(a.tableCommand(), a.explainCommand(), a.diffCommand(), a.historyCommand(), a.watchCommand(),
		a.waitCommand(), a.sidecarsCommand(), a.logCommand(), a.replayCommand(), a.bisectCommand(), a.auditCommand(), a.versionCommand())
	if a.Plan != nil {
		root.AddCommand(a.dryRunCommand())
	}
	if a.Coverage != nil {
		root.AddCommand(a.coverageCommand())
	}
	a.marked(root)
	return root
}

// marked lets every command note that it began.
func (a *app) marked(c *cobra.Command) {
	for _, below := range c.Commands() {
		a.marked(below)
	}
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		a.began = true
		return run(c, args)
	}
}

func (f flags) validate() error {
	switch f.output {
	case outputTable, outputJSON, outputYAML:
	default:
		return usage("--output is table, json or yaml, not %q", f.output)
	}
	if f.server != "" && f.archive != "" {
		return usage("--server and --archive are two different places to ask: give one")
	}
	if f.patience <= 0 {
		return usage("--request-timeout must be more than 0")
	}
	return nil
}

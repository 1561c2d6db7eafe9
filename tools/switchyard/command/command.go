// Package command is one run of the command line: its flags, and the route server and the cluster that
// it asks.
package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime"
	kubernetesscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"switchyard.dev/eventbus/archive"
	crdv1 "switchyard.dev/protos/crd/v1"
	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/inprocess"
	"switchyard.dev/tools/switchyard/command/plane"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tools/switchyard/show"
)

// Config is where the program runs.
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
}

// Session is one run of the program. Make one with New, and Close it.
type Session struct {
	Config
	// Show prints results in the selected format.
	Show *show.Printer
	// Cluster is the one to ask without a route server that is named, and Archive the file
	// to ask instead of either.
	Cluster reach.Cluster
	Archive string
	// Plane is the control plane that the flags name.
	Plane plane.Config

	server, tokenFile string
	patience          time.Duration
	noColor           bool
	// close is called at the end, the last first.
	close []func()
}

// New returns a session without parsed flags.
func New(cfg Config) *Session {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	clock, zone := cfg.Now, cmp.Or(cfg.Zone, time.Local)
	cfg.Now = func() time.Time { return clock().In(zone) }
	return &Session{Config: cfg, Show: &show.Printer{Out: cfg.Out, Now: cfg.Now}}
}

// Close ends the connections of the session, and what runs for it in this process.
func (s *Session) Close() {
	for _, end := range slices.Backward(s.close) {
		end()
	}
}

// Flags adds the flags that every command has.
func (s *Session) Flags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&s.tokenFile, "token-file", "", "file with a service-account token, for route servers that require one (routeServer.anonymous), and for traffic record, traffic compare and job where the kubeconfig has no token (also SWITCHYARD_TOKEN_FILE)")
	f.StringVar(&s.server, "server", "", "gRPC address of a route server, host:port (also SWITCHYARD_SERVER)")
	f.StringVar(&s.Archive, "archive", "", "read the log in this `file` (from log export) instead of calling a route server")
	f.StringVar(&s.Cluster.Kubeconfig, "kubeconfig", "", "kubeconfig `file` of the cluster (default: KUBECONFIG, or ~/.kube/config)")
	f.StringVar(&s.Cluster.Context, "context", "", "`context` of the kubeconfig (default: the current one)")
	f.StringVar(&s.Cluster.Namespace, "namespace-of-operator", "signadot", "`namespace` in which the operator runs")
	f.StringVar(&s.Plane.URL, "control-plane", "", "`URL` of a control plane that sandbox, routegroup, resourceplugin, job, artifact, jobrunnergroup and cluster use instead of a kubeconfig (also "+plane.URLVariable+")")
	f.StringVar(&s.Plane.Organisation, "organisation", "", "organisation in the control plane (also "+plane.OrganisationVariable+"; default: that of the API key)")
	f.StringVar(&s.Plane.KeyFile, "api-key-file", "", "`file` with the API key of the control plane (default: the key in "+plane.KeyVariable+")")
	f.StringVar(&s.Plane.Authority, "control-plane-ca", "", "`file` with the authority that signs the certificate of the control plane (default: those of the system)")
	f.StringVarP(&s.Show.Form, "output", "o", show.Table, "table, json or yaml")
	f.DurationVar(&s.patience, "request-timeout", 30*time.Second, "timeout of each request")
	f.BoolVar(&s.noColor, "no-color", false, "no colours on a terminal (also NO_COLOR)")
}

// Begin checks the flags once they are read. Call it before any command.
func (s *Session) Begin() error {
	switch s.Show.Form {
	case show.Table, show.JSON, show.YAML:
	default:
		return exit.Usage.Errorf("--output is table, json or yaml, not %q", s.Show.Form)
	}
	if s.server != "" && s.Archive != "" {
		return exit.Usage.Errorf("--server and --archive exclude each other: give one")
	}
	if s.Plane.URL != "" && s.clusterNamed() {
		return exit.Usage.Errorf("--control-plane excludes --kubeconfig and --context: give one")
	}
	if s.patience <= 0 {
		return exit.Usage.Errorf("--request-timeout must be more than 0")
	}
	s.Show.Colours = s.Terminal && !s.noColor && s.Getenv("NO_COLOR") == ""
	return nil
}

// Moment returns a time of an API in the format of text output; other texts as they are.
func (s *Session) Moment(text string) string {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return at.In(s.Now().Location()).Format("2006-01-02 15:04:05 MST")
}

// Patiently returns a context that ends when an answer has taken too long.
func (s *Session) Patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.patience)
}

// WaitPatiently is Patiently for a call that itself waits up to the given time.
func (s *Session) WaitPatiently(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, wait+s.patience)
}

// Ask connects, and makes a call that answers once.
func Ask[Q, A any](ctx context.Context, s *Session, call func(routingv1.RoutingClient, context.Context, Q, ...grpc.CallOption) (A, error), question Q) (answer A, err error) {
	client, err := s.Connect(ctx)
	if err != nil {
		return answer, err
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	return call(client, ctx, question)
}

// Connect returns the route server that the user means.
func (s *Session) Connect(ctx context.Context) (routingv1.RoutingClient, error) {
	if s.Archive != "" {
		log, err := inprocess.Load(s.Archive, s.Name)
		if err != nil {
			return nil, err
		}
		server, err := s.Serve(ctx, log)
		if err != nil {
			return nil, err
		}
		s.close = append(s.close, server.Stop)
		return server.Client, nil
	}
	address, how, err := s.address(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := reach.Dial(address, how, s.TokenFile())
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, func() { _ = conn.Close() })
	return routingv1.NewRoutingClient(conn), nil
}

// Serve runs a route server on a log in this process. The caller stops it.
func (s *Session) Serve(ctx context.Context, log *archive.Log) (*inprocess.Server, error) {
	return inprocess.Serve(ctx, log, s.TokenFile())
}

// TokenFile names the file with the token that is shown to servers; empty for none.
func (s *Session) TokenFile() string {
	return cmp.Or(s.tokenFile, s.Getenv("SWITCHYARD_TOKEN_FILE"))
}

// named returns the route server that the user names, and by what; empty for none.
func (s *Session) named() (address, by string) {
	if s.server != "" {
		return s.server, "--server"
	}
	return s.Getenv("SWITCHYARD_SERVER"), "SWITCHYARD_SERVER"
}

// ClusterKnown reports whether the route server that is asked is known to be one of Cluster.
func (s *Session) ClusterKnown() bool {
	address, _ := s.named()
	return address == "" || s.clusterNamed()
}

// clusterNamed reports whether the flags name a cluster.
func (s *Session) clusterNamed() bool { return s.Cluster.Kubeconfig != "" || s.Cluster.Context != "" }

// UsesPlane reports whether commands that know control planes use one: the flag names one, or the
// environment does, and the flags name no cluster.
func (s *Session) UsesPlane() bool {
	return s.Plane.URL != "" || s.Getenv(plane.URLVariable) != "" && !s.clusterNamed()
}

// OpenPlane returns the control plane that the user means.
func (s *Session) OpenPlane(ctx context.Context) (*plane.Plane, error) {
	if !s.UsesPlane() {
		return nil, exit.Usage.Errorf("a control plane is needed: give its URL with --control-plane or %s", plane.URLVariable)
	}
	config := s.Plane
	config.URL = cmp.Or(config.URL, s.Getenv(plane.URLVariable))
	config.Organisation = cmp.Or(config.Organisation, s.Getenv(plane.OrganisationVariable))
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	return plane.Open(ctx, config, s.Getenv)
}

// knowsPlane is the annotation of commands that use a control plane, if one is named.
const knowsPlane = "control-plane"

// Group completes a command that only has others: alone it prints its help, and it takes no arguments.
func Group(c *cobra.Command, of ...*cobra.Command) *cobra.Command {
	c.Args, c.RunE = cobra.NoArgs, func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(of...)
	return c
}

// KnowPlane marks commands that use a control plane, if one is named.
func KnowPlane(all ...*cobra.Command) {
	for _, c := range all {
		c.Annotations = map[string]string{knowsPlane: "yes"}
	}
}

// Reject returns an error for a command that the flags want to use a control plane, and that cannot.
func (s *Session) Reject(c *cobra.Command) error {
	if s.Plane.URL == "" || c.Annotations[knowsPlane] != "" {
		return nil
	}
	instead := "a kubeconfig (--kubeconfig, --context)"
	switch words := strings.Fields(c.CommandPath()); words[min(1, len(words)-1)] {
	case "connect", "proxy", "run", "doctor", "tunnel":
		instead = "--proxy-url URL and --cluster NAME to reach a cluster through a control plane, or a kubeconfig"
	case "traffic":
	case "sandbox", "resource", "logs":
		instead += "; sandbox get has the status that the control plane knows"
	default:
		instead = "a route server (--server) or " + instead
	}
	return exit.Usage.Errorf("%s does not use --control-plane: use %s", c.CommandPath(), instead)
}

// address returns the address of the route server, and how it was found.
func (s *Session) address(ctx context.Context) (address, how string, err error) {
	if address, by := s.named(); address != "" {
		if _, _, err := net.SplitHostPort(address); err != nil || strings.Contains(address, "/") {
			return "", "", exit.Usage.Errorf("%s is %q and not like routeserver.signadot.svc:7777: it is the gRPC address, host and port", by, address)
		}
		return address, by, nil
	}
	ctx, cancel := s.Patiently(ctx)
	defer cancel()
	if address, err = s.forward(ctx); err != nil {
		return "", "", exit.Unavailable.Errorf(`no route server was reached.
  --server and SWITCHYARD_SERVER name none
  through the kubeconfig: %w
Name a route server (--server host:port), or a cluster that has one (--kubeconfig, --context, --namespace-of-operator)`, err)
	}
	return address, "the kubeconfig", nil
}

// forward opens a port to a route server of the cluster until the end of the run.
func (s *Session) forward(ctx context.Context) (string, error) {
	open, stop := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(ctx, stop)
	address, err := s.Cluster.Forward(open, reach.RouteServer)
	unhook()
	if err != nil {
		stop()
		if ctx.Err() != nil {
			err = fmt.Errorf("it took longer than --request-timeout %s: %w", s.patience, err)
		}
		return "", err
	}
	s.close = append(s.close, stop)
	return address, nil
}

// Client returns a client of a cluster with the rights of the user.
func Client(access *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubernetesscheme.AddToScheme, crdv1.AddToScheme, gatewayv1.Install} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	// Without a logger the library prints a warning with a stack after half a minute.
	c, err := client.NewWithWatch(access, client.Options{Scheme: scheme, Log: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return c, nil
}

// Reader returns a client of the cluster that the user means, for what a command shows besides its
// answer. Warnings of the API server are not shown.
func (s *Session) Reader() (client.WithWatch, error) {
	access, err := s.Cluster.Rest()
	if err != nil {
		return nil, err
	}
	return Client(access)
}

// Writer returns a client of the cluster that the user means, for a command that needs one. Warnings
// of the API server are shown.
func (s *Session) Writer() (client.WithWatch, error) {
	access, err := s.Cluster.Rest()
	if err != nil {
		return nil, exit.Unavailable.Errorf("a cluster is needed: %w", err)
	}
	access.WarningHandler = rest.NewWarningWriter(s.Err, rest.WarningWriterOptions{Deduplicate: true})
	c, err := Client(access)
	if err != nil {
		return nil, exit.Unavailable.Errorf("%w", err)
	}
	return c, nil
}

// InCluster returns the action of a command that needs a client of the cluster, as With.
func (s *Session) InCluster(do func(ctx context.Context, cluster client.WithWatch, args []string) error) func(*cobra.Command, []string) error {
	return With(s, func(context.Context) (client.WithWatch, error) { return s.Writer() }, do)
}

// With returns the action of a command that needs what open returns. It calls do in the time for an answer.
func With[T any](s *Session, open func(context.Context) (T, error), do func(ctx context.Context, opened T, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		opened, err := open(c.Context())
		if err != nil {
			return err
		}
		ctx, cancel := s.Patiently(c.Context())
		defer cancel()
		return do(ctx, opened, args)
	}
}

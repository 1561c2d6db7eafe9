package local

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"k8s.io/client-go/rest"

	"switchyard.dev/eventbus/trust"
	tunnelv1 "switchyard.dev/protos/gen/tunnel/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/plane"
	"switchyard.dev/tools/switchyard/command/reach"
	"switchyard.dev/tools/switchyard/local/allow"
	"switchyard.dev/tools/switchyard/local/authority"
	"switchyard.dev/tools/switchyard/local/controlplane"
	"switchyard.dev/tools/switchyard/local/identity"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/consent"
)

// Names of the operator's tunnels, as the chart has them.
const (
	proxyService = "tunnel-proxy"
	apiService   = "tunnel-api"
	apiPort      = "9070"
)

// place is the address of the tunnel proxies, and the identity of the user.
type place struct {
	s       *command.Session
	address string // of a proxy; empty: through the kubeconfig
	through string // the proxy of a control plane, as a URL; empty: without
	cluster string // its name there
	ca      string // a file; empty: from the cluster
	account string // namespace/name; empty: the user himself
	// ofCluster: the command needs a user that the API server knows, and gets no credential of the
	// control plane.
	ofCluster bool
	// grants are the credentials of the control plane; nil: the user is one of the cluster.
	grants *controlplane.Source

	roots *trust.Roots
	// addresses decide which local addresses are opened; nil: none is.
	addresses *allow.Addresses
	token     workstation.Token

	mu    sync.Mutex
	fixed *reach.Fixed // nil until the cluster is needed
}

// flags adds the flags of a place.
func (p *place) flags(f *pflag.FlagSet) {
	f.StringVar(&p.address, "address", "", "`host:port` of a tunnel proxy that is reached without a port-forward, usually its port 7777")
	f.StringVar(&p.through, "proxy-url", "", "`URL` of a control plane's proxy, through which a tunnel proxy is reached (also "+proxyVariable+"); it gets the API key in "+plane.KeyVariable+", or of --api-key-file")
	f.StringVar(&p.cluster, "cluster", "", "with --proxy-url, the `name` of the cluster in the control plane")
	f.StringVar(&p.ca, "ca", "", "`file` with the authority that signs the proxies' certificates (default: read from the cluster)")
	f.StringVar(&p.account, "as-service-account", "", "authenticate as this service account, `namespace/name`, with a requested token (needs the right to create serviceaccounts/token)")
}

// proxyURL returns the proxy of a control plane, as a URL; empty: there is another road.
func (p *place) proxyURL() string {
	if p.address != "" {
		return ""
	}
	return cmp.Or(p.through, p.s.Getenv(proxyVariable))
}

// access returns the access to the cluster: of the context that the kubeconfig has at first, as it
// is each time.
func (p *place) access() (*rest.Config, error) {
	at, err := p.context()
	if err != nil {
		return nil, exit.Unavailable.Errorf("a cluster is needed: %w", err)
	}
	config, err := at.Rest()
	if moved := (*reach.MovedError)(nil); errors.As(err, &moved) {
		return nil, exit.Unavailable.Errorf("%w", err)
	}
	if err != nil {
		return nil, exit.Unavailable.Errorf("a cluster is needed: %w", err)
	}
	if text := at.Switched(); text != "" {
		printLine(p.s.Err, "Note: "+text)
	}
	return config, nil
}

// context fixes the context of the kubeconfig, for whatever asks the cluster in this session.
func (p *place) context() (*reach.Fixed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fixed == nil {
		fixed, err := p.s.Cluster.Fix()
		if err != nil {
			return nil, err
		}
		p.fixed, p.s.Cluster = fixed, fixed.Cluster
	}
	return p.fixed, nil
}

// host returns the name of a Service, as certificates have it.
func (p *place) host(service string) string { return service + "." + p.s.Cluster.Namespace + ".svc" }

// workstation returns one that has yet to run.
func (p *place) workstation() (*workstation.Workstation, error) {
	if err := p.prepare(); err != nil {
		return nil, err
	}
	config := workstation.Config{
		Road: p.road(), Name: p.host(proxyService), Roots: p.roots, Refresh: p.refresh, Token: p.token, Labels: identity.Labels(p.s.Getenv),
	}
	if p.addresses != nil {
		config.Consent, config.Opened = p.addresses.Decide, p.addresses.Opened
	}
	return workstation.New(config)
}

// addressed returns an error where the flags name an address without its port.
func (p *place) addressed() error {
	if p.address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(p.address)
	if number, bad := strconv.ParseUint(port, 10, 16); err == nil && bad == nil && number > 0 {
		return nil
	}
	return exit.Usage.Errorf("--address %q is not host:port: give the host and the port of a tunnel proxy, which is usually 7777", p.address)
}

// prepare evaluates the flags.
func (p *place) prepare() (err error) {
	if err := p.addressed(); err != nil {
		return err
	}
	_, _ = p.context() // With --address and --token-file none is needed.
	switch {
	case p.through != "" && p.address != "":
		return exit.Usage.Errorf("--proxy-url and --address exclude each other: give one")
	case p.proxyURL() == "" && p.cluster != "":
		return exit.Usage.Errorf("--cluster names a cluster of a control plane: set --proxy-url too")
	case p.proxyURL() != "":
		err = p.granted()
	case p.address == "":
		_, err = p.access()
	}
	if err != nil {
		return err
	}
	p.roots = trust.NewRoots(cmp.Or(p.ca, "ConfigMap "+authority.Name+" of the operator"))
	p.token, err = p.identity()
	return err
}

// road returns the road to a proxy.
func (p *place) road() workstation.Road {
	if p.proxyURL() != "" {
		road, _ := p.controlPlane() // prepare has looked
		return road
	}
	if p.address != "" {
		return workstation.Address(p.address)
	}
	return forwarded{p}
}

// over returns the host through which the connection runs; empty if it is unknown.
func (p *place) over() string {
	if p.proxyURL() != "" {
		if road, err := p.controlPlane(); err == nil {
			return road.Proxy.Hostname()
		}
		return ""
	}
	if p.address != "" {
		host, _, _ := net.SplitHostPort(p.address)
		return host
	}
	access, err := p.access()
	if err != nil {
		return ""
	}
	server, err := url.Parse(access.Host)
	if err != nil {
		return ""
	}
	return server.Hostname()
}

// asked returns a client of tunnel-api that goes through a workstation's tunnel, until the end.
func (p *place) asked(w *workstation.Workstation) (tunnelv1.TunnelAPIClient, *grpc.ClientConn, error) {
	host := p.host(apiService)
	conn, err := w.API(host+":"+apiPort, host)
	if err != nil {
		return nil, nil, err
	}
	return tunnelv1.NewTunnelAPIClient(conn), conn, nil
}

// briefly runs a workstation for as long as do takes.
func (p *place) briefly(ctx context.Context, do func(context.Context, tunnelv1.TunnelAPIClient) error) error {
	return p.during(ctx, func(ctx context.Context, w *workstation.Workstation) error { return p.queried(ctx, w, do) })
}

// during runs a workstation for as long as do takes.
func (p *place) during(ctx context.Context, do func(context.Context, *workstation.Workstation) error) error {
	w, err := p.workstation()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	done := make(chan error, 1)
	go func() { done <- do(ctx, w) }()
	select {
	case err := <-done:
		cancel()
		<-ended
		return err
	case err := <-ended:
		cancel()
		<-done
		return unconnected(p.s, err)
	}
}

// queried calls do with the API of tunnel-api, through a workstation.
func (p *place) queried(ctx context.Context, w *workstation.Workstation, do func(context.Context, tunnelv1.TunnelAPIClient) error) error {
	api, conn, err := p.asked(w)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := p.s.Patiently(ctx)
	defer cancel()
	return do(ctx, api)
}

// unconnected returns the error of a session that did not come about.
func unconnected(s *command.Session, err error) error {
	if err == nil {
		return nil
	}
	return exit.Unavailable.Errorf("no tunnel: %w\n%s doctor checks each part", err, s.Name)
}

// named returns both parts of namespace/name.
func named(text string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", exit.Usage.Errorf("%q is not namespace/name", text)
	}
	return namespace, name, nil
}

// identity returns where the user's token is from: the control plane, the file of --token-file, a
// service account's made for it, or the one that the kubeconfig shows to the API server.
func (p *place) identity() (workstation.Token, error) {
	if p.grants != nil {
		return controlplane.TokenOr(p.grants, p.ofKubeconfig, func(text string) { printLine(p.s.Err, text) }), nil
	}
	return p.ofKubeconfig()
}

// ofKubeconfig is identity without the control plane.
func (p *place) ofKubeconfig() (workstation.Token, error) {
	if file := p.s.TokenFile(); p.account == "" && file != "" {
		return identity.FromFile(file), nil
	}
	if _, err := p.access(); err != nil {
		return nil, exit.Unavailable.Errorf("there are no credentials without a kubeconfig: name a kubeconfig, a file with a token (--token-file), or a control plane (--proxy-url, with an API key) (%w)", err)
	}
	if p.account == "" {
		return identity.Narrowed(p.access, func(text string) { printLine(p.s.Err, "Note: "+text) })
	}
	namespace, name, err := named(p.account)
	if err != nil {
		return nil, err
	}
	return identity.Of(p.access, namespace, name), nil
}

// agree sets p.addresses for a command, the end of which is for messages (allow.Config). connect asks on
// the terminal, if there is one.
func (p *place) agree(policy consent.Policy, command, end string) (err error) {
	cfg := allow.Config{Policy: policy, Err: p.s.Err, File: allow.File(p.s.Getenv), Command: p.s.Name + " " + command, End: end}
	if command == "connect" {
		cfg.Console = allow.Terminal(p.s.In, p.s.Err)
	}
	if p.addresses, err = allow.New(cfg); err != nil {
		return exit.Failed.Errorf("the remembered answers about local addresses cannot be used: %w", err)
	}
	return nil
}

package local

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/local/allow"
	"switchyard.dev/tools/switchyard/local/header"
	"switchyard.dev/tools/switchyard/local/network"
	"switchyard.dev/tools/switchyard/local/overrides"
	"switchyard.dev/tools/switchyard/local/privileges"
	"switchyard.dev/tools/switchyard/local/status"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/consent"
	"switchyard.dev/tunnels/workstation/socket"
)

// Commands returns the commands of this package.
func Commands(s *command.Session) []*cobra.Command {
	tunnel := command.Group(&cobra.Command{Use: "tunnel", Short: "Credentials for other clients of the tunnel proxies"}, sshCert(s), socksCredential(s))
	all := []*cobra.Command{connect(s), proxy(s), run(s), override(s), doctor(s), tunnel, privileges.Guard(s)}
	for _, c := range all {
		c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 90 "))
	}
	return all
}

const aboutConnect = `Connect this machine to the cluster until you interrupt it (connect status --wait waits
for a connect in the background). Requests to the external workloads of sandboxes are
forwarded to the local addresses that the sandboxes name; sandboxes that are created or
deleted later are followed. A SOCKS5 and an HTTP proxy on this machine forward connections
into the cluster and resolve names there. No privileges are needed.

With --privileged (Linux only) all your programs on this machine reach the cluster's names
and addresses directly: TCP connections to Services, and to the ranges in the operator's
configuration or in --range, are forwarded through the tunnel, and so are DNS queries for
cluster names; other queries are sent to the resolvers that the machine already uses. No
file is changed, and everything is undone when this program terminates, however it
terminates. It needs CAP_NET_ADMIN, which setcap cap_net_admin+ep gives to a program that
only your group can run. Programs of other users are not redirected; under sudo, your
programs are those of the user that called it.

It reaches a tunnel proxy through a port-forward with your kubeconfig (which needs the
rights to list pods and to create pods/portforward in the operator's namespace), at
--address, which is faster, or through the proxy of a control plane, --proxy-url. It
reconnects after sleep, a change of network, or an upgrade of the operator; connections
that were cut fail with an error instead of an orderly end.

It authenticates with the token that your kubeconfig presents to the API server. With
--proxy-url and an API key no kubeconfig is needed: the control plane issues credentials
that are valid for ten minutes, and you are its user, with the rights that the cluster
gives that user. Without flags, connect serves the sandboxes that you changed last;
--sandbox, --machine and -f select others that you can update. It opens an address of
this machine if you changed the sandbox last, or if --allow or -f names the address. For
any other address it asks once on the terminal and remembers your answer; without a
terminal it refuses. Addresses of other hosts need an --allow that names them, and
link-local ones are never opened. It takes a tunnel from another user's workstation only
with --take; otherwise it waits, and names the owner.`

func connect(s *command.Session) *cobra.Command {
	p, y, v := &place{s: s}, &ways{}, &privileges.Privileges{}
	o := &allow.Selection{}
	c := &cobra.Command{
		Use: "connect", Short: "Connect this machine to the cluster: receive sandbox traffic and reach cluster services", Args: cobra.NoArgs, Long: aboutConnect,
		Example: "  switchyard connect\n  curl --proxy http://127.0.0.1:8118 http://cart.shop\n  psql \"host=localhost port=5432\"   # with --map tcp://db.shop:5432@localhost:5432\n  curl http://cart.shop.svc          # with --privileged",
	}
	p.flags(c.Flags())
	y.flags(c.Flags(), "127.0.0.1:1080", "127.0.0.1:8118")
	v.Flags(c.Flags())
	o.Flags(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		told, policy, err := o.Wanted(s)
		if err == nil {
			err = p.agree(policy, "connect", "")
		}
		if err != nil {
			return err
		}
		w, err := p.workstation()
		if err != nil {
			return err
		}
		key, err := p.keyed(c.Context(), header.Source{Sandbox: o.Sandbox})
		if _, none := p.access(); err != nil && none != nil && p.grants != nil {
			printLine(s.Err, "Note: without a kubeconfig the local HTTP proxy adds no routing key to requests.")
			err = nil
		}
		if err != nil {
			return err
		}
		if err := y.listen(s, c.Flags().Changed); err != nil {
			return err
		}
		if y.inside, err = v.Begin(c.Context(), p.over(), w); err != nil {
			y.close()
			return err
		}
		return interrupted(c.Context(), p.keep(c.Context(), w, y, key, told))
	}
	c.AddCommand(status.Command(s))
	return c
}

// keyed returns what adds a routing key to requests; nil for none.
func (p *place) keyed(ctx context.Context, of header.Source) (func(http.Header), error) {
	ctx, cancel := p.s.Patiently(ctx)
	defer cancel()
	key, err := of.Find(ctx, func() (client.WithWatch, error) { return p.s.Writer() })
	if err != nil || key == "" {
		return nil, err
	}
	var custom []string
	if access, err := p.access(); err == nil {
		custom = header.Custom(ctx, access, p.s.Cluster.Namespace)
	}
	return header.Keyed(key, custom)
}

// keep runs a workstation until ctx ends: its tunnels, if anything is wanted of it, and its ways.
func (p *place) keep(ctx context.Context, w *workstation.Workstation, y *ways, key func(http.Header), wanted workstation.Told) error {
	ctx, cancel := context.WithCancel(ctx)
	api, conn, err := p.asked(w)
	if err != nil {
		cancel()
		return err
	}
	defer conn.Close()
	wanted.Client = api
	var parts sync.WaitGroup
	var broke error
	parts.Go(func() { w.Follow(ctx, wanted) })
	parts.Go(func() { p.addresses.Run(ctx, w.Reconsider) })
	if y.inside != nil {
		parts.Go(func() {
			if broke = y.inside.Run(ctx, api); broke != nil {
				cancel()
			}
		})
	}
	err = p.serve(ctx, &parts, w, y, key)
	cancel()
	parts.Wait()
	return errors.Join(broke, err)
}

// serve runs a workstation and its ways, and reports its status, until ctx ends.
func (p *place) serve(ctx context.Context, parts *sync.WaitGroup, w *workstation.Workstation, y *ways, key func(http.Header)) error {
	parts.Go(func() { y.serve(ctx, w, key, p.s.Err) })
	parts.Go(func() { network.Watch(ctx, w.Moved) })
	parts.Go(func() {
		now, _ := w.Status()
		err := socket.Serve(ctx, socket.Folder(p.s.Getenv), now.Session, func() any { s, _ := w.Status(); return s })
		if err != nil {
			printLine(p.s.Err, "note: "+p.s.Name+" connect status does not show this connection: "+err.Error())
		}
	})
	telling, stop := context.WithCancel(ctx)
	written := make(chan func(error) bool, 1)
	go func() { written <- status.Report(telling, p.s.Err, w) }()
	err := w.Run(ctx)
	stop()
	if is := <-written; err != nil && is(err) {
		return exit.Unavailable.Errorf("not connected, for the reason above; %s doctor checks each part", p.s.Name)
	}
	return unconnected(p.s, err)
}

func proxy(s *command.Session) *cobra.Command {
	p, y, of := &place{s: s}, &ways{}, header.Source{}
	c := &cobra.Command{
		Use: "proxy", Short: "Forward local ports to cluster services, adding a routing key", Args: cobra.NoArgs,
		Long: `Forward ports of this machine into the cluster until you interrupt it. HTTP and gRPC
requests get the routing key of a sandbox or a route group, so that they reach it.
No requests arrive from the cluster: for that, see connect.`,
		Example: "  switchyard proxy --sandbox mine --map http://frontend.shop:8080@localhost:8080\n  switchyard proxy --sandbox mine --map grpc://cart.shop:9000@localhost:9000 --http-proxy 127.0.0.1:8118",
	}
	p.flags(c.Flags())
	y.flags(c.Flags(), "", "")
	c.Flags().StringVarP(&of.Sandbox, "sandbox", "s", "", "`sandbox` that provides the routing key")
	c.Flags().StringVarP(&of.RouteGroup, "routegroup", "r", "", "`route group` that provides the routing key")
	c.Flags().StringVar(&of.Key, "key", "", "routing `key` to add to requests")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if len(y.maps) == 0 && y.socks == "" && y.http == "" {
			return exit.Usage.Errorf("name a port into the cluster: --map, --http-proxy or --socks5")
		}
		w, err := p.workstation()
		if err != nil {
			return err
		}
		key, err := p.keyed(c.Context(), of)
		if err != nil {
			return err
		}
		if err := y.listen(s, c.Flags().Changed); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(c.Context())
		var parts sync.WaitGroup
		defer parts.Wait()
		defer cancel()
		return interrupted(c.Context(), p.serve(ctx, &parts, w, y, key))
	}
	return c
}

// override opens the address that the user names.
func override(s *command.Session) *cobra.Command {
	p := &place{s: s, ofCluster: true}
	c := overrides.Command(s, func(ctx context.Context, with string, wanted workstation.Told) error {
		if err := p.agree(consent.Policy{Flags: []string{with}}, "override", ""); err != nil {
			return err
		}
		w, err := p.workstation()
		if err != nil {
			return err
		}
		return p.keep(ctx, w, &ways{}, nil, wanted)
	})
	c.PreRun = func(*cobra.Command, []string) { _, _ = p.context() } // Connect reports its error.
	p.flags(c.Flags())
	return c
}

// interrupted returns the error of a command that runs until it is interrupted.
func interrupted(ctx context.Context, err error) error {
	if err == nil {
		return ctx.Err()
	}
	return err
}

// printLine writes a line of text for the user.
func printLine(out io.Writer, line string) { _, _ = io.WriteString(out, show.Line(line)+"\n") }

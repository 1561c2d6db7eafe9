package local

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/local/allow"
	"switchyard.dev/tools/switchyard/local/header"
	"switchyard.dev/tools/switchyard/local/privileges"
	"switchyard.dev/tools/switchyard/local/status"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/socket"
)

// Commands returns the commands of this package.
func Commands(s *command.Session) []*cobra.Command {
	tunnel := &cobra.Command{
		Use: "tunnel", Short: "Credentials for other clients of the tunnel proxies", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	tunnel.AddCommand(sshCert(s), socksCredential(s))
	all := []*cobra.Command{connect(s), proxy(s), run(s), doctor(s), tunnel, privileges.Guard(s)}
	for _, c := range all {
		c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), ".FlagUsages ", ".FlagUsagesWrapped 90 "))
	}
	return all
}

const aboutConnect = `Connect this workstation with the cluster until you interrupt it (connect status --wait
waits for one in the background). Requests for the external workloads of sandboxes come to
the local addresses that the sandboxes name, as sandboxes come and go; and a SOCKS5 and an
HTTP proxy on this machine lead into the cluster, where names are resolved. No privilege
is needed.

With --privileged, on Linux, all your programs on this machine reach the
cluster's names and addresses as if they were in it: TCP to its Services, and to the
ranges that the operator's configuration or --range name, is led through the tunnel, and
so are queries for its names; others are asked of the resolvers that there are. No file is
changed, and all of it ends with this program, however that ends. It takes CAP_NET_ADMIN,
which setcap cap_net_admin+ep gives to a program that only your group can run. Programs
of other users are not redirected; with sudo, yours are those of the user that called it.

It reaches a tunnel proxy by a port-forward through the kubeconfig (which takes the rights
to list pods and to create pods/portforward in the operator's namespace), at --address,
which is faster, or through the proxy of a control plane, --proxy-url. It comes back by
itself after sleep, a change of network, or an upgrade of the operator; connections that
are cut end with an error, never as if all had been said.

You come with the token that the kubeconfig shows to the API server. Without flags,
connect serves the sandboxes whose last author you are; --sandbox, --machine and -f select
others that you can update. An address of this machine is opened if you are the sandbox's
last author, or if --allow or -f names it. Any other is asked about once on the terminal,
and the answer is remembered; without a terminal it is refused. Addresses of other hosts
take an --allow that names them, and link-local ones are never opened. A tunnel that
another user's workstation holds is not taken without --take: connect waits, and names the
holder.`

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
		custom = keyHeaders(ctx, access, p.s.Cluster.Namespace)
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
	parts.Go(func() { moves(ctx, w) })
	parts.Go(func() {
		now, _ := w.Status()
		err := socket.Serve(ctx, socket.Folder(p.s.Getenv), now.Session, func() any { s, _ := w.Status(); return s })
		if err != nil {
			say(p.s.Err, "note: "+p.s.Name+" connect status will not know of this one: "+err.Error())
		}
	})
	telling, stop := context.WithCancel(ctx)
	written := make(chan func(error) bool, 1)
	go func() { written <- status.Report(telling, p.s.Err, w) }()
	err := w.Run(ctx)
	stop()
	if is := <-written; err != nil && is(err) {
		return exit.Unavailable.Errorf("no tunnel, for the reason above; %s doctor checks each part", p.s.Name)
	}
	return unconnected(p.s, err)
}

// moves notifies a workstation when the addresses of the machine change.
func moves(ctx context.Context, w *workstation.Workstation) {
	last := addresses()
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-tick.C:
			if now := addresses(); !slices.Equal(now, last) {
				last = now
				w.Moved()
			}
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

func addresses() (out []string) {
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		out = append(out, a.String())
	}
	slices.Sort(out)
	return out
}

func proxy(s *command.Session) *cobra.Command {
	p, y, of := &place{s: s}, &ways{}, header.Source{}
	c := &cobra.Command{
		Use: "proxy", Short: "Forward local ports to cluster services, adding a routing key", Args: cobra.NoArgs,
		Long: `Have ports of this machine lead into the cluster until you interrupt it. HTTP and gRPC
requests get the routing key of a sandbox or a route group, so that they reach it.
Nothing comes from the cluster to this workstation: for that see connect.`,
		Example: "  switchyard proxy --sandbox mine --map http://frontend.shop:8080@localhost:8080\n  switchyard proxy --sandbox mine --map grpc://cart.shop:9000@localhost:9000 --http-proxy 127.0.0.1:8118",
	}
	p.flags(c.Flags())
	y.flags(c.Flags(), "", "")
	c.Flags().StringVarP(&of.Sandbox, "sandbox", "s", "", "`sandbox` whose routing key requests get")
	c.Flags().StringVarP(&of.RouteGroup, "routegroup", "r", "", "`route group` whose routing key requests get")
	c.Flags().StringVar(&of.Key, "key", "", "routing `key` that requests get")
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

// interrupted returns the error of a command that runs until it is interrupted.
func interrupted(ctx context.Context, err error) error {
	if err == nil {
		return ctx.Err()
	}
	return err
}

// say writes a line of text for the user.
func say(out io.Writer, line string) { _, _ = io.WriteString(out, show.Line(line)+"\n") }

// keyHeaders returns the headers of the cluster whose whole value is a routing key; none if the
// operator's configuration cannot be read.
func keyHeaders(ctx context.Context, access *rest.Config, operator string) []string {
	c, err := command.Client(access)
	if err != nil {
		return nil
	}
	cluster, err := clusterconfig.Installed(ctx, c, operator)
	if err != nil {
		return nil
	}
	return cluster.CustomHeaders
}

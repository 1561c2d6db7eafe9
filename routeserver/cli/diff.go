package cli

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
)

func (a *app) diffCommand() *cobra.Command {
	var differs bool
	c := &cobra.Command{
		Use:   "diff FROM [TO]",
		Short: "Show which decisions differ between two versions, and what made it so",
		Long: `Show which decisions differ between two versions of the table: for which baseline,
key and ports, from what to what, and the events that made it so. TO is the
newest version when it is left out. A FROM before the log began means its start.`,
		Example: `  switchyard diff 15m
  switchyard diff 14:03 14:10 --workload deployment/shop/customer
  switchyard diff 4y2kq7m9x1v3tz8b/120 now -o json`,
		Args: cobra.RangeArgs(1, 2),
	}
	filter := filterFlags(c)
	c.Flags().BoolVar(&differs, "exit-code", false, "exit with 1 when something differs")
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		req := &routingv1.DiffRequest{}
		if req.Filter, err = filter(); err != nil {
			return err
		}
		if req.From, err = a.at(args[0]); err != nil {
			return err
		}
		if len(args) > 1 {
			if req.To, err = a.at(args[1]); err != nil {
				return err
			}
		}
		client, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		got, err := a.diff(c.Context(), client, req)
		if err != nil {
			return err
		}
		if differs && (len(got.GetChanges()) > 0 || got.GetKeyHeaders() != nil) {
			return errNo
		}
		return nil
	}
	return c
}

// diff shows what differs between two versions.
func (a *app) diff(ctx context.Context, client routingv1.RoutingClient, req *routingv1.DiffRequest) (*routingv1.DiffResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, a.flags.patience)
	defer cancel()
	got, err := client.Diff(ctx, req)
	if err != nil {
		got, err = a.sinceStart(ctx, client, req, err)
	}
	if err != nil {
		return nil, err
	}
	return got, print(a, got, a.diffText)
}

func (a *app) diffText(d *routingv1.DiffResponse) string {
	var b strings.Builder
	for _, c := range d.GetChanges() {
		b.WriteString(a.changeText(c))
	}
	if e := d.GetKeyHeaders(); e != nil {
		lines := a.because(e)
		fmt.Fprintf(&b, "%s\n  because of %s\n           %s\n", a.paint(bold, statement(e.GetStatement())), lines[0], lines[1])
	}
	if len(d.GetChanges()) > 0 || d.GetKeyHeaders() != nil {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "%s\n  from  %s\n  to    %s\n", differ(len(d.GetChanges())), a.versionLine(d.GetFrom()), a.versionLine(d.GetTo()))
	return b.String()
}

func differ(n int) string {
	switch n {
	case 0:
		return "no decision differs"
	case 1:
		return "1 decision differs"
	}
	return fmt.Sprintf("%d decisions differ", n)
}

// changeText returns what a decision was, is, and what made it so.
func (a *app) changeText(c *routingv1.Change) string {
	var b strings.Builder
	head := nameOf(c.GetBaseline()) + ", key " + c.GetRoutingKey()
	if ports := c.GetWorkloadPorts(); len(ports) > 0 {
		head += ", port"
		for i, p := range ports {
			head += fmt.Sprintf("%s %d", []string{"", ","}[min(i, 1)], p)
		}
	}
	fmt.Fprintf(&b, "%s\n", a.paint(bold, head))
	was, is := ruleLine(c.GetOld(), c.GetWorkloadPorts()), ruleLine(c.GetNew(), c.GetWorkloadPorts())
	if was == is {
		was, is = unseen(c)
	}
	fmt.Fprintf(&b, "  %s\n", a.paint(red, "- "+was))
	fmt.Fprintf(&b, "  %s\n", a.paint(green, "+ "+is))
	for _, e := range c.GetBecause() {
		lines := a.because(e)
		fmt.Fprintf(&b, "    because of %s\n             %s\n", lines[0], lines[1])
	}
	return b.String()
}

// unseen returns how two rules differ that read alike: the member is another object of
// the same name, or a Service has another address.
func unseen(c *routingv1.Change) (was, is string) {
	old, now := c.GetOld(), c.GetNew()
	name := nameOf(now.GetMember()) + " of sandbox " + now.GetSandbox()
	if old.GetMember().GetUid() != now.GetMember().GetUid() {
		return name + ", " + identity(old), name + ", " + identity(now) + ": another object of that name"
	}
	return name + addresses(old, c.GetWorkloadPorts()), name + addresses(now, c.GetWorkloadPorts())
}

// identity returns which object of its name a rule's member is.
func identity(r *routingv1.Rule) string {
	if uid := r.GetMember().GetUid(); uid != "" {
		return "UID " + uid
	}
	return "made anew"
}

// addresses returns which addresses requests to these ports are sent to.
func addresses(r *routingv1.Rule, ports []uint32) string {
	var b strings.Builder
	for _, m := range r.GetMappings() {
		if len(ports) > 0 && !slices.Contains(ports, m.GetWorkloadPort()) {
			continue
		}
		fmt.Fprintf(&b, ", port %d to", m.GetWorkloadPort())
		for i, d := range m.GetDestinations() {
			fmt.Fprintf(&b, "%s %s at %s", []string{"", ","}[min(i, 1)], net.JoinHostPort(d.GetHost(), strconv.FormatUint(uint64(d.GetPort()), 10)), d.GetAddress())
		}
	}
	return b.String()
}

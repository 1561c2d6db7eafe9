// Package status has the command connect status: how the running connections of a workstation
// are, for people and for scripts, which may wait for them.
package status

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"switchyard.dev/routeserver/cli/exit"
	"switchyard.dev/routeserver/cli/session"
	"switchyard.dev/routeserver/cli/show"
	"switchyard.dev/routeserver/cmd/switchyard/local/privileges"
	"switchyard.dev/tunnels/workstation"
)

const aboutStatus = `Show what is connected on this workstation: each connect, proxy and run of yours. The exit code is
1 when none is, or one is not connected.

With --wait it waits for that, as a script does that starts connect in the background: until there
is a connection (connect), or until requests of all your sandboxes come here too (sandboxes). When
that does not come about in time, the exit code is 1, and what is missing is said.`

// Command returns the command.
func Command(s *session.Session) *cobra.Command {
	var until string
	var patience time.Duration
	c := &cobra.Command{
		Use: "status", Short: "Show what is connected on this workstation, or wait for it", Args: cobra.NoArgs, Long: aboutStatus,
		Example: "  switchyard connect &\n  switchyard connect status --wait sandboxes --wait-timeout 30s",
	}
	c.Flags().StringVar(&until, "wait", waitNone, "wait for `what`: connect, sandboxes or none")
	c.Flags().DurationVar(&patience, "wait-timeout", 10*time.Second, "how long to wait at most")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !slices.Contains([]string{waitNone, waitConnect, waitSandboxes}, until) {
			return exit.Usage.Errorf("--wait %q: it is connect, sandboxes or none", until)
		}
		all, missing, wrong := awaited(c.Context(), s, until, patience)
		var text strings.Builder
		for _, one := range all {
			for _, line := range lines(one) {
				text.WriteString(line + "\n")
			}
			fmt.Fprintf(&text, "connections: from the cluster %d now, %d in all, %d failed; into it %d now, %d in all, %d failed\n",
				one.Inbound.Active, one.Inbound.Total, one.Inbound.Failed, one.Outbound.Active, one.Outbound.Total, one.Outbound.Failed)
			if i := one.Inside; i != nil {
				fmt.Fprintf(&text, "names of %d Services, and %d single addresses; queries come to %s, connections to %s\n", i.Services, i.Addresses, i.DNS, i.Redirect)
			}
		}
		if len(all) == 0 && wrong == nil {
			text.WriteString("nothing is connected; " + s.Name + " connect does that\n")
		}
		if err := s.Show.Report(append([]workstation.Status{}, all...), text.String()); err != nil {
			return err
		}
		if wrong != nil {
			return wrong
		}
		if missing != "" && until != waitNone {
			return exit.No.Errorf("after %s %s", patience, missing)
		}
		return exit.No.Unless(missing == "")
	}
	return c
}

// lines says how a workstation is, a line for each part of it.
func lines(s workstation.Status) (out []string) {
	add := func(format string, values ...any) { out = append(out, show.Line(fmt.Sprintf(format, values...))) }
	switch {
	case s.Connected:
		add("connected to %s as %s", cmp.Or(s.Proxy, "a tunnel proxy"), cmp.Or(s.User, "somebody"))
	case s.Trouble != "":
		add("not connected: %s", s.Trouble)
	default:
		add("connecting")
	}
	if s.Connected && s.Unsure != "" {
		add("which sandboxes are yours is not known: %s", s.Unsure)
	}
	for _, w := range s.Workloads {
		for _, p := range w.Ports {
			what := fmt.Sprintf("%s/%s: port %d of %s", w.Sandbox, w.Name, p.Baseline, cmp.Or(w.Baseline, "its own"))
			switch {
			case !s.Connected:
				add("%s waits for the connection", what)
			case w.Open && w.Message == "":
				add("%s leads to %s, with routing key %s", what, p.Local, w.RoutingKey)
			case w.Open:
				add("%s leads to %s, but: %s", what, p.Local, w.Message)
			default:
				add("%s does not lead here: %s", what, w.Message)
			}
		}
	}
	for _, way := range s.Ways {
		if way.To != "" {
			add("%s on %s leads to %s", way.Kind, way.Address, way.To)
			continue
		}
		add("%s on %s leads into the cluster", way.Kind, way.Address)
	}
	return append(out, privileges.Lines(s.Inside)...)
}

// Tell writes what changes of a workstation, line by line, until ctx ends.
func Tell(ctx context.Context, out io.Writer, w *workstation.Workstation) {
	told := map[string]bool{}
	for {
		now, changed := w.Status()
		said := map[string]bool{}
		for _, line := range lines(now) {
			said[line] = true
			if !told[line] {
				_, _ = io.WriteString(out, line+"\n")
			}
		}
		told = said
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

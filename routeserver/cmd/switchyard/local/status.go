package local

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"switchyard.dev/routeserver/cli/exit"
	"switchyard.dev/routeserver/cli/session"
	"switchyard.dev/routeserver/cli/show"
	"switchyard.dev/routeserver/cmd/switchyard/local/privileges"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/socket"
)

func status(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Show what is connected on this workstation", Args: cobra.NoArgs,
		Long: "Show what is connected on this workstation: each connect, proxy and run of yours. The exit code is 1 when none is, or one is not connected.",
		RunE: func(*cobra.Command, []string) error {
			all, err := socket.All[workstation.Status](socket.Folder(s.Getenv))
			if err != nil {
				return err
			}
			connected := len(all) > 0
			var text strings.Builder
			for _, one := range all {
				connected = connected && one.Connected
				for _, line := range lines(one) {
					text.WriteString(line + "\n")
				}
				fmt.Fprintf(&text, "connections: from the cluster %d now, %d in all, %d failed; into it %d now, %d in all, %d failed\n",
					one.Inbound.Active, one.Inbound.Total, one.Inbound.Failed, one.Outbound.Active, one.Outbound.Total, one.Outbound.Failed)
				if i := one.Inside; i != nil {
					fmt.Fprintf(&text, "names of %d Services, and %d single addresses; queries come to %s, connections to %s\n", i.Services, i.Addresses, i.DNS, i.Redirect)
				}
			}
			if len(all) == 0 {
				text.WriteString("nothing is connected; " + s.Name + " connect does that\n")
			}
			if err := s.Show.Report(append([]workstation.Status{}, all...), text.String()); err != nil {
				return err
			}
			return exit.No.Unless(connected)
		},
	}
}

// lines says how a workstation is, a line for each part of it.
func lines(s workstation.Status) (out []string) {
	add := func(format string, values ...any) { out = append(out, show.Line(fmt.Sprintf(format, values...))) }
	switch {
	case s.Connected:
		add("connected to %s as %s", orElse(s.Proxy, "a tunnel proxy"), orElse(s.User, "somebody"))
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
			what := fmt.Sprintf("%s/%s: port %d of %s", w.Sandbox, w.Name, p.Baseline, orElse(w.Baseline, "its own"))
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

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// tell writes what changes of a workstation, line by line, until ctx ends.
func tell(ctx context.Context, out io.Writer, w *workstation.Workstation) {
	told := map[string]bool{}
	for {
		now, changed := w.Status()
		said := map[string]bool{}
		for _, line := range lines(now) {
			said[line] = true
			if !told[line] {
				say(out, line)
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

// say writes a line for people.
func say(out io.Writer, line string) { _, _ = io.WriteString(out, show.Line(line)+"\n") }

// Package status contains the command connect status: the state of the running connections of a
// workstation, for users and for scripts, which can wait for it.
package status

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/time/rate"

	"switchyard.dev/protos/problems"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/local/privileges"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/tunnels/workstation"
	"switchyard.dev/tunnels/workstation/socket"
)

const aboutStatus = `Show the connection of each connect, proxy and run that you have started on this machine. The exit
code is 1 if there is none, or if one is not connected.

--wait is for scripts that start connect in the background. It waits for a connection (connect), or
until requests to your sandboxes also arrive here (sandboxes). Sandboxes with addresses that you do
not allow, or with tunnels of another session, are listed and not waited for. A sandbox that was
applied a moment ago may not be known here yet: name it with --sandbox. On timeout the exit code is
1, and the output names the missing connections or sandboxes.`

// Command returns the command.
func Command(s *command.Session) *cobra.Command {
	var until string
	var patience time.Duration
	var named []string
	c := &cobra.Command{
		Use: "status", Short: "Show the connections of this machine, or wait for one", Args: cobra.NoArgs, Long: aboutStatus,
		Example: "  switchyard connect &\n  switchyard connect status --wait sandboxes --sandbox mine --wait-timeout 30s",
	}
	c.Flags().StringVar(&until, "wait", waitNone, "wait for this `state`: connect, sandboxes or none")
	c.Flags().DurationVar(&patience, "wait-timeout", 10*time.Second, "timeout of --wait")
	c.Flags().StringSliceVarP(&named, "sandbox", "s", nil, "with --wait sandboxes: a `sandbox` that must be among them, also one that is new; repeatable")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if !slices.Contains([]string{waitNone, waitConnect, waitSandboxes}, until) {
			return exit.Usage.Errorf("--wait %q: it is connect, sandboxes or none", until)
		}
		if len(named) > 0 && until != waitSandboxes {
			return exit.Usage.Errorf("--sandbox requires --wait sandboxes")
		}
		all, missing, wrong := awaited(c.Context(), s, until, named, patience)
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
		if until == waitSandboxes {
			for _, line := range uncounted(all) {
				_, _ = io.WriteString(s.Err, show.Line(line)+"\n")
			}
		}
		if missing != "" && until != waitNone {
			return exit.No.Errorf("after %s %s", patience, missing)
		}
		return exit.No.Unless(missing == "")
	}
	return c
}

// lines returns the status of a workstation as text, with a line for each part.
func lines(s workstation.Status) (out []string) {
	add := func(format string, values ...any) { out = append(out, show.Line(fmt.Sprintf(format, values...))) }
	switch {
	case s.Connected:
		add("connected to %s as %s", cmp.Or(s.Proxy, "a tunnel proxy"), cmp.Or(s.User, "an unknown user"))
	case s.Login && !s.Since.IsZero():
		add("not connected: %s. Log in again: the connection then comes back without a restart", s.Trouble)
	case s.Trouble != "":
		add("not connected: %s", s.Trouble)
	default:
		add("connecting")
	}
	if s.Connected && s.Unsure != "" {
		add("which sandboxes are yours is not known: %s", s.Unsure)
	}
	for _, w := range s.Workloads {
		if len(w.Ports) == 0 {
			add("%s/%s receives no requests here: %s", w.Sandbox, w.Name, w.Message)
		}
		for _, p := range w.Ports {
			what := fmt.Sprintf("%s/%s: port %d of %s", w.Sandbox, w.Name, p.Baseline, cmp.Or(w.Baseline, "its own"))
			switch {
			case p.Refused != "":
				add("%s is not opened: %s", what, p.Refused)
			case !s.Connected:
				add("%s waits for the connection", what)
			case w.Open && w.Message == "":
				add("%s is forwarded to %s, with routing key %s", what, p.Local, w.RoutingKey)
				if p.Trouble != "" {
					add("%s/%s: the last request found no process at %s (%s): start the local process, or change the mapping of the sandbox", w.Sandbox, w.Name, p.Local, p.Trouble)
				}
			case w.Open:
				add("%s is forwarded to %s, but: %s", what, p.Local, w.Message)
			default:
				add("%s is not routed here: %s", what, w.Message)
			}
		}
	}
	for _, way := range s.Ways {
		if way.To != "" {
			add("%s on %s forwards to %s", way.Kind, way.Address, way.To)
			continue
		}
		add("%s on %s forwards into the cluster", way.Kind, way.Address)
	}
	return append(out, show.Lines(privileges.Lines(s.Inside))...)
}

// ownPort is this machine's end of a connection, in an error about it: another one at each attempt.
var ownPort = regexp.MustCompile(`[0-9a-f.:\[\]]+:\d+->`)

// Report writes the changes of a workstation, line by line, until ctx ends, and returns whether the
// last lines had an error. Workloads of which the operator is about to report are left out.
func Report(ctx context.Context, out io.Writer, w *workstation.Workstation) (written func(error) bool) {
	told := map[string]bool{}
	for {
		now, changed := w.Status()
		now.Workloads = slices.DeleteFunc(now.Workloads, func(one workstation.WorkloadStatus) bool { return one.Settling })
		said := map[string]bool{}
		for _, line := range lines(now) {
			words := ownPort.ReplaceAllString(line, "")
			said[words] = true
			if !told[words] {
				_, _ = io.WriteString(out, line+"\n")
			}
		}
		told = said
		select {
		case <-changed:
		case <-ctx.Done():
			return func(err error) bool {
				line := show.Line("not connected: " + err.Error())
				return told[ownPort.ReplaceAllString(line, "")]
			}
		}
	}
}

const (
	// maxNoted bounds the hosts that are remembered.
	maxNoted = 1000
	// Refusals of so many hosts are written at once, and of a further one after each pause.
	atOnce, pause = 10, 10 * time.Second
)

// Refusals returns a function that prints why the cluster rejects an address, once for each host. A
// browser can request hundreds of hosts, so the rate is limited.
func Refusals(out io.Writer) func(host string, port uint16, err error) {
	var mu sync.Mutex
	noted := map[string]bool{}
	limit := rate.NewLimiter(rate.Every(pause), atOnce)
	return func(host string, port uint16, err error) {
		mu.Lock()
		defer mu.Unlock()
		if noted[host] || !limit.Allow() {
			return
		}
		if len(noted) >= maxNoted {
			clear(noted)
		}
		noted[host] = true
		_, _ = io.WriteString(out, show.Line(fmt.Sprintf("note: %s:%d is not reached through the tunnel: %v", host, port, err))+"\n")
	}
}

// Refused returns a *problems.Problem if the running programs of this user refuse a local address of a
// sandbox, or cannot be asked; nil if none runs, or one serves the workload.
func Refused(s *command.Session, sandbox string) error {
	all, err := socket.All[workstation.Status](socket.Folder(s.Getenv))
	for _, one := range all {
		for _, w := range one.Workloads {
			for _, p := range w.Ports {
				if w.Sandbox == sandbox && p.Refused != "" && !counted(all, w) {
					problem, remedy, _ := strings.Cut(p.Refused, ": ")
					return &problems.Problem{Message: problem, Fix: remedy}
				}
			}
		}
	}
	if err != nil {
		return &problems.Problem{Message: err.Error(), Fix: "end that program, and start " + s.Name + " connect again"}
	}
	return nil
}

package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"switchyard.dev/protos/problems"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/show"
)

// finding is what doctor finds of one part.
type finding struct {
	Check string `json:"check"`
	// State is ok, wrong, or skipped since a part that it needs is wrong.
	State string `json:"state"`
	// Says is the finding or the problem; Do is the remedy.
	Says string `json:"says,omitempty"`
	Do   string `json:"do,omitempty"`
}

// The states of a finding.
const (
	isOK      = "ok"
	isWrong   = "wrong"
	isSkipped = "skipped"
)

// check is one check of doctor, which runs once those it depends on have passed.
type check struct {
	name  string
	needs []string
	look  func(ctx context.Context) (says string, err error)
}

// wrong returns a problem with a part, and its remedy.
func wrong(message, fix string) error { return &problems.Problem{Message: message, Fix: fix} }

// perCheck is how long a part may take.
const perCheck = 25 * time.Second

// look goes through checks in their order.
func look(ctx context.Context, checks []check) (out []finding) {
	state := map[string]string{}
	for _, c := range checks {
		f := finding{Check: c.name, State: isOK}
		for _, needed := range c.needs {
			if s, asked := state[needed]; asked && s != isOK {
				f.State, f.Says = isSkipped, "needs: "+needed
				break
			}
		}
		if f.State == isOK {
			brief, cancel := context.WithTimeout(ctx, perCheck)
			says, err := c.look(brief)
			cancel()
			f.Says = says
			if err != nil {
				f.State = isWrong
				f.Says, f.Do, _ = strings.Cut(err.Error(), "\n")
				if p := (*problems.Problem)(nil); errors.As(err, &p) {
					f.Says, f.Do = p.Message, p.Fix
				}
			}
		}
		state[c.name] = f.State
		out = append(out, f)
	}
	return out
}

func doctor(s *command.Session) *cobra.Command {
	e := &examined{place: place{s: s}}
	c := &cobra.Command{
		Use: "doctor", Short: "Diagnose the connection between this machine and the cluster", Args: cobra.NoArgs,
		Long: `Diagnose the connection between this machine and the cluster. The parts are checked in the order
in which they are needed; each failed check is shown with its remedy. --sandbox also checks the
sandbox: its external workloads, and whether their local processes listen. Nothing is changed, and
no tunnel is taken from another program. The exit code is 1 if a check failed.`,
		Example: "  switchyard doctor --sandbox mine",
	}
	e.flags(c.Flags())
	c.Flags().BoolVar(&e.privileged, "privileged", false, "also check whether connect --privileged works here")
	c.Flags().StringVarP(&e.sandbox, "sandbox", "s", "", "`sandbox` to check")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := e.addressed(); err != nil {
			return err
		}
		defer e.end()
		found := look(c.Context(), e.checks())
		ok := true
		var text strings.Builder
		for _, f := range found {
			ok = ok && f.State == isOK
			fmt.Fprintf(&text, "%-8s %s", f.State, show.Line(f.Check))
			if f.Says != "" {
				text.WriteString(": " + show.Line(f.Says))
			}
			text.WriteString("\n")
			if f.Do != "" {
				text.WriteString("         " + show.Line(f.Do) + "\n")
			}
		}
		if err := s.Show.Report(found, text.String()); err != nil {
			return err
		}
		return exit.No.Unless(ok)
	}
	return c
}

// listens returns an error where nothing listens on an address of this machine.
func listens(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return wrong("nothing listens on "+address, "start the local process, or change the mapping of the sandbox")
	}
	return c.Close()
}

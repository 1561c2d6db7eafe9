// Package sidecars contains the commands that show the state of sidecars.
package sidecars

import (
	"slices"

	"github.com/spf13/cobra"

	routingv1 "switchyard.dev/protos/gen/routing/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tools/switchyard/command/parse"
	"switchyard.dev/tools/switchyard/show"
)

// List returns the command that lists sidecars.
func List(s *command.Session) *cobra.Command {
	c := &cobra.Command{
		Use:   "sidecars",
		Short: "List the sidecars, and what each has acknowledged",
		Long: `List the DevMesh sidecars that are connected to any route server, and whether each
has acknowledged its current rules. Exit code 1 if one has not, or if a route server
did not respond.`,
		Args: cobra.NoArgs,
	}
	filter := parse.Filter(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		f, err := filter()
		if err != nil {
			return err
		}
		got, err := command.Ask(c.Context(), s, routingv1.RoutingClient.Sidecars, &routingv1.SidecarsRequest{Filter: f})
		if err != nil {
			return err
		}
		if err := show.Answer(s.Show, got, s.Show.Sidecars); err != nil {
			return err
		}
		lags := slices.ContainsFunc(got.GetSidecars(), func(s *routingv1.Sidecar) bool { return !s.GetCurrent() })
		return exit.No.Unless(!lags && len(got.GetSilent()) == 0)
	}
	return c
}

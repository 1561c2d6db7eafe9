package privileges

import (
	"github.com/spf13/cobra"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tunnels/workstation/redirector/guardian"
)

// Guard returns the hidden command that connect --privileged starts to remove its pf rules when it
// ends.
func Guard(s *command.Session) *cobra.Command {
	return &cobra.Command{
		Use: guardian.Command + " PFCTL LOCK ANCHOR", Hidden: true, Args: cobra.ExactArgs(3),
		Short: "Take rules of pf away when the program that had them loaded ends",
		RunE: func(_ *cobra.Command, args []string) error {
			return guardian.Serve(guardian.Config{PFCtl: args[0], Lock: args[1], Anchor: args[2]}, s.In, s.Out)
		},
	}
}

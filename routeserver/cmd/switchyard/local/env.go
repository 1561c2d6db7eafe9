package local

import (
	"github.com/spf13/cobra"

	"switchyard.dev/routeserver/cli/session"
	"switchyard.dev/routeserver/cmd/switchyard/specs"
	"switchyard.dev/tunnels/workstation/standin"
)

const aboutEnv = `Print the environment of the container whose place an external workload takes, as
lines NAME='value' that a shell reads, or with their sources as -o json. It is read with
your own rights. What a pod's own fields would say, says the workstation; the variables of
its image and of Services are not known here.`

func getEnv(s *session.Session) *cobra.Command {
	var w stands
	var sources bool
	c := &cobra.Command{
		Use: "get-env NAME", Short: "Print the environment of an external workload's baseline", Args: cobra.ExactArgs(1), Long: aboutEnv,
		Example: "  set -a; eval \"$(switchyard sandbox get-env mine)\"; set +a",
	}
	w.flags(c.Flags(), "local", "l")
	c.Flags().BoolVarP(&sources, "show-source", "s", false, "say in a comment where each value is from")
	c.RunE = func(c *cobra.Command, args []string) error {
		cluster, err := specs.Connect(s)
		if err != nil {
			return err
		}
		ctx, cancel := s.Patiently(c.Context())
		defer cancel()
		r, _, err := w.resolve(ctx, cluster, args[0])
		if err != nil {
			return err
		}
		for _, note := range r.Notes {
			say(s.Err, "note: "+note)
		}
		return s.Show.Report(append([]standin.Var{}, r.Env...), standin.Shell(r.Env, sources))
	}
	return c
}

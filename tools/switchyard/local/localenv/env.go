package localenv

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/tunnels/workstation/containerenv"
)

// Commands returns the commands of this package, which belong to the command sandbox.
func Commands(s *command.Session) []*cobra.Command {
	return []*cobra.Command{getEnv(s), getFiles(s)}
}

// Note prints a difference from the environment of the pod.
func Note(s *command.Session, note string) {
	_, _ = io.WriteString(s.Err, show.Line("note: "+note)+"\n")
}

// Warn writes the notes of a result to standard error, and names the variables that were withheld.
func Warn(s *command.Session, r containerenv.Result) {
	for _, note := range r.Notes {
		Note(s, note)
	}
	if len(r.Withheld) > 0 {
		_, _ = io.WriteString(s.Err, show.Line("warning: variables from the cluster that can make programs of this machine run code are left out: "+
			strings.Join(r.Withheld, ", ")+". Give --allow-env NAME for each one that you need and trust.")+"\n")
	}
}

const aboutEnv = `Print the environment of the container that an external workload replaces, as lines NAME='value'
for a shell, or with sources as -o json; it includes the env that the sandbox defines for the
workload (local). It is read with your own rights. Variables from fields of the pod get values of
this machine; variables of the image and of Services are not known here.

Variables from which loaders, shells or interpreters run code, such as LD_PRELOAD or BASH_ENV, are
omitted and listed on standard error, unless --allow-env names them.`

func getEnv(s *command.Session) *cobra.Command {
	var w Workload
	var sources bool
	c := &cobra.Command{
		Use: "get-env NAME", Short: "Print the environment of an external workload's baseline", Args: cobra.ExactArgs(1), Long: aboutEnv,
		Example: "  set -a; eval \"$(switchyard sandbox get-env mine)\"; set +a",
	}
	w.Flags(c.Flags(), "local", "l")
	c.Flags().BoolVarP(&sources, "show-source", "s", false, "add the source of each value as a comment")
	c.RunE = s.InCluster(func(ctx context.Context, cluster client.WithWatch, args []string) error {
		r, _, err := w.Resolve(ctx, cluster, args[0])
		if err != nil {
			return err
		}
		Warn(s, r)
		text := containerenv.Shell(r.Env, sources)
		if s.Terminal { // A shell gets the values as they are.
			text = show.Plain(text)
		}
		return s.Show.Report(append([]containerenv.Var{}, r.Env...), text)
	})
	return c
}

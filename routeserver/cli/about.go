package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version of the client this is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := builtFrom(debug.ReadBuildInfo())
			return a.printReport(v, fmt.Sprintf("switchyard %s, commit %s, %s\n", v.Version, v.Commit, v.Go))
		},
	}
}

// build is what a program was built from.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

func builtFrom(info *debug.BuildInfo, ok bool) build {
	out := build{Version: "(devel)", Commit: "unknown", Go: "unknown"}
	if !ok {
		return out
	}
	out.Go = info.GoVersion
	if info.Main.Version != "" {
		out.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			out.Commit = s.Value
		}
	}
	return out
}

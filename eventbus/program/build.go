package program

import (
	"cmp"
	"runtime/debug"
)

// Build describes the source of a program. Unknown fields are empty.
type Build struct {
	// Version is that of the module, or "(devel)".
	Version string
	// Commit is the commit, and Date its date, as RFC 3339. Both are empty in programs of
	// images that are built without version control.
	Commit, Date string
}

// Built returns what this program was built from.
func Built() Build { return builtFrom(debug.ReadBuildInfo()) }

func builtFrom(info *debug.BuildInfo, ok bool) Build {
	out := Build{Version: "(devel)"}
	if !ok {
		return out
	}
	out.Version = cmp.Or(info.Main.Version, out.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			out.Commit = s.Value
		case "vcs.time":
			out.Date = s.Value
		}
	}
	return out
}

package main

import (
	"slices"

	"github.com/spf13/cobra"

	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/local"
	"switchyard.dev/tools/switchyard/local/standing"
	"switchyard.dev/tools/switchyard/sandboxes"
	"switchyard.dev/tools/switchyard/sandboxes/steps"
)

// further returns the commands that need more than a route server.
func further(s *command.Session) []*cobra.Command {
	about := sandboxes.Commands(s, standing.Commands(s)...)
	return slices.Concat(about, steps.Commands(s), local.Commands(s, keyHeaders))
}

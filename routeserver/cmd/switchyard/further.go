package main

import (
	"slices"

	"github.com/spf13/cobra"

	"switchyard.dev/routeserver/cli/session"
	"switchyard.dev/routeserver/cmd/switchyard/local"
	"switchyard.dev/routeserver/cmd/switchyard/local/standing"
	"switchyard.dev/routeserver/cmd/switchyard/specs"
	"switchyard.dev/routeserver/cmd/switchyard/steps"
)

// further returns the commands that need more than a route server.
func further(s *session.Session) []*cobra.Command {
	sandboxes := specs.Commands(s, standing.Commands(s)...)
	return slices.Concat(sandboxes, steps.Commands(s), local.Commands(s, keyHeaders))
}

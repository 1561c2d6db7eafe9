// Command redirect is the init container sd-sidecar-init: it turns the pod's
// inbound TCP connections to the sidecar and ends. What to redirect stands in
// its environment (package spec). It ends with 0 only when the rules are in
// force.
package main

import (
	"log/slog"
	"os"

	"switchyard.dev/sidecars/redirect"
	"switchyard.dev/sidecars/redirect/spec"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	s, err := spec.Parse(os.Getenv)
	if err != nil {
		log.Error("the environment variables for the redirection are not valid", "error", err)
		os.Exit(2)
	}
	done, err := redirect.Apply(s, redirect.Config{})
	if err != nil {
		log.Error("inbound connections are not redirected", "error", err)
		os.Exit(1)
	}
	log.Info("inbound connections are redirected to the sidecar", "port", s.To,
		"mode", done.Mode, "why", done.Why, "rules", done.Rules)
}

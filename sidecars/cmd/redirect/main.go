// Command redirect is the init container sd-sidecar-init: it redirects the pod's
// inbound TCP connections to the sidecar and ends. Its environment has what to
// redirect (package spec). It ends with 0 only when the rules are in
// force. As the init container job-executor-redirect of a runner of jobs it redirects the
// connections of scripts; if the kernel cannot do that, it ends with 0 too, without the
// folder that records the redirection.
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
	if s.Done != "" {
		if err := os.MkdirAll(s.Done, 0o755); err != nil {
			log.Error("the folder that records the redirection cannot be created", "error", err)
			os.Exit(1)
		}
	}
	done, err := redirect.Apply(s, redirect.Config{})
	if err != nil && s.Done != "" && redirect.Unsupported(err) {
		if err := os.Remove(s.Done); err != nil {
			log.Error("the folder that records the redirection cannot be deleted", "error", err)
			os.Exit(1)
		}
		log.Warn("connections of scripts are not redirected: only clients that obey http_proxy use the proxy", "error", err)
		return
	}
	if err != nil {
		log.Error("connections are not redirected", "error", err)
		os.Exit(1)
	}
	log.Info("connections are redirected", "outgoing", s.Outgoing != 0, "port", s.To,
		"mode", done.Mode, "why", done.Why, "rules", done.Rules)
}

// Command consumer is a message consumer as users write them: it receives no requests, so it has
// neither a Service nor a sidecar. Each message is delivered to every variant of it, the baseline
// and its forks; the routing key in the message's baggage header and the rules of the route server
// decide which variant processes it. It responds to each message with its name and whether it
// processed it, for the tests on a real cluster.
//
//	BROKER                  the NATS server, as host:port
//	SUBJECT                 the subject of the messages
//	ROUTESERVER             the REST API of the route server, as host:port
//	SIGNADOT_BASELINE_KIND, SIGNADOT_BASELINE_NAMESPACE, SIGNADOT_BASELINE_NAME
//	                        the workload that it is a variant of
//	SIGNADOT_SANDBOX_NAME   the sandbox that it is a fork of; empty: the baseline
//	VERSION                 the version in its responses
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("cannot consume", "error", err)
		os.Exit(1)
	}
}
